// Converts the conversations of requests into the input of chat templates.
#pragma once
#include "serve/api/generation_request.h"

namespace makar {

// Reads OpenAI's `messages`: lists of text parts are joined to text, tool call arguments parsed to objects.
// The content of a message with images stays a list; without `images`, an image is an error.
Result<Json> read_messages(const Json& body, std::vector<RequestImage>* images = nullptr);
// Reads OpenAI's `tools` and `tool_choice`. Returns the tools for the template, or null.
Result<Json> read_tools(const Json& body, ToolChoice& choice);
// A string, or a list of text parts.
Result<std::string> read_content(const Json& content, const std::string& place);

}  // namespace makar
