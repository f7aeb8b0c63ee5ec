// The reply of a model in a step: parsing, and the schema that makes it valid.
#include "apps/agent.h"
#include "base/quote.h"
#include "base/trim.h"

namespace makar {
namespace {

constexpr size_t kMaxReplyBytes = size_t{1} << 20;

// Models often put JSON into a code block.
std::string_view without_fence(std::string_view text) {
  const size_t open = text.find("```");
  if (open == text.npos || text.find('{') < open) return text;
  const size_t line = text.find('\n', open);
  const size_t close = text.rfind("```");
  return line == text.npos || close <= line ? text : text.substr(line + 1, close - line - 1);
}

// The first complete JSON object of a text; empty without one.
std::string_view first_object(std::string_view text) {
  const size_t begin = text.find('{');
  if (begin == text.npos) return {};
  int depth = 0;
  bool quoted = false;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return text.substr(begin, i - begin + 1);
    }
  }
  return {};
}

Result<AgentStep> read_json_reply(std::string_view text) {
  const std::string_view object = first_object(without_fence(text));
  const char* expected_form =
      R"(expected {"thought": ..., "tool": ..., "input": {...}} or {"thought": ..., "answer": ...})";
  if (object.empty()) return error_at("reply", "{}", expected_form);
  const auto parsed = parse_json(object, "reply");
  if (!parsed.ok()) return parsed.error();
  AgentStep step;
  const auto read_text = [&](const char* key, std::string& to) -> Status {
    const auto found = parsed->find(key);
    if (found == parsed->end() || found->is_null()) return Done{};
    if (!found->is_string()) return error_at("reply", "\"{}\" must be a string; {}", key, expected_form);
    to = found->get<std::string>();
    return Done{};
  };
  MAKAR_RETURN_IF_ERROR(read_text("thought", step.thought));
  MAKAR_RETURN_IF_ERROR(read_text("tool", step.tool));
  MAKAR_RETURN_IF_ERROR(read_text("answer", step.answer));
  if (step.tool.empty() == step.answer.empty()) return error_at("reply", "{}", expected_form);
  if (!step.tool.empty()) step.input = parsed->value("input", Json::object());
  return step;
}

// A label at the start of a line: its position and where its text begins; npos without one.
std::pair<size_t, size_t> find_label(const std::string& text, std::string_view label) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find_first_not_of(" \t*", at);
    if (begin != text.npos && text.compare(begin, label.size(), label) == 0)
      return {at, begin + label.size()};
    const size_t line = text.find('\n', at);
    if (line == text.npos) break;
    at = line + 1;
  }
  return {text.npos, text.npos};
}

Result<AgentStep> read_text_reply(std::string text) {
  // An observation in a reply is invented by the model: it is ignored, and so is the text after it.
  if (const auto [at, after] = find_label(text, "Observation:"); at != text.npos) text.resize(at);
  const auto [action, action_text] = find_label(text, "Action:");
  const auto [final, final_text] = find_label(text, "Final Answer:");
  AgentStep step;
  const auto [thought, thought_text] = find_label(text, "Thought:");
  const size_t first = std::min(action, final);
  if (thought != text.npos && thought < first)
    step.thought = trimmed(std::string_view(text).substr(
        thought_text, first == text.npos ? text.npos : first - std::min(first, thought_text)));
  if (first == text.npos)
    return error_at("reply", "expected 'Action:' with 'Action Input:', or 'Final Answer:'");
  if (final < action) {
    const size_t end = action == text.npos ? text.size() : action;
    step.answer = trimmed(std::string_view(text).substr(final_text, end - final_text));
    if (step.answer.empty()) return error_at("reply", "the text after 'Final Answer:' is empty");
    return step;
  }
  const std::string rest = text.substr(action_text);
  const auto [input, input_text] = find_label(rest, "Action Input:");
  step.tool = trimmed(std::string_view(rest).substr(0, std::min(input, rest.find('\n'))));
  if (step.tool.empty()) return error_at("reply", "the name of a tool is missing after 'Action:'");
  if (input == rest.npos) return error_at("reply", "'Action Input:' is missing after 'Action:'");
  const std::string_view object = first_object(std::string_view(rest).substr(input_text));
  if (object.empty()) return error_at("reply", "expected a JSON object after 'Action Input:'");
  const auto parsed = parse_json(object, "Action Input");
  if (!parsed.ok()) return parsed.error();
  step.input = *parsed;
  return step;
}

}  // namespace

Result<AgentStep> read_reply(const std::string& text, AgentFormat format) {
  if (text.size() > kMaxReplyBytes)
    return error_of(Error::Kind::kLimit, "reply", "has {} bytes, at most {}", text.size(), kMaxReplyBytes);
  return format == AgentFormat::kJson ? read_json_reply(text) : read_text_reply(text);
}

std::string reply_schema(const std::vector<Tool>& tools, bool may_ask) {
  // Defined once: a bounded text takes many nodes of the grammar.
  const Json text = {{"$ref", "#/$defs/thought"}};
  const auto object = [&](Json properties) {
    Json required = Json::array();
    for (const auto& [key, value] : properties.items()) required.push_back(key);
    return Json{{"type", "object"},
                {"properties", std::move(properties)},
                {"required", std::move(required)},
                {"additionalProperties", false}};
  };
  Json choices = Json::array();
  for (const Tool& tool : tools)
    choices.push_back(
        object({{"thought", text}, {"tool", {{"const", tool.name}}}, {"input", tool.parameters}}));
  if (may_ask)
    choices.push_back(object({{"thought", text},
                              {"tool", {{"const", kAskPerson}}},
                              {"input", text_parameters("question", "for a person")}}));
  choices.push_back(object({{"thought", text}, {"answer", {{"type", "string"}}}}));
  return dump(
      {{"anyOf", std::move(choices)}, {"$defs", {{"thought", {{"type", "string"}, {"maxLength", 400}}}}}});
}

}  // namespace makar
