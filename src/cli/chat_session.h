// A conversation in the terminal: its messages, its settings, and the slash commands that change them.
#pragma once
#include <string>

#include "llm/text_generation.h"

namespace makar {

class ChatSession {
 public:
  using Show = std::function<bool(const std::string&)>;
  ChatSession(Engine& engine, const LanguageModel& language, TextGenerationOptions options);

  // Sends a message and streams the answer to `show`. If `show` returns false, generation stops and the text
  // so far is kept. kLimit: the context is full; the message is kept until /forget.
  Status send(const std::string& message, const Show& show);
  // Removes the oldest turns until half of the context is free; returns a line for the user.
  Result<std::string> forget();
  // Returns and clears the message that did not fit into the context; empty if there is none.
  std::string take_waiting();
  // A note if the last answer was stopped (Ctrl-C, a limit); otherwise empty.
  std::string ending() const;
  // Each token of the last answer with its probability and the most probable alternatives, one per line.
  std::string why() const;
  // Runs a slash command such as "/temp 0.7"; returns the text to show.
  Result<std::string> command(const std::string& line);

  void set_system(const std::string& text);
  const Json& messages() const { return messages_; }
  const TextGenerationResult& last() const { return last_; }
  static std::string help();

 private:
  bool has_system() const;
  Result<std::vector<int64_t>> encode(const Json& messages) const;
  std::string clear();  // starts a new conversation with the same system message
  Result<std::string> save(const std::string& path) const;
  Result<std::string> load(const std::string& path);
  Result<std::string> temperature(const std::string& text);
  std::string tokens() const;

  Engine& engine_;
  const LanguageModel& language_;
  TextGenerationOptions options_;
  Json messages_ = Json::array();
  std::string waiting_;  // the message that did not fit into the context
  TextGenerationResult last_;
};

}  // namespace makar
