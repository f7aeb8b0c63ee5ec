// A conversation in the terminal: its messages, its settings, and the slash commands that change them.
#pragma once
#include <string>

#include "llm/text_generation.h"

namespace makar {

class ChatSession {
 public:
  using Show = std::function<bool(const std::string&)>;
  ChatSession(Engine& engine, const LanguageModel& language, TextGenerationOptions options);

  // Answers a message and streams the text to `show`. If `show` returns false, generation stops and the text
  // so far is kept. kLimit: the context is full; the message is kept until /forget.
  Status say(const std::string& message, const Show& show);
  // Removes the oldest turns until half of the context is free; returns a line for the user.
  Result<std::string> forget();
  // The message that did not fit into the context; empty if there is none.
  std::string take_waiting();
  // Why the last answer ended, if that is worth a message; otherwise empty.
  std::string ending() const;
  // The alternatives of each token of the last answer.
  std::string why() const;
  // Runs a slash command such as "/temp 0.7"; returns the text to show.
  Result<std::string> command(const std::string& line);

  void set_system(const std::string& text);
  const Json& messages() const { return messages_; }
  const TextGenerationResult& last() const { return last_; }
  static std::string help();

 private:
  Result<std::vector<int64_t>> encode(const Json& messages) const;
  Result<std::string> save(const std::string& path) const;
  Result<std::string> load(const std::string& path);
  Result<std::string> temperature(const std::string& text);
  std::string tokens() const;

  Engine& engine_;
  const LanguageModel& language_;
  TextGenerationOptions options_;
  Json messages_ = Json::array();
  std::string waiting_;
  TextGenerationResult last_;
};

}  // namespace makar
