// A prompt with a better and a worse answer, from the forms that TRL, LLaMA-Factory and the HH-RLHF data use.
#pragma once
#include "base/json.h"

namespace makar {

// Lists of {"role", "content"}. No list is empty, and both answers begin with the assistant.
struct PreferenceRecord {
  Json prompt, chosen, rejected;
};

// `chosen` and `rejected` are texts, turns or lists of turns. The prompt is a text or a list in `prompt`, a
// list in `messages` or `conversations`, or `instruction` with `input`. Without any, it is what the two
// answers have in common: lists of turns, or texts with "\n\nHuman:" and "\n\nAssistant:" before each turn.
Result<PreferenceRecord> to_preference(const Json& record);

// The turns of the prompt in the fields named above; an empty list if there is none.
Result<Json> prompt_turns(const Json& record);
// A text, a turn or a list of turns as the turns of an answer; `name`: its field.
Result<Json> answer_turns(const Json& value, const char* name);

}  // namespace makar
