#include "train/policy_data.h"

#include "data/preference_record.h"

namespace makar {
namespace {

Result<PolicyPrompt> read_prompt(const Json& record, const ConversationEncoder& encoder,
                                 int64_t max_prompt_tokens) {
  MAKAR_TRY(Json turns, prompt_turns(record));
  while (!turns.empty() && turns.back().value("role", "") == "assistant") turns.erase(turns.size() - 1);
  if (turns.empty()) return error_at("", "there is no prompt: add the field 'prompt' or 'messages'");
  PolicyPrompt out;
  MAKAR_TRY(out.ids, encoder.encode_prompt(turns));
  if (out.ids.empty() || static_cast<int64_t>(out.ids.size()) > max_prompt_tokens)
    return error_at("", "the prompt has {} tokens; the context holds {} besides the longest answer",
                    out.ids.size(), max_prompt_tokens);
  out.turns = dump(turns);
  out.record = dump(record);
  return out;
}

}  // namespace

Result<PolicyPrompts> open_policy_prompts(const DatasetOptions& options, const ConversationEncoder& encoder,
                                          int64_t max_prompt_tokens, Json& identity,
                                          std::span<const RewardTerm> rewards) {
  return read_examples<PolicyPrompts>(
      options, "prompts", identity,
      [&](const DatasetSpec& spec, ValidationSplit& split, PolicyPrompts& out) -> Status {
        MAKAR_TRY(auto reader, RecordReader::open({spec.data()}));
        for (DataRecord record;;) {
          MAKAR_TRY(const bool found, reader.next(record));
          if (!found) break;
          const auto prompt = read_prompt(record.value, encoder, max_prompt_tokens);
          if (!prompt.ok()) {
            reader.bad().add(record.place(), prompt.error().message);
            continue;
          }
          if (const Status usable = check_record(rewards, record.value); !usable.ok())
            return usable.error().in(record.place());
          MAKAR_RETURN_IF_ERROR((split.selects(prompt->turns) ? out.validation : out.train).add(*prompt));
        }
        out.bad = reader.bad();
        return Done{};
      });
}

}  // namespace makar
