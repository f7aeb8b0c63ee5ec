// Chat templates: turn messages into the text format a model was trained on. The rendering records for every
// byte whether the template or the data wrote it, so that encode_chat (encode_chat.h) never turns message
// text into a control token.
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
  bool content = false;    // from messages, tools, documents or variables; otherwise from the template
  bool assistant = false;  // inside a {% generation %} block: trained on
  bool reply = false;      // content of a message whose role is assistant
};

struct ChatRendering {
  std::vector<ChatSegment> segments;  // adjacent segments differ in a flag
  std::string source = {};            // source of the template
  std::string text() const;
};

struct ChatInput {
  Json messages = Json::array();
  Json tools, documents;  // null: none
  bool add_generation_prompt = false;
  bool continue_final_message =
      false;                        // end the rendering inside the last message, for the model to continue it
  Json variables = Json::object();  // other variables for the template (enable_thinking, date_string...)
  std::optional<std::time_t> now;   // for strftime_now; the current time when absent
  bool strict = false;              // an undefined name is an error
  WorkBudget* work = nullptr;       // work budget of the request; null: only the template limits apply
};

// Parsed once; any number of threads may render it concurrently.
class ChatTemplate {
 public:
  // Errors name `place` with line and column.
  static Result<ChatTemplate> parse(std::string_view source, const std::string& place,
                                    const TemplateLimits& limits = {});
  // Loads the template of a model folder (chat_template.jinja, chat_template.json or tokenizer_config.json)
  // with its special tokens. `name` selects one when the folder has several.
  static Result<ChatTemplate> load(const std::string& folder, const std::string& name = "",
                                   const TemplateLimits& limits = {});

  // bos_token, eos_token and other special tokens, as variables of the template.
  void set_token(const std::string& name, const std::string& text) { tokens_[name] = text; }
  const std::map<std::string, std::string>& tokens() const { return tokens_; }
  const std::string& source() const { return source_; }
  bool has_generation() const;  // whether the template has {% generation %} blocks
  bool places_images() const;   // whether it handles parts {"type": "image"} of a message

  Result<ChatRendering> render(const ChatInput& input) const;

 private:
  ChatTemplate() = default;
  std::shared_ptr<const jinja::Program> program_;
  std::string source_, place_;
  std::map<std::string, std::string> tokens_;
  TemplateLimits limits_;
};

}  // namespace makar
