// Detects what a record is from its fields: the dataset schemas of Hugging Face, Axolotl and LLaMA-Factory.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace makar {

enum class Schema {
  kText,                // {"text"}
  kMessages,            // {"messages": [{"role", "content"}]}
  kShareGpt,            // {"conversations": [{"from", "value"}]}
  kAlpaca,              // {"instruction", "input", "output"}
  kPromptCompletion,    // {"prompt", "completion"}
  kPreference,          // {"prompt", "chosen", "rejected"}; the prompt may be inside chosen and rejected
  kRanked,              // {"prompt", "answers", "ranks"}: several answers, rank 0 is the best
  kLabelledCompletion,  // {"prompt", "completion", "label"}
  kPrompt,              // {"prompt"}, optionally with a reference answer
  kTextLabel,           // {"text", "label"}
  kTokenLabels,         // {"tokens", "ner_tags"}
  kQuestion,            // {"context", "question", "answers"}: SQuAD
  kTriplet,             // {"anchor", "positive"}, optionally with "negative"
  kSourceTarget,        // {"source", "target"}
};

std::string name(Schema schema);
std::optional<Schema> schema_named(const std::string& name);  // by name(), or by an alias such as Axolotl's
std::vector<std::string> schema_names();

// Detects the schema from the fields of one record; nullopt if none matches.
std::optional<Schema> detect_schema(const Json& record);
// "'review', 'stars'": the fields of a record.
std::string field_names(const Json& record);
// The message for a record of an unexpected schema: its fields, the fields of the expected schemas, and how
// to map columns.
std::string unexpected_schema_message(const Json& record, std::initializer_list<Schema> expected);
// Whether any schema has a field of this name; for table headers and columns of --datasets.
bool is_field_name(const std::string& name);

// The field under the first of these names that exists, or null.
const Json* field(const Json& record, std::initializer_list<const char*> names);
const Json* text_field(const Json& record);
// Whether the annotators of a pair of texts did not agree on a class: "-" in SNLI and MNLI, -1 at Hugging
// Face.
bool is_unlabelled_pair(const Json& record);
// The two texts of a record of pairs, as in GLUE and SNLI (sentence1 and sentence2, premise and hypothesis,
// ...); null if it is not one.
std::pair<const Json*, const Json*> text_pair_fields(const Json& record);
const Json* label_field(const Json& record);
const Json* tags_field(const Json& record);
const Json* source_field(const Json& record);
const Json* target_field(const Json& record);

// A list of turns, {"role", "content"} or {"from", "value"}, as [{"role", "content"}]; `name`: its field.
Result<Json> read_turns(const Json& list, const char* name);
// Converts any conversation schema to [{"role", "content"}]; errors describe the problem with the record.
Result<Json> to_messages(const Json& record, Schema schema);

}  // namespace makar
