#include "train/policy_data.h"

#include "data/preference_record.h"

namespace makar {
namespace {

Result<PolicyPrompt> read_prompt(const Json& record, const ConversationEncoder& encoder,
                                 int64_t max_prompt_tokens, const PromptChecks& checks) {
  MAKAR_TRY(Json turns, prompt_turns(record));
  while (!turns.empty() && turns.back().value("role", "") == "assistant") turns.erase(turns.size() - 1);
  if (turns.empty()) return error_at("", "there is no prompt: add the field 'prompt' or 'messages'");
  PolicyPrompt out;
  MAKAR_TRY(out.ids, encoder.encode_prompt(turns));
  if (out.ids.empty() || static_cast<int64_t>(out.ids.size()) > max_prompt_tokens)
    return error_at("", "the prompt has {} tokens; the context holds {} besides the longest answer",
                    out.ids.size(), max_prompt_tokens);
  if (!checks.system.empty()) {
    MAKAR_TRY(const auto ids, encoder.encode_prompt(with_system(turns, checks.system)));
    if (static_cast<int64_t>(ids.size()) > checks.max_tokens_with_system)
      return error_at("",
                      "the prompt has {} tokens with the system prompt; the context holds {} besides the "
                      "longest answer: shorten system_prompt, or lower max_completion_length",
                      ids.size(), checks.max_tokens_with_system);
  }
  out.turns = dump(turns);
  out.record = dump(record);
  return out;
}

}  // namespace

Json with_system(const Json& turns, const std::string& system) {
  Json out = Json::array({{{"role", "system"}, {"content", system}}});
  for (const Json& turn : turns)
    if (turn.value("role", "") != "system") out.push_back(turn);
  return out;
}

Result<PolicyPrompts> open_policy_prompts(const DatasetOptions& options, const ConversationEncoder& encoder,
                                          int64_t max_prompt_tokens, Json& identity,
                                          const PromptChecks& checks) {
  return read_examples<PolicyPrompts>(
      options, "prompts", identity,
      [&](const DatasetSpec& spec, ValidationSplit& split, PolicyPrompts& out) -> Status {
        MAKAR_TRY(auto reader, RecordReader::open({spec.data()}));
        for (DataRecord record;;) {
          MAKAR_TRY(const bool found, reader.next(record));
          if (!found) break;
          const auto prompt = read_prompt(record.value, encoder, max_prompt_tokens, checks);
          if (!prompt.ok()) {
            reader.bad().add(record.place(), prompt.error().message);
            continue;
          }
          if (const Status usable = check_record(checks.rewards, record.value); !usable.ok())
            return usable.error().in(record.place());
          MAKAR_RETURN_IF_ERROR((split.selects(prompt->turns) ? out.validation : out.train).add(*prompt));
        }
        out.bad = reader.bad();
        return Done{};
      });
}

}  // namespace makar
