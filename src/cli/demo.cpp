// makar demo: the life of a small model in ten stages. Each one runs commands of this program, prints them,
// and ends with a number; an interrupted demo resumes at its stage.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "base/version.h"
#include "cli/demo_run.h"
#include "cli/model_options.h"
#include "cli/run.h"

namespace makar {
namespace {

// The finished stages, in DIR/demo.json.
class DemoState {
 public:
  static Result<DemoState> open(const DemoSettings& settings) {
    DemoState out(settings.folder + "/demo.json");
    if (is_file(out.path_)) {
      MAKAR_TRY(out.json_, read_json(out.path_));
      if (!out.json_.is_object() || !out.json_.contains("stages") || !out.json_["stages"].is_object())
        return error_at(out.path_, "is not the state of a demo; remove the folder or use another --dir");
      if (out.json_.value("quick", false) != settings.quick)
        return error_at(out.path_, "belongs to a demo {} --quick; use another --dir",
                        settings.quick ? "without" : "with");
    } else {
      out.json_ = {{"makar", kMakarVersion}, {"quick", settings.quick}, {"stages", Json::object()}};
    }
    return out;
  }
  // The record of a finished stage, or null.
  const Json* finished(const DemoStage& stage) const {
    const auto at = json_["stages"].find(stage.name);
    return at == json_["stages"].end() || !at->is_object() ? nullptr : &*at;
  }
  Status store(const DemoStage& stage, double seconds, const std::vector<DemoFigure>& figures) {
    Json list = Json::array();
    for (const DemoFigure& f : figures)
      list.push_back({{"name", f.name}, {"value", f.value}, {"command", f.command}});
    json_["stages"][stage.name] = {{"seconds", seconds}, {"figures", std::move(list)}};
    return write_file(path_, dump(json_, 2) + "\n");
  }
  // Removes a stage from the record of finished stages, and its output.
  Status forget(const DemoStage& stage, const std::string& folder) {
    std::error_code bad;
    for (const std::string& name : stage.outputs) std::filesystem::remove_all(folder + "/" + name, bad);
    json_["stages"].erase(stage.name);
    return write_file(path_, dump(json_, 2) + "\n");
  }

