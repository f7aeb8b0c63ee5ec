// A grammar as the constraint of a request: a JSON schema, a regular expression or GBNF over the model's own
// tokens.
#pragma once
#include <memory>
#include <string>

#include "infer/constraint.h"
#include "infer/grammar/grammar.h"
#include "llm/language_model.h"

namespace makar {

// Errors: a model without a tokenizer.
Result<std::shared_ptr<Constraint>> constrain(const Grammar& grammar, const LanguageModel& language);

}  // namespace makar
