// What a record is, told by its fields: the dataset forms that Hugging Face, Axolotl and LLaMA-Factory users
// have.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

enum class Schema {
  kText,                // {"text"}
  kMessages,            // {"messages": [{"role", "content"}]}
  kShareGpt,            // {"conversations": [{"from", "value"}]}
  kAlpaca,              // {"instruction", "input", "output"}
  kPromptCompletion,    // {"prompt", "completion"}
  kPreference,          // {"prompt", "chosen", "rejected"}, the prompt may be inside the two
  kLabelledCompletion,  // {"prompt", "completion", "label"}
  kPrompt,              // {"prompt"}, perhaps with a reference answer
  kTextLabel,           // {"text", "label"}
  kTokenLabels,         // {"tokens", "ner_tags"}
  kQuestion,            // {"context", "question", "answers"}: SQuAD
  kTriplet,             // {"anchor", "positive", "negative"}
  kSourceTarget,        // {"source", "target"}
};

std::string name(Schema schema);
std::optional<Schema> schema_named(const std::string& name);  // by name() and Axolotl's words
std::vector<std::string> schema_names();

// By the fields of one record; nullopt when no form fits.
std::optional<Schema> detect_schema(const Json& record);

// The field under one of its names, or null.
const Json* field(const Json& record, std::initializer_list<const char*> names);
const Json* text_field(const Json& record);
const Json* label_field(const Json& record);
const Json* tags_field(const Json& record);
const Json* source_field(const Json& record);
const Json* target_field(const Json& record);

// Any of the conversation forms as [{"role", "content"}]; the errors say what is wrong with the record.
Result<Json> to_messages(const Json& record, Schema schema);

}  // namespace makar
