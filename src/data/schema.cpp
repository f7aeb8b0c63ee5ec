#include "data/schema.h"

#include <algorithm>

#include "base/quote.h"

namespace makar {
namespace {

struct Row {
  Schema schema;
  const char* name;
  const char* alias;
  const char* fields;
};
constexpr Row kRows[] = {
    {Schema::kText, "text", "completion", "text"},
    {Schema::kMessages, "messages", "chat_template", "messages"},
    {Schema::kShareGpt, "sharegpt", "conversations", "conversations"},
    {Schema::kAlpaca, "alpaca", "instruction", "instruction, output"},
    {Schema::kPromptCompletion, "prompt-completion", "input_output", "prompt, completion"},
    {Schema::kPreference, "preference", "chosen-rejected", "prompt, chosen, rejected"},
    {Schema::kRanked, "ranked", "ranking", "prompt, answers, ranks"},
    {Schema::kLabelledCompletion, "labelled-completion", "kto", "prompt, completion, label"},
    {Schema::kPrompt, "prompt", "prompt", "prompt"},
    {Schema::kTextLabel, "text-label", "classification", "text, label"},
    {Schema::kTokenLabels, "token-labels", "conll", "tokens, tags"},
    {Schema::kQuestion, "squad", "question-answering", "question, context, answers"},
    {Schema::kTriplet, "triplet", "anchor-positive-negative", "anchor, positive"},
    {Schema::kSourceTarget, "source-target", "translation", "source, target"}};

// The accepted names of one field, the standard one first.
using Names = std::vector<const char*>;
const Names kTextNames = {"text", "sentence", "content", "review", "document", "body", "comment", "tweet"};
const Names kLabelNames = {"label",  "gold_label", "labels", "class",  "category",     "sentiment", "score",
                           "rating", "stars",      "topic",  "intent", "is_duplicate", "Quality"};
// Two texts with one label: the columns of GLUE and SNLI, and of rerankers.
constexpr std::pair<const char*, const char*> kPairNames[] = {
    {"sentence1", "sentence2"}, {"sentence_1", "sentence_2"}, {"premise", "hypothesis"},
    {"question1", "question2"}, {"question", "sentence"},     {"#1 String", "#2 String"},
    {"query", "passage"}};
const Names kSecondNames = {"text2", "text_pair", "sentence2", "sentence_2"};  // next to a text
const Names kTagNames = {"ner_tags", "pos_tags", "tags", "upos", "labels"};
const Names kSourceNames = {"source", "src"}, kTargetNames = {"target", "tgt"};
const Names kOtherNames = {"messages",   "conversations", "instruction", "input",    "output", "prompt",
                           "completion", "response",      "chosen",      "rejected", "anchor", "positive",
                           "negative",   "question",      "context",     "answers",  "answer", "tokens",
                           "system",     "ranks",         "id",          "idx"};

const Json* field_of(const Json& record, const Names& names) {
  if (!record.is_object()) return nullptr;
  for (const char* name : names)
    if (const auto it = record.find(name); it != record.end() && !it->is_null()) return &*it;
  return nullptr;
}

std::string role_of(const std::string& from) {
  if (from == "human" || from == "user") return "user";
  if (from == "gpt" || from == "assistant" || from == "bot" || from == "model") return "assistant";
  if (from == "observation" || from == "function" || from == "function_response") return "tool";
  return from;
}

Json turn(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

Result<std::string> text_of(const Json& record, const char* key) {
  if (!record.contains(key) || !record[key].is_string())
    return error_at("", "field '{}' must be a text", key);
  return record[key].get<std::string>();
}

Result<Json> from_turns(const Json& list, const char* role, const char* content, const char* name) {
  if (!list.is_array() || list.empty()) return error_at("", "field '{}' must be a list of turns", name);
  Json out = Json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& t = list[i];
    if (!t.is_object() || !t.contains(role) || !t[role].is_string())
      return error_at("", "turn {} of '{}' has no '{}'", i, name, role);
    if (!t.contains(content) || !(t[content].is_string() || t[content].is_array() || t[content].is_null()))
      return error_at("", "turn {} of '{}' has no '{}'", i, name, content);
    Json one = t;
    if (std::string(role) != "role") one = {{"role", t[role]}, {"content", t[content]}};
    one["role"] = role_of(t[role].get<std::string>());
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

std::string name(Schema schema) {
  for (const Row& row : kRows)
    if (row.schema == schema) return row.name;
  return "";
}

std::optional<Schema> schema_named(const std::string& name) {
  for (const Row& row : kRows)
    if (name == row.name || name == row.alias) return row.schema;
  return std::nullopt;
}

std::vector<std::string> schema_names() {
  std::vector<std::string> out;
  for (const Row& row : kRows) out.emplace_back(row.name);
  return out;
}

const Json* field(const Json& record, std::initializer_list<const char*> names) {
  return field_of(record, names);
}

std::pair<const Json*, const Json*> text_pair_fields(const Json& record) {
  for (const auto& [first, second] : kPairNames) {
    const Json *a = field(record, {first}), *b = field(record, {second});
    if (a && b && a->is_string() && b->is_string()) return {a, b};
  }
  const Json *a = text_field(record), *b = field_of(record, kSecondNames);
  if (a && b && a->is_string() && b->is_string()) return {a, b};
  return {nullptr, nullptr};
}

bool is_unlabelled_pair(const Json& record) {
  const Json* label = label_field(record);
  return label && text_pair_fields(record).first && (*label == "-" || *label == "-1" || *label == -1);
}

const Json* text_field(const Json& record) { return field_of(record, kTextNames); }
const Json* label_field(const Json& record) { return field_of(record, kLabelNames); }
const Json* tags_field(const Json& record) { return field_of(record, kTagNames); }
const Json* source_field(const Json& record) { return field_of(record, kSourceNames); }
const Json* target_field(const Json& record) { return field_of(record, kTargetNames); }

bool is_field_name(const std::string& name) {
  for (const Names* names :
       {&kTextNames, &kSecondNames, &kLabelNames, &kTagNames, &kSourceNames, &kTargetNames, &kOtherNames})
    for (const char* known : *names)
      if (name == known) return true;
  return std::any_of(std::begin(kPairNames), std::end(kPairNames),
                     [&](const auto& pair) { return name == pair.first || name == pair.second; });
}

std::string field_names(const Json& record) {
  if (!record.is_object() || record.empty()) return "none";
  std::string out;
  for (const auto& item : record.items()) {
    if (out.size() > 300) return out + ", ...";
    out += (out.empty() ? "" : ", ") + quote(item.key());
  }
  return out;
}

std::string unexpected_schema_message(const Json& record, std::initializer_list<Schema> expected) {
  std::string expected_fields, example;
  for (const Row& row : kRows)
    if (std::find(expected.begin(), expected.end(), row.schema) != expected.end()) {
      expected_fields += (expected_fields.empty() ? "" : " | ") + std::string(row.fields);
      if (example.empty() || row.schema == Schema::kPromptCompletion) example = row.fields;
    }
  std::string columns;  // "prompt, completion" as ",prompt=FIELD,completion=FIELD"
  for (size_t at = 0; at < example.size();) {
    const size_t end = std::min(example.find(", ", at), example.size());
    columns += "," + example.substr(at, end - at) + "=FIELD";
    at = end + 2;
  }
  return fmt::format("its fields ({}) match no schema expected here ({}); map them after the path: PATH{}",
                     field_names(record), expected_fields, columns);
}

std::optional<Schema> detect_schema(const Json& record) {
  const auto has = [&](const char* key) { return field(record, {key}) != nullptr; };
  if (has("messages")) return Schema::kMessages;
  if (has("conversations")) return Schema::kShareGpt;
  if (has("chosen") && has("rejected")) return Schema::kPreference;
  if (has("answers") && has("ranks")) return Schema::kRanked;
  if (has("instruction") && has("output")) return Schema::kAlpaca;
  if (has("prompt") && has("completion") && has("label")) return Schema::kLabelledCompletion;
  if (has("prompt") && (has("completion") || has("response"))) return Schema::kPromptCompletion;
  if (has("context") && has("question")) return Schema::kQuestion;
  if (has("anchor") && has("positive")) return Schema::kTriplet;
  if (source_field(record) && target_field(record)) return Schema::kSourceTarget;
  if (has("tokens") && tags_field(record)) return Schema::kTokenLabels;
  if ((text_field(record) || text_pair_fields(record).first) && label_field(record))
    return Schema::kTextLabel;
  if (text_field(record)) return Schema::kText;
  if (has("prompt")) return Schema::kPrompt;
  return std::nullopt;
}

Result<Json> read_turns(const Json& list, const char* name) {
  const bool is_sharegpt =
      list.is_array() && !list.empty() && list[0].is_object() && list[0].contains("from");
  return is_sharegpt ? from_turns(list, "from", "value", name) : from_turns(list, "role", "content", name);
}

Result<Json> to_messages(const Json& record, Schema schema) {
  switch (schema) {
    case Schema::kMessages:
      return from_turns(record["messages"], "role", "content", "messages");
    case Schema::kShareGpt: {
      MAKAR_TRY(Json turns, from_turns(record["conversations"], "from", "value", "conversations"));
      if (const Json* system = field(record, {"system"}); system && system->is_string() && *system != "")
        turns.insert(turns.begin(), turn("system", system->get<std::string>()));
      return turns;
    }
    case Schema::kAlpaca: {
      MAKAR_TRY(std::string user, text_of(record, "instruction"));
      const Json* input = field(record, {"input"});
      if (input && input->is_string() && !input->get_ref<const std::string&>().empty())
        user += "\n" + input->get<std::string>();
      MAKAR_TRY(const std::string answer, text_of(record, "output"));
      return Json::array({turn("user", user), turn("assistant", answer)});
    }
    case Schema::kPromptCompletion: {
      MAKAR_TRY(const std::string prompt, text_of(record, "prompt"));
      MAKAR_TRY(const std::string answer,
                text_of(record, record.contains("completion") ? "completion" : "response"));
      return Json::array({turn("user", prompt), turn("assistant", answer)});
    }
    default:
      return error_at("", "a {} record is not a conversation", name(schema));
  }
}

}  // namespace makar