 private:
  explicit DemoState(std::string path) : path_(std::move(path)) {}
  std::string path_;
  Json json_;
};

std::string minutes_text(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

// Writes report.md: every figure and the command that produced it.
Status write_report(const DemoState& state, const DemoSettings& settings) {
  std::string out = fmt::format("# The demo of makar {}\n\n", kMakarVersion);
  if (settings.quick) out += "Made with `--quick`: the numbers say nothing about the models.\n\n";
  double total = 0;
  size_t number = 0;
  for (const DemoStage& stage : demo_stages()) {
    ++number;
    const Json* done = state.finished(stage);
    if (!done) continue;
    const double seconds = done->value("seconds", 0.0);
    total += seconds;
    out += fmt::format("## {}. {}\n\n{}\n\nTook {}.\n\n", number, stage.headline, stage.what,
                       minutes_text(seconds));
    for (const Json& f : done->value("figures", Json::array()))
      out += fmt::format("- {}: **{}**\n\n```sh\n{}\n```\n\n", f.value("name", ""), f.value("value", ""),
                         f.value("command", ""));
  }
  out += fmt::format("All stages took {}.\n", minutes_text(total));
  return write_file(settings.folder + "/report.md", out);
}

void print_list() {
  size_t number = 0;
  for (const DemoStage& stage : demo_stages())
    fmt::print("{:>2}  {:<10} {}\n", ++number, stage.name, stage.headline);
}

void print_earlier(const DemoStage& stage, size_t number, const Json& done) {
  fmt::print("{:>2}/{} {}: already done\n", number, demo_stages().size(), stage.name);
  for (const Json& f : done.value("figures", Json::array()))
    fmt::print("      {}: {}\n", f.value("name", ""), f.value("value", ""));
}

int run_stages(DemoRun& demo, size_t from) {
  const DemoSettings& settings = demo.settings();
  if (const Status s = make_folder(settings.folder); !s.ok()) return report(s.error());
  auto state = DemoState::open(settings);
  if (!state.ok()) return report(state.error());
  const std::vector<DemoStage>& stages = demo_stages();
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool again = from > 0 && i + 1 >= from;
    if (from > 0 && i + 1 < from && !state->finished(stages[i]))
      return report(error_at("--from", "stage {} ({}) is not done; start with it or an earlier one", i + 1,
                             stages[i].name)),
             2;
    if (again)
      if (const Status s = state->forget(stages[i], settings.folder); !s.ok()) return report(s.error());
  }
  for (size_t i = 0; i < stages.size(); ++i) {
    const DemoStage& stage = stages[i];
    const bool last = i + 1 == stages.size();  // the server runs again
    if (const Json* done = state->finished(stage); done && !last) {
      print_earlier(stage, i + 1, *done);
      continue;
    }
    fmt::print("\n--- {}/{} {}\n", i + 1, stages.size(), stage.headline);
    demo.say(stage.what);
    fmt::print("\n");
    const auto begin = std::chrono::steady_clock::now();
    const Status ran = stage.run(demo);
    if (!ran.ok()) {
      demo.wait();
      if (!demo_interrupted()) return report(ran.error());
      fmt::print(stderr, "\nmakar: the demo stopped in stage {} ({}); the same command resumes there\n",
                 i + 1, stage.name);
      return 130;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (const Status s = state->store(stage, seconds, demo.take_figures()); !s.ok()) return report(s.error());
    fmt::print("stage {} took {}\n", i + 1, minutes_text(seconds));
  }
  if (const Status s = write_report(*state, settings); !s.ok()) return report(s.error());
  fmt::print("\nEvery figure with its command: {}/report.md\n", settings.folder);
  fmt::print("Talk to the model: {} chat {}/world-q8_0.gguf\n", demo.program_name(), settings.folder);
  demo.say(
      "It answers questions like the one of stage 1, about stories in the same words. A larger model comes "
      "with the program: " +
      demo.program_name() + " chat");
  std::fflush(stdout);
  demo.wait();
  return 0;
}

}  // namespace

int run_demo(const std::vector<std::string>& arguments) {
  DemoSettings settings;
  bool list = false, no_serve = false;
  int64_t from = 0;
  Options options(
      "demo",
      "Make a small language model in ten stages: data, tokenizer, pretraining, instruction tuning, "
      "alignment, evaluation, quantization, a look inside, retrieval, serving. Each stage prints the "
      "commands that it runs. An interrupted demo resumes at its stage.",
      "makar demo --dir runs/demo");
  options.add("-o --dir", &settings.folder, "folder of the demo", "DIR");
  options.add("--list", &list, "list the stages");
  options.add("--from", &from, "run stage N and the later ones again; 0 resumes where the demo stopped", "N");
  options.add("--no-serve", &no_serve, "end the server after its request instead of leaving it running");
  options.add("--port", &settings.port, "port of the server; the next free one if it is in use", "N");
  options.add("--quick", &settings.quick,
              "run a few steps per stage, to check that all commands work; the model is useless");
  declare_threads(options, settings.threads);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  settings.serve = !no_serve;
  if (list) return print_list(), 0;
  if (from < 0 || from > static_cast<int64_t>(demo_stages().size()))
    return report(error_at("--from", "expected 0 to {}, got {}", demo_stages().size(), from)), 2;
  if (settings.port < 1 || settings.port > 65535)
    return report(error_at("--port", "expected 1 to 65535, got {}", settings.port)), 2;
  if (settings.folder.empty()) return report(error_at("--dir", "expected a folder")), 2;
  DemoRun demo(settings);
  return run_stages(demo, static_cast<size_t>(from));
}

}  // namespace makar
