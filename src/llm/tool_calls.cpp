#include "llm/tool_calls.h"

#include <fmt/format.h>

#include <random>

#include "base/trim.h"

namespace makar {
namespace {

constexpr std::string_view kCallOpen = "<tool_call>", kCallClose = "</tool_call>";
constexpr std::string_view kFunction = "<function=", kFunctionClose = "</function>";
constexpr std::string_view kCallMarkers[] = {"[TOOL_CALLS]", "<|python_tag|>"};
constexpr std::string_view kBlanks = " \t\r\n";

// The length of the longest suffix of `text` that is a proper prefix of `marker`.
size_t partial_marker(std::string_view text, std::string_view marker) {
  for (size_t n = std::min(marker.size() - 1, text.size()); n > 0; --n)
    if (text.substr(text.size() - n) == marker.substr(0, n)) return n;
  return 0;
}

// Whether the whole answer may be a call: it starts like JSON, or like a marker before it.
bool may_be_whole_call(const std::string& text) {
  const std::string head = trimmed(text);
  if (head.empty() || head[0] == '{') return true;
  if (head[0] == '[') {
    const std::string inside = trimmed(head.substr(1));
    if (inside.empty() || inside[0] == '{') return true;
  }
  for (const std::string_view marker : kCallMarkers)
    if (head.starts_with(marker) || marker.starts_with(head)) return true;
  return false;
}

std::string call_id() {
  static thread_local std::mt19937_64 random(std::random_device{}());
  return fmt::format("call_{:016x}", random());
}

}  // namespace

void ToolCallReader::add_text(const std::string& text, TextWithCalls& out) {
  // Skip whitespace after a call.
  const size_t from = !has_text_ && calls_ > 0 ? std::min(text.find_first_not_of(kBlanks), text.size()) : 0;
  if (from < text.size()) has_text_ = true;
  out.text += text.substr(from);
}

bool ToolCallReader::take_call(const Json& call, std::vector<ToolCall>& out) const {
  if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return false;
  const std::string name = call["name"];
  if (!names_.contains(name)) return false;
  Json arguments = Json::object();
  for (const char* key : {"arguments", "parameters"})
    if (call.contains(key)) arguments = call[key];
  if (arguments.is_string()) {
    const auto parsed = parse_json(arguments.get<std::string>(), "arguments");
    if (!parsed.ok()) return false;
    arguments = *parsed;
  }
  if (!arguments.is_object()) return false;
  out.push_back({call_id(), name, dump(arguments)});
  return true;
}

bool ToolCallReader::take_calls(const std::string& json, TextWithCalls& out) {
  const auto parsed = parse_json(trimmed(json), "call");
  if (!parsed.ok()) return false;
  std::vector<ToolCall> calls;
  if (parsed->is_array()) {
    if (parsed->empty()) return false;
    for (const Json& call : *parsed)
      if (!take_call(call, calls)) return false;
  } else if (!take_call(*parsed, calls)) {
    return false;
  }
  for (ToolCall& call : calls) {
    if (!parallel_ && calls_ > 0) break;
    ++calls_;
    out.calls.push_back(std::move(call));
  }
  return true;
}

void ToolCallReader::read(bool all, TextWithCalls& out) {
  for (;;) {
    if (!has_text_ && calls_ == 0 && may_be_whole_call(held_back_)) {
      if (!all) return;
      std::string json = trimmed(held_back_);
      for (const std::string_view marker : kCallMarkers)
        if (json.starts_with(marker)) json.erase(0, marker.size());
      if (take_calls(json, out)) return held_back_.clear();
    }
    const size_t call = held_back_.find(kCallOpen), function = held_back_.find(kFunction);
    const size_t at = std::min(call, function);
    if (at == std::string::npos) break;
    add_text(held_back_.substr(0, at), out);
    held_back_.erase(0, at);
    const std::string_view close = call < function ? kCallClose : kFunctionClose;
    const size_t end = held_back_.find(close);
    if (end == std::string::npos && !all) return;
    std::string inside;
    if (call < function) {
      inside = held_back_.substr(kCallOpen.size(), end == std::string::npos ? end : end - kCallOpen.size());
    } else if (const size_t head = held_back_.find('>'); head < end) {
      inside = fmt::format("{{\"name\":{},\"arguments\":{}}}",
                           dump(held_back_.substr(kFunction.size(), head - kFunction.size())),
                           held_back_.substr(head + 1, end == std::string::npos ? end : end - head - 1));
    }
    const size_t consumed = end == std::string::npos ? held_back_.size() : end + close.size();
    if (take_calls(inside, out))
      has_text_ = false;  // skip whitespace after the call
    else
      add_text(held_back_.substr(0, consumed), out);
    held_back_.erase(0, consumed);
  }
  size_t partial = 0;
  if (!all) partial = std::max(partial_marker(held_back_, kCallOpen), partial_marker(held_back_, kFunction));
  add_text(held_back_.substr(0, held_back_.size() - partial), out);
  held_back_.erase(0, held_back_.size() - partial);
}

TextWithCalls ToolCallReader::push(const std::string& text) {
  TextWithCalls out;
  if (names_.empty()) return out.text = text, out;
  out.first_call = calls_;
  held_back_ += text;
  read(false, out);
  return out;
}

TextWithCalls ToolCallReader::finish() {
  TextWithCalls out;
  out.first_call = calls_;
  if (!held_back_.empty()) read(true, out);
  return out;
}

std::string call_schema(const Json& tools, const std::string& name) {
  Json schemas = Json::array();
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    if (!name.empty() && function["name"] != Json(name)) continue;
    const Json arguments =
        function.contains("parameters") ? function["parameters"] : Json{{"type", "object"}};
    schemas.push_back({{"type", "object"},
                       {"properties", {{"name", {{"const", function["name"]}}}, {"arguments", arguments}}},
                       {"required", {"name", "arguments"}},
                       {"additionalProperties", false}});
  }
  return dump(schemas.size() == 1 ? schemas[0] : Json{{"anyOf", schemas}});
}

}  // namespace makar
