// Parses tool calls in generated text, in the formats of chat templates:
//   <tool_call>{"name": ..., "arguments": {...}}</tool_call>     Hermes, Qwen, MiniMind
//   <function=NAME>{...}</function>                              Llama 3.1
//   [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]        Mistral, with or without its marker
//   {"name": ..., "parameters": {...}}                           Llama 3, as the whole answer
// Text that may be the start of a call is held back until that is decided; anything that is not a call of a
// known tool stays text.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

struct ToolCall {
  std::string id, name, arguments;  // arguments: the text of a JSON object
};

// Generated text and the tool calls that were found in it.
struct TextWithCalls {
  std::string text;
  std::vector<ToolCall> calls;
  size_t first_call = 0;  // index of calls[0] in the answer
};

class ToolCallReader {
 public:
  // Without names all text passes through unchanged.
  ToolCallReader(std::set<std::string> names, bool parallel)
      : names_(std::move(names)), parallel_(parallel) {}

  // Returns text and calls that are already decided.
  TextWithCalls push(const std::string& text);
  TextWithCalls finish();
  size_t calls() const { return calls_; }

 private:
  void read(bool all, TextWithCalls& out);
  bool take_calls(const std::string& json, TextWithCalls& out);
  bool take_call(const Json& call, std::vector<ToolCall>& out) const;
  void add_text(const std::string& text, TextWithCalls& out);

  std::set<std::string> names_;
  bool parallel_;
  std::string held_back_;
  bool has_text_ = false;  // returned since the last call
  size_t calls_ = 0;
};

// The JSON schema (as text) of a call of one of the tools, or of the tool `name`.
std::string call_schema(const Json& tools, const std::string& name);

}  // namespace makar
