// The stages of `makar demo` that measure and use the model.
#include "cli/demo_use_stages.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "cli/json_lines.h"

namespace makar {
namespace {

constexpr const char* kTask = "world_questions";

// The rest of the line after `name` in the output of a command; "" if there is none.
std::string text_after(const std::string& output, const std::string& name) {
  const size_t at = output.find(name);
  if (at == output.npos) return "";
  const size_t from = output.find_first_not_of(' ', at + name.size()), end = output.find('\n', at);
  return from == output.npos || from >= end ? "" : output.substr(from, end - from);
}

double megabytes(const std::string& path) {
  std::error_code bad;
  const auto bytes = std::filesystem::file_size(path, bad);
  return bad ? 0 : static_cast<double>(bytes) / 1e6;
}

Result<double> decode_speed(DemoRun& demo, const std::string& model) {
  std::string out;
  MAKAR_RETURN_IF_ERROR(demo.makar_threads(
      {"bench", demo.path(model), "-p", "0", "-n", "128", "-b", "1", "--json"}, &out, false));
  MAKAR_TRY(const Json figures, parse_json(out.substr(0, out.find('\n')), "makar bench"));
  return figures.value("tokens_per_second", 0.0);
}

// A free port of this machine, from `first` on.
Result<int64_t> free_port(int64_t first) {
  for (int64_t port = first; port < std::min<int64_t>(first + 100, 65536); ++port) {
    const int one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (one < 0) break;
    const int yes = 1;
    ::setsockopt(one, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address = {};
    address.sin_family = AF_INET, address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool good = ::bind(one, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(one);
    if (good) return port;
  }
  return error_of(Error::Kind::kIo, "--port", "the ports from {} on are in use; give another one", first);
}

// Waits until the server accepts connections; false if it ended before.
bool wait_for_server(int server, int64_t port) {
  for (int tries = 0; tries < 600; ++tries) {
    if (waitpid(server, nullptr, WNOHANG) == server) return false;
    const int one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET, address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool open =
        one >= 0 && ::connect(one, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    if (one >= 0) ::close(one);
    if (open) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

// Whether the record asks who did something that no other story tells: the words after the verb ("some bulbs"
// of "Who planted some bulbs?") occur in one text only.
bool asks_of_one_story(const Json& record, const std::vector<Json>& records) {
  const std::string question = record.value("question", "");
  if (record.value("kind", "") != "who_did" || !question.starts_with("Who ")) return false;
  const size_t verb_end = question.find(' ', 4);
  if (verb_end == question.npos) return false;
  const std::string rest = question.substr(verb_end, question.size() - verb_end - 1);
  return std::count_if(records.begin(), records.end(), [&](const Json& other) {
           return other.value("context", "").find(rest) != std::string::npos;
         }) == 1;
}

// The first line without the space that a continuation begins with.
std::string first_line(const std::string& text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(begin, text.find('\n', begin) - begin);
}

struct StoryQuestion {
  std::string text, answer, file;  // the file of the story
};

}  // namespace

Result<std::vector<Json>> read_records(const std::string& path) {
  std::vector<Json> out;
  MAKAR_RETURN_IF_ERROR(each_json_line(path, [&](Json record, const std::string&) -> Status {
    out.push_back(std::move(record));
    return Done{};
  }));
  if (out.empty()) return error_at(path, "is empty");
  return out;
}

Result<RunFigures> read_log(const std::string& folder) {
  MAKAR_TRY(const auto lines, read_records(folder + "/log.jsonl"));
  RunFigures out;
  for (const Json& line : lines) {
    const auto number = [](const Json& from, const char* key, auto&& use) {
      if (const auto found = from.find(key); found != from.end() && found->is_number())
        use(found->get<double>());
    };
    if (line.contains("lr")) number(line, "loss", [&](double v) { out.losses.push_back(v); });
    if (line.contains("metrics"))
      number(line["metrics"], "reward", [&](double v) { out.rewards.push_back(v); });
    if (line.contains("validation"))
      number(line["validation"], "loss", [&](double v) { out.validation_loss = v; });
  }
  return out;
}

std::string Accuracy::text() const { return fmt::format("{:.1f} % ± {:.1f}", 100 * value, 196 * error); }

Result<Accuracy> demo_accuracy(DemoRun& demo, const std::string& model, const std::string& output) {
  std::string table;
  MAKAR_RETURN_IF_ERROR(
      demo.makar_threads({"eval", "-m", demo.path(model), "--tasks", demo.path("world_questions.yaml"),
                          "--data", demo.settings().folder, "--log-samples", "--output", demo.path(output)},
                         &table, false));
  MAKAR_TRY(const Json results, read_json(demo.path(output) + "/results.json"));
  const auto all = results.find("results");
  if (all == results.end() || !all->contains(kTask))
    return error_at(demo.path(output) + "/results.json", "has no results of {}", kTask);
  const Json& task = (*all)[kTask];
  return Accuracy{task.value("exact_match,none", 0.0),
                  task.contains("exact_match_stderr,none") && task["exact_match_stderr,none"].is_number()
                      ? task["exact_match_stderr,none"].get<double>()
                      : 0.0};
}

Status demo_evaluate(DemoRun& demo) {
  MAKAR_TRY(const Accuracy aligned, demo_accuracy(demo, "aligned", "eval-aligned"));
  demo.figure("right answers of the aligned model", aligned.text());
  std::string out;
  MAKAR_RETURN_IF_ERROR(demo.makar(
      {"eval", "compare", demo.path("eval-chat"), demo.path("eval-aligned"), "--json"}, &out, false));
  MAKAR_TRY(const Json compared, parse_json(out, "makar eval compare"));
  const Json side = compared.value("/scores/0/models/1"_json_pointer, Json::object());
  if (side.contains("interval") && side["interval"].is_object())
    demo.figure(
        "difference to the model before alignment",
        fmt::format("{:+.1f} points, 95 % interval: {:+.1f} to {:+.1f}", 100 * side.value("difference", 0.0),
                    100 * side["interval"].value("low", 0.0), 100 * side["interval"].value("high", 0.0)));
  return Done{};
}

Status demo_quantize(DemoRun& demo) {
  MAKAR_TRY(const double before, decode_speed(demo, "aligned"));
  demo.figure("f32", fmt::format("{:.2f} MB, {:.0f} tokens per second",
                                 megabytes(demo.path("aligned/model.safetensors")), before));
  for (const char* type : {"q8_0", "q4_0"}) {
    const std::string file = fmt::format("world-{}.gguf", type);
    std::string out;
    MAKAR_RETURN_IF_ERROR(
        demo.makar_threads({"quantize", demo.path("aligned"), demo.path(file), "--type", type, "--report",
                            demo.path("text-test.txt"), "--report-tokens", "2048", "-c", "128"},
                           &out));
    const std::string loss = text_after(out, "perplexity");
    MAKAR_TRY(const double speed, decode_speed(demo, file));
    demo.figure(type, fmt::format("{:.2f} MB, {:.0f} tokens per second, perplexity {}",
                                  megabytes(demo.path(file)), speed, loss));
  }
  return Done{};
}

Status demo_look(DemoRun& demo) {
  std::string out;
  MAKAR_RETURN_IF_ERROR(
      demo.makar_threads({"inspect", demo.path("aligned"), "--layer", "0", "--head", "0", "--attention",
                          "Anna swept the floor. Ben dug a trench.\nWho dug a trench?\nAnswer:"},
                         &out));
  const std::string found = text_after(out, "strongest:");
  if (!found.empty()) demo.figure("the last token attends most to", found);
  return Done{};
}

Status demo_retrieve(DemoRun& demo) {
  const std::string records_file = demo.path("stories/records.jsonl"), texts = demo.path("stories/texts");
  MAKAR_RETURN_IF_ERROR(
      demo.makar({"data", "world", "--form", "questions", "-n", "60", "--seed", "6", "--events", "3",
                  "--kinds", kDemoKinds, "--split", "test", "-o", records_file}));
  MAKAR_TRY(const auto records, read_records(records_file));
  // A folder of stories, and the questions that one story alone answers as a test collection in BEIR's form.
  std::string queries, judgements = "query-id\tcorpus-id\tscore\n";
  std::vector<StoryQuestion> questions;
  MAKAR_RETURN_IF_ERROR(make_folder(texts));
  for (size_t i = 0; i < records.size(); ++i) {
    const Json& record = records[i];
    const std::string file = fmt::format("{}/story-{:02}.txt", texts, i + 1);
    MAKAR_RETURN_IF_ERROR(write_file(file, record.value("context", "") + "\n"));
    if (!asks_of_one_story(record, records)) continue;
    questions.push_back({record.value("question", ""), record.value("answer", ""), file});
    queries += dump({{"_id", std::to_string(i + 1)}, {"text", questions.back().text}}) + "\n";
    judgements += fmt::format("{}\t{}\t1\n", i + 1, file);
  }
  if (questions.empty()) return error_at(records_file, "has no question that only one story answers");
  MAKAR_RETURN_IF_ERROR(make_folder(demo.path("stories/qrels")));
  MAKAR_RETURN_IF_ERROR(write_file(demo.path("stories/queries.jsonl"), queries));
  MAKAR_RETURN_IF_ERROR(write_file(demo.path("stories/qrels/test.tsv"), judgements));
  demo.say(fmt::format("{} stories are in {}, one per file; {} questions are about one of them alone.",
                       records.size(), texts, questions.size()));
  MAKAR_RETURN_IF_ERROR(demo.makar({"index", "add", demo.path("stories.db"), texts, "--chunk", "whole"}));
  std::string out;
  MAKAR_RETURN_IF_ERROR(demo.makar(
      {"search", demo.path("stories.db"), "--eval", demo.path("stories"), "--depth", "1", "--json"}, &out,
      false));
  MAKAR_TRY(const Json measured, parse_json(out, "makar search --eval"));
  const auto count = static_cast<double>(questions.size());
  demo.figure("the right story found first",
              fmt::format("for {:.0f} of {:.0f} questions", measured.value("mrr@10", 0.0) * count, count));
  const StoryQuestion& one = questions.front();
  MAKAR_RETURN_IF_ERROR(demo.makar_threads({"ask", demo.path("stories.db"), "-m", demo.path("aligned"), "-k",
                                            "1", "-n", "16", "--stop", "\n", one.text},
                                           &out));
  demo.figure("answer from the stories",
              fmt::format("{} Expected: {} Source: {}, {}", first_line(out), one.answer,
                          one.file.substr(texts.size() + 1),
                          out.find(one.file) != out.npos ? "the right one" : "which was not found"));
  return Done{};
}

Status demo_serve(DemoRun& demo) {
  MAKAR_TRY(const int64_t port, free_port(demo.settings().port));
  MAKAR_TRY(const auto records, read_records(demo.path("questions/questions.jsonl")));
  const Json& record = records.front();
  CommandWords words = {"serve",   "-m",   demo.path("world-q8_0.gguf"), "--port", std::to_string(port),
                        "--alias", "world"};
  if (demo.settings().threads > 0) words.insert(words.end(), {"-t", std::to_string(demo.settings().threads)});
  MAKAR_TRY(const int server, demo.start(words));
  if (!wait_for_server(server, port))
    return error_of(Error::Kind::kIo, "demo", "the server ended; its message is above");
  const std::string url = fmt::format("http://127.0.0.1:{}", port);
  const Json body = {
      {"model", "world"},
      {"max_tokens", 24},
      {"temperature", 0},
      {"messages", Json::array({{{"role", "user"}, {"content", record.value("prompt", "")}}})}};
  std::string out;
  MAKAR_RETURN_IF_ERROR(write_file(demo.path("request.json"), dump(body, 1) + "\n"));
  Status asked = demo.program({"curl", "-s", url + "/v1/chat/completions", "-H",
                               "Content-Type: application/json", "-d", "@" + demo.path("request.json")},
                              &out);
  if (asked.ok()) {
    if (const auto answer = parse_json(out, "the server's answer");
        answer.ok() && answer->contains("choices"))
      demo.figure(
          "answer over HTTP",
          fmt::format("{} Expected: {}", first_line((*answer)["choices"][0]["message"].value("content", "")),
                      record.value("answer", "")));
  } else if (!demo_interrupted()) {
    demo.say("The request needs the program curl, which is not installed; the server runs without it.");
    asked = Done{};
  }
  if (demo.settings().serve && asked.ok()) {
    fmt::print("\nThe page and the API: {}   (Ctrl-C ends the server)\n", url);
    std::fflush(stdout);
  } else {
    ::kill(server, SIGTERM);
  }
  demo.keep_running(server);
  return asked;
}

}  // namespace makar
