#include "cli/chat_session.h"

#include <charconv>
#include <cmath>

#include "base/file.h"
#include "base/json.h"
#include "base/shown.h"
#include "llm/session.h"

namespace makar {
namespace {

std::string token_text(const LanguageModel& language, int64_t id) {
  const uint32_t one[] = {static_cast<uint32_t>(id)};
  return Json(language.tokenizer().decode(one)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

ChatSession::ChatSession(Engine& engine, const LanguageModel& language, WriteOptions options)
    : engine_(engine), language_(language), options_(std::move(options)) {
  options_.fit = true;
  if (options_.logprobs < 0 && options_.beams == 1) options_.logprobs = 5;  // for /why
}

void ChatSession::set_system(const std::string& text) {
  if (!messages_.empty() && messages_[0]["role"] == "system") messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), {{"role", "system"}, {"content", text}});
}

Status ChatSession::say(const std::string& message, const std::function<bool(const std::string&)>& show) {
  ChatInput input;
  input.messages = messages_;
  input.messages.push_back({{"role", "user"}, {"content", message}});
  input.add_generation_prompt = true;
  MAKAR_TRY(const auto prompt, language_.encode_chat(input));
  WriteOptions o = options_;
  o.on_text = [&](int64_t, const std::string& text) { return show(text); };
  MAKAR_TRY(last_, write_text(engine_, language_, prompt, o));
  messages_ = std::move(input.messages);
  messages_.push_back({{"role", "assistant"}, {"content", last_.answers[0].text}});
  ++options_.sampler.seed;  // another answer to the same question may differ
  return Done{};
}

std::string ChatSession::help() {
  return "/system TEXT  what the model is told first     /save FILE   keep the conversation\n"
         "/temp F       temperature                      /load FILE   take one up again\n"
         "/tokens       what the last answer cost        /clear       begin anew\n"
         "/why          the alternatives at each token   /quit        leave (or Ctrl-D)\n"
         "A line that ends in \\ goes on. Ctrl-C stops an answer.\n";
}

Result<std::string> ChatSession::command(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string name = line.substr(0, space),
                    rest = space == std::string::npos ? "" : line.substr(space + 1);
  if (name == "/help") return help();
  if (name == "/system")
    return set_system(rest), std::string(rest.empty() ? "system text removed\n" : "system text set\n");
  if (name == "/clear") return messages_ = Json::array(), last_ = {}, std::string("a new conversation\n");
  if (name == "/temp") return temperature(rest);
  if (name == "/save") return save(rest);
  if (name == "/load") return load(rest);
  if (name == "/tokens") return tokens();
  if (name == "/why") return why();
  return error_at(shown(name), "is no command; /help lists them");
}

Result<std::string> ChatSession::temperature(const std::string& text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 100))
    return error_at("/temp", "expects a number from 0 to 100, got {}", shown(text));
  options_.sampler.temperature = value;
  return fmt::format("temperature {}\n", value);
}

Result<std::string> ChatSession::save(const std::string& path) const {
  if (path.empty()) return error_at("/save", "needs the name of a file");
  MAKAR_CHECK_OK(write_file(path, write_session(messages_)));
  return fmt::format("{} messages saved\n", messages_.size());
}

Result<std::string> ChatSession::load(const std::string& path) {
  if (path.empty()) return error_at("/load", "needs the name of a file");
  MAKAR_TRY(const std::string text, read_file(path, kLargestSession));
  MAKAR_TRY(messages_, read_session(text, path));
  return fmt::format("{} messages\n", messages_.size());
}

std::string ChatSession::tokens() const {
  if (last_.answers.empty()) return "nothing has been answered yet\n";
  return fmt::format("{} tokens read, {} written in {} steps, ended by {}\n", last_.prompt_tokens,
                     last_.answers[0].tokens.size(), last_.steps, name(last_.answers[0].finish));
}

std::string ChatSession::why() const {
  if (last_.answers.empty()) return "nothing has been answered yet\n";
  if (options_.logprobs < 0) return "beams have scores of whole answers, not of tokens\n";
  std::string out;
  for (const Written& token : last_.answers[0].tokens) {
    out += fmt::format("{:>16} {:5.1f} %  |", token_text(language_, token.id),
                       100 * std::exp(token.logprobs.chosen));
    for (const auto& t : token.logprobs.top)
      if (t.id != token.id)
        out += fmt::format("  {} {:.1f} %", token_text(language_, t.id), 100 * std::exp(t.logprob));
    out += "\n";
  }
  return out;
}

}  // namespace makar
