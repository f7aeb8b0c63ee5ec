// Parses tool calls in generated text, in the formats of chat templates:
//   <tool_call>{"name": ..., "arguments": {...}}</tool_call>     Hermes, Qwen, MiniMind
//   <function=NAME>{...}</function>                              Llama 3.1
//   [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]        Mistral, its mark shown or not
//   {"name": ..., "parameters": {...}}                           Llama 3, as the whole answer
// Text that may be the start of a call is held back until that is decided; anything that is not a call of a
// known tool stays text.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "serve/api/generation_request.h"

namespace makar {

class ToolCallReader {
 public:
  // Without names all text passes through unchanged.
  ToolCallReader(std::set<std::string> names, bool parallel)
      : names_(std::move(names)), parallel_(parallel) {}

  // Returns text and calls that are already decided.
  AnswerPiece push(const std::string& text);
  AnswerPiece finish();
  size_t calls() const { return calls_; }

 private:
  void read(bool all, AnswerPiece& out);
  bool take_calls(const std::string& json, AnswerPiece& out);
  bool take_call(const Json& call, std::vector<ToolCall>& out) const;
  void say(const std::string& text, AnswerPiece& out);

  std::set<std::string> names_;
  bool parallel_;
  std::string held_;
  bool begun_ = false;  // text was returned
  size_t calls_ = 0;
};

// The JSON schema (as text) of a call of one of the tools, or of the tool `name`.
std::string call_schema(const Json& tools, const std::string& name);

}  // namespace makar
