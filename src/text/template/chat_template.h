// Chat templates: messages to the text a model was trained on. The rendering says of every byte whether the
// template wrote it or the data did, so that encode_chat (encode_chat.h) lets no message spell a control
// token.
#pragma once
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/template/budget.h"

namespace makar {

namespace jinja {
struct Program;
}
using TemplateLimits = jinja::Limits;

struct ChatSegment {
  std::string text;
  bool content = false;    // from messages, tools, documents or variables; else written by the template
  bool assistant = false;  // inside a {% generation %} block: what the model is to learn
};

struct ChatRendering {
  std::vector<ChatSegment> segments;  // neighbours differ in a flag
  std::string text() const;
};

struct ChatInput {
  Json messages = Json::array();
  Json tools, documents;  // null: none
  bool add_generation_prompt = false;
  bool continue_final_message = false;  // ends inside the last message, so that the model goes on with it
  Json variables = Json::object();      // what else the template may read (enable_thinking, date_string...)
  std::optional<std::time_t> now;       // for strftime_now; the clock where absent
};

// Parsed once, rendered by any number of threads.
class ChatTemplate {
 public:
  // Errors name `place` with line and column.
  static Result<ChatTemplate> parse(std::string_view source, const std::string& place,
                                    const TemplateLimits& limits = {});
  // The template of a model folder (chat_template.jinja, chat_template.json or tokenizer_config.json) with
  // its special tokens. `name` picks one where the folder has several.
  static Result<ChatTemplate> load(const std::string& folder, const std::string& name = "",
                                   const TemplateLimits& limits = {});

  // bos_token, eos_token and their kin, as the template sees them.
  void set_token(const std::string& name, const std::string& text) { tokens_[name] = text; }
  const std::map<std::string, std::string>& tokens() const { return tokens_; }
  const std::string& source() const { return source_; }
  bool has_generation() const;  // whether the segments tell the assistant's text apart

  Result<ChatRendering> render(const ChatInput& input) const;

 private:
  ChatTemplate() = default;
  std::shared_ptr<const jinja::Program> program_;
  std::string source_, place_;
  std::map<std::string, std::string> tokens_;
  TemplateLimits limits_;
};

}  // namespace makar
