// Conversations as clients send them, made into what chat templates read.
#pragma once
#include "serve/api/ask.h"

namespace makar {

// `messages` of OpenAI's form: contents that are lists of text parts become text, arguments of calls become
// objects.
Result<Json> read_messages(const Json& body);
// `tools` of OpenAI's form and `tool_choice`; the tools that the template is to show, or null.
Result<Json> read_tools(const Json& body, ToolChoice& choice);
// A text, or a list of parts that are all text.
Result<std::string> read_content(const Json& content, const std::string& place);

}  // namespace makar
