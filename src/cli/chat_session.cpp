#include "cli/chat_session.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/quote.h"
#include "llm/session.h"

namespace makar {
namespace {

std::string token_text(const LanguageModel& language, int64_t id) {
  const uint32_t one[] = {static_cast<uint32_t>(id)};
  return dump(Json(language.tokenizer().decode(one)));
}

}  // namespace

ChatSession::ChatSession(Engine& engine, const LanguageModel& language, TextGenerationOptions options)
    : engine_(engine), language_(language), options_(std::move(options)) {
  options_.fit = true;
  if (options_.logprobs < 0 && options_.beams == 1) options_.logprobs = 5;  // for /why
}

bool ChatSession::has_system() const { return !messages_.empty() && messages_[0]["role"] == "system"; }

void ChatSession::set_system(const std::string& text) {
  if (has_system()) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), Json{{"role", "system"}, {"content", text}});
}

Result<std::vector<int64_t>> ChatSession::encode(const Json& messages) const {
  ChatInput input;
  input.messages = messages;
  input.add_generation_prompt = true;
  return language_.encode_chat(input);
}

Status ChatSession::send(const std::string& message, const Show& show) {
  waiting_.clear();
  Json messages = messages_;
  messages.push_back({{"role", "user"}, {"content", message}});
  MAKAR_TRY(const auto prompt, encode(messages));
  const ContextOptions& context = engine_.options().context;
  const int64_t size = context_size(language_.spec(), context);
  if (context.policy == ContextPolicy::kError && size > 0 && static_cast<int64_t>(prompt.size()) >= size) {
    waiting_ = message;
    return error_of(
        Error::Kind::kLimit, "context",
        "is full: the conversation has {} tokens, the context holds {}. /forget removes the oldest "
        "turns and answers this message, /clear starts a new conversation",
        prompt.size(), size);
  }
  TextGenerationOptions o = options_;
  o.on_text = [&](int64_t, const std::string& text) { return show(text); };
  MAKAR_TRY(last_, generate_text(engine_, language_, prompt, o));
  messages_ = std::move(messages);
  messages_.push_back({{"role", "assistant"}, {"content", last_.answers[0].text}});
  ++options_.sampler.seed;  // so that the same question can get a different answer
  return Done{};
}

std::string ChatSession::take_waiting() { return std::exchange(waiting_, std::string()); }

Result<std::string> ChatSession::forget() {
  const int64_t size = context_size(language_.spec(), engine_.options().context);
  const size_t first = has_system() ? 1 : 0;
  size_t removed = 0;
  while (messages_.size() > first) {
    if (removed > 0) {
      Json remaining = messages_;
      if (!waiting_.empty()) remaining.push_back({{"role", "user"}, {"content", waiting_}});
      MAKAR_TRY(const auto prompt, encode(remaining));
      if (size <= 0 || static_cast<int64_t>(prompt.size()) <= size / 2) break;
    }
    // A turn is a user message and all messages up to the next one.
    do messages_.erase(messages_.begin() + static_cast<int64_t>(first));
    while (messages_.size() > first && messages_[first]["role"] != "user");
    ++removed;
  }
  return fmt::format("removed {} turn{}\n", removed, removed == 1 ? "" : "s");
}

std::string ChatSession::ending() const {
  if (last_.answers.empty()) return "";
  const GeneratedText& answer = last_.answers[0];
  if (answer.finish == Finish::kStoppedByCaller) return "[stopped by Ctrl-C]\n";
  if (answer.finish == Finish::kTime) return "[stopped by --max-time]\n";
  if (answer.finish != Finish::kLength) return "";
  const bool context_full = static_cast<int64_t>(answer.tokens.size()) < options_.max_new_tokens;
  return context_full ? "[stopped: the context is full; /forget removes the oldest turns]\n"
                      : "[stopped by --max-tokens]\n";
}

std::string ChatSession::help() {
  return "/system TEXT  set the system message             /save FILE   save the conversation\n"
         "/temp F       set the temperature                /load FILE   load a conversation\n"
         "/tokens       token counts of the last answer    /clear       start a new conversation\n"
         "/why          alternatives for each token        /forget      remove the oldest turns\n"
         "/help         show this text                     /quit        leave (or Ctrl-D)\n"
         "A line that ends in \\ continues on the next line; a paste of several lines is one message.\n"
         "Ctrl-C stops an answer.\n";
}

Result<std::string> ChatSession::command(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string name = line.substr(0, space),
                    rest = space == std::string::npos ? "" : line.substr(space + 1);
  if (name == "/help") return help();
  if (name == "/system")
    return set_system(rest), std::string(rest.empty() ? "system message removed\n" : "system message set\n");
  if (name == "/clear") return clear();
  if (name == "/forget") return forget();
  if (name == "/temp") return temperature(rest);
  if (name == "/save") return save(rest);
  if (name == "/load") return load(rest);
  if (name == "/tokens") return tokens();
  if (name == "/why") return why();
  return error_at(quote(name), "is not a command; /help lists them");
}

std::string ChatSession::clear() {
  messages_.erase(messages_.begin() + (has_system() ? 1 : 0), messages_.end());
  last_ = {};
  waiting_.clear();
  return "new conversation\n";
}

Result<std::string> ChatSession::temperature(const std::string& text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 100))
    return error_at("/temp", "expects a number from 0 to 100, got {}", quote(text));
  options_.sampler.temperature = value;
  return fmt::format("temperature {}\n", value);
}

Result<std::string> ChatSession::save(const std::string& path) const {
  if (path.empty()) return error_at("/save", "needs a file name");
  MAKAR_RETURN_IF_ERROR(write_file(path, write_session(messages_)));
  return fmt::format("{} messages saved\n", messages_.size());
}

Result<std::string> ChatSession::load(const std::string& path) {
  if (path.empty()) return error_at("/load", "needs a file name");
  MAKAR_TRY(const std::string text, read_file(path, kMaxSessionBytes));
  MAKAR_TRY(messages_, read_session(text, path));
  return fmt::format("{} messages loaded\n", messages_.size());
}

std::string ChatSession::tokens() const {
  if (last_.answers.empty()) return "there is no answer yet\n";
  const GeneratedText& answer = last_.answers[0];
  return fmt::format("{} prompt tokens ({} cached), {} generated in {} steps, ended by {}\n",
                     last_.prompt_tokens, last_.reused_tokens, answer.tokens.size(), last_.steps,
                     answer.finish == Finish::kStoppedByCaller ? "Ctrl-C" : name(answer.finish));
}

std::string ChatSession::why() const {
  if (last_.answers.empty()) return "there is no answer yet\n";
  if (options_.logprobs < 0) return "beam search scores whole answers, not tokens\n";
  std::string out;
  for (const GeneratedToken& token : last_.answers[0].tokens) {
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
