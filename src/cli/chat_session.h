// A conversation in the terminal: its messages, its settings, and the slash commands that change them.
#pragma once
#include <string>

#include "llm/write.h"

namespace makar {

class ChatSession {
 public:
  ChatSession(Engine& engine, const LanguageModel& language, WriteOptions options);

  // Answers a message; text is handed to `show` as it comes. Ending it (show returns false) keeps what was
  // written.
  Status say(const std::string& message, const std::function<bool(const std::string&)>& show);
  // The alternatives of each token of the last answer.
  std::string why() const;
  // "/temp 0.7" and its kin: what to tell the user.
  Result<std::string> command(const std::string& line);

  void set_system(const std::string& text);
  const Json& messages() const { return messages_; }
  static std::string help();

 private:
  Result<std::string> save(const std::string& path) const;
  Result<std::string> load(const std::string& path);
  Result<std::string> temperature(const std::string& text);
  std::string tokens() const;

  Engine& engine_;
  const LanguageModel& language_;
  WriteOptions options_;
  Json messages_ = Json::array();
  WriteResult last_;
};

}  // namespace makar
