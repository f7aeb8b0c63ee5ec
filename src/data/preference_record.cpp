#include "data/preference_record.h"

#include <algorithm>

#include "data/schema.h"

namespace makar {
namespace {

// The prefixes of roles in HH-RLHF (Bai et al., 2022).
constexpr std::string_view kHuman = "\n\nHuman:", kAssistant = "\n\nAssistant:";

Json message(const char* role, std::string_view content) {
  return {{"role", role}, {"content", std::string(content)}};
}

// The index of the first prefix of a role, or the end.
size_t next_role(std::string_view text) {
  for (size_t at = text.find("\n\n"); at != std::string_view::npos; at = text.find("\n\n", at + 1))
    if (const auto rest = text.substr(at); rest.starts_with(kHuman) || rest.starts_with(kAssistant))
      return at;
  return text.size();
}

// The turns of a text with the prefix of a role before each. An empty last turn, which asks for the answer,
// is left out.
Json prefixed_turns(std::string_view text) {
  Json out = Json::array();
  while (!text.empty()) {
    const bool human = text.starts_with(kHuman);
    text.remove_prefix(human ? kHuman.size() : kAssistant.size());
    const size_t end = next_role(text);
    std::string_view content = text.substr(0, end);
    text.remove_prefix(end);
    content.remove_prefix(std::min(content.find_first_not_of(" \n"), content.size()));
    if (!content.empty() || !text.empty()) out.push_back(message(human ? "user" : "assistant", content));
  }
  return out;
}

// A text is one turn of `role`, unless it begins with the prefix of a role.
Result<Json> turns(const Json& value, const char* name, const char* role) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (text.starts_with(kHuman)) return prefixed_turns(text);
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return error_at("", "'{}' is empty", name);
    return Json::array({message(role, text)});
  }
  return read_turns(value.is_object() ? Json::array({value}) : value, name);
}

bool by_assistant(const Json& message) { return message.value("role", "") == "assistant"; }

void remove_first(Json& list, size_t count) {
  list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace

Result<Json> prompt_turns(const Json& record) {
  Json out = Json::array();
  if (const Json* prompt = field(record, {"prompt"})) {
    MAKAR_TRY(out, turns(*prompt, "prompt", "user"));
  } else if (const Json* messages = field(record, {"messages"})) {
    MAKAR_TRY(out, read_turns(*messages, "messages"));
  } else if (const Json* conversations = field(record, {"conversations"})) {
    MAKAR_TRY(out, read_turns(*conversations, "conversations"));
  } else if (const Json* instruction = field(record, {"instruction"})) {
    MAKAR_TRY(out, turns(*instruction, "instruction", "user"));
    const Json* input = field(record, {"input"});
    if (input && input->is_string() && !input->get_ref<const std::string&>().empty())
      out.back()["content"] = out.back()["content"].get<std::string>() + "\n" + input->get<std::string>();
  }
  if (const Json* system = field(record, {"system"});
      system && system->is_string() && !out.empty() && *system != "" && out[0].value("role", "") != "system")
    out.insert(out.begin(), message("system", system->get_ref<const std::string&>()));
  return out;
}

Result<Json> answer_turns(const Json& value, const char* name) { return turns(value, name, "assistant"); }

Result<PreferenceRecord> to_preference(const Json& record) {
  const Json *chosen = field(record, {"chosen"}), *rejected = field(record, {"rejected"});
  if (!chosen || !rejected) return error_at("", "'chosen' or 'rejected' is missing");
  PreferenceRecord out;
  MAKAR_TRY(out.prompt, prompt_turns(record));
  MAKAR_TRY(out.chosen, answer_turns(*chosen, "chosen"));
  MAKAR_TRY(out.rejected, answer_turns(*rejected, "rejected"));
  if (out.chosen == out.rejected) return error_at("", "'chosen' and 'rejected' are the same");
  size_t common = 0;
  const size_t shorter = std::min(out.chosen.size(), out.rejected.size());
  while (common < shorter && out.chosen[common] == out.rejected[common]) ++common;
  if (out.prompt.empty()) {
    common = std::min(common, shorter > 0 ? shorter - 1 : 0);
    while (common > 0 && !(by_assistant(out.chosen[common]) && by_assistant(out.rejected[common]))) --common;
    for (size_t i = 0; i < common; ++i) out.prompt.push_back(out.chosen[i]);
    if (out.prompt.empty())
      return error_at("",
                      "there is no prompt: add the field 'prompt', or begin 'chosen' and 'rejected' with it");
    remove_first(out.chosen, common), remove_first(out.rejected, common);
  } else if (common >= out.prompt.size() &&
             std::equal(out.prompt.begin(), out.prompt.end(), out.chosen.begin())) {
    remove_first(out.chosen, out.prompt.size()), remove_first(out.rejected, out.prompt.size());
  }
  for (const auto& [list, name] : {std::pair(&out.chosen, "chosen"), std::pair(&out.rejected, "rejected")})
    if (list->empty() || !by_assistant(list->front()))
      return error_at("", "'{}' does not answer the prompt: its first turn is not the assistant's", name);
  return out;
}

}  // namespace makar
