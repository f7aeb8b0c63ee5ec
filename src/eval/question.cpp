#include "eval/question.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/file.h"
#include "base/quote.h"
#include "base/rng.h"
#include "data/line_reader.h"
#include "eval/perturb.h"
#include "metrics/words.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kMaxDocuments = 2'000'000, kMaxChoices = 1000, kMaxTurns = 100;
constexpr size_t kMaxSharedFileBytes = size_t{1} << 20, kMaxExplodedBytes = size_t{256} << 20;

std::string file_path(const EvalTask& task, const std::string& data, std::string file,
                      const std::string& subtask) {
  if (const size_t at = file.find("{name}"); at != std::string::npos) file.replace(at, 6, subtask);
  std::string path = data;
  if (!task.dataset_path.empty()) path += "/" + task.dataset_path;
  return path + "/" + file;
}

Result<std::vector<std::string>> read_lines(const std::string& path) {
  MAKAR_TRY(auto stream, ByteStream::open(path));
  LineReader reader(std::move(stream));
  std::vector<std::string> out;
  for (Line line;;) {
    MAKAR_TRY(const bool found, reader.next(line));
    if (!found) return out;
    if (line.too_long || out.size() == kMaxDocuments)
      return error_of(Error::Kind::kLimit, fmt::format("{}:{}", path, line.number),
                      "the line is too long, or the file has more than {} lines", kMaxDocuments);
    out.push_back(to_valid_utf8(line.text));
  }
}

// Adds the documents in the list `field` of a record.
Status add_list(const DataRecord& record, const std::string& field, std::vector<Json>& out) {
  if (!record.value.contains(field) || !record.value[field].is_array())
    return error_at(record.place(), "expected a list of documents in the field {}", quote(field));
  for (const Json& one : record.value[field]) {
    if (!one.is_object() || out.size() == kMaxDocuments)
      return error_at(record.place(), "the list {} has an item that is not an object, or more than {} items",
                      quote(field), kMaxDocuments);
    out.push_back(one);
  }
  return Done{};
}

// Replaces each document by one for each item of the list in a field. `document_number` is the number of the
// document that an item comes from.
Result<std::vector<Json>> explode_documents(const std::vector<Json>& documents, const std::string& field) {
  std::vector<Json> out;
  size_t bytes = 0;
  for (size_t i = 0; i < documents.size(); ++i) {
    const std::string place = fmt::format("document {}", i);
    if (!documents[i].contains(field) || !documents[i][field].is_array() || documents[i][field].empty())
      return error_at(place, "expected a list with one item or more in the field {}", quote(field));
    const Json& items = documents[i][field];
    Json fields = documents[i];
    fields.erase(field);
    bytes += fields.dump(-1, ' ', false, Json::error_handler_t::replace).size() * items.size();
    if (out.size() + items.size() > kMaxDocuments || bytes > kMaxExplodedBytes)
      return error_of(Error::Kind::kLimit, place, "the items of {} make more than {} documents or {} bytes",
                      quote(field), kMaxDocuments, kMaxExplodedBytes);
    for (const Json& item : items) {
      fields[field] = item, fields["document_number"] = i;
      out.push_back(fields);
    }
  }
  return out;
}

Result<std::vector<Json>> read_split(const EvalTask& task, const std::string& split,
                                     const std::string& subtask, const std::string& data) {
  std::vector<Json> out;
  if (split == task.test_split) out = task.documents;
  std::vector<DataPath> paths;
  const auto files = task.data_files.find(split);
  for (const std::string& file :
       files == task.data_files.end() ? std::vector<std::string>() : files->second) {
    const std::string path = file_path(task, data, file, subtask);
    if (!task.lines) {
      paths.emplace_back(path, task.columns);
      continue;
    }
    MAKAR_TRY(const auto lines, read_lines(path));
    for (const std::string& line : lines) out.push_back({{"text", line}});
  }
  if (!paths.empty()) {
    MAKAR_TRY(auto reader, RecordReader::open(paths));
    for (DataRecord record;;) {
      MAKAR_TRY(const bool found, reader.next(record));
      if (reader.bad().count > 0) return error_at("", "{}", reader.bad().reported.at(0));
      if (!found) break;
      if (out.size() == kMaxDocuments)
        return error_of(Error::Kind::kLimit, record.place(), "more than {} documents", kMaxDocuments);
      if (task.field.empty())
        out.push_back(std::move(record.value));
      else
        MAKAR_RETURN_IF_ERROR(add_list(record, task.field, out));
    }
  }
  for (const auto& [field, file] : task.shared_files) {
    MAKAR_TRY(const std::string text, read_file(file_path(task, data, file, subtask), kMaxSharedFileBytes));
    for (Json& document : out) document[field] = to_valid_utf8(text);
  }
  if (split == task.test_split)
    for (const auto& [field, file] : task.joined_files) {
      const std::string path = file_path(task, data, file, subtask);
      MAKAR_TRY(const auto lines, read_lines(path));
      if (lines.size() != out.size())
        return error_at(path, "has {} lines for {} documents", lines.size(), out.size());
      for (size_t i = 0; i < out.size(); ++i) out[i][field] = lines[i];
    }
  if (!task.explode.empty()) {
    MAKAR_TRY(out, explode_documents(out, task.explode));
  }
  if (!subtask.empty())
    for (Json& document : out) document["dataset_name"] = subtask;
  if (out.empty()) return error_at(data, "the split {} of {} is empty", quote(split), task.name);
  return out;
}

Result<std::vector<std::string>> choices_of(const EvalTask& task, const Json& document) {
  if (!task.choice_list.empty()) return task.choice_list;
  std::vector<std::string> out;
  MAKAR_TRY(const Json list, task.choice.value(document));
  if (!list.is_array() || list.empty() || list.size() > kMaxChoices)
    return error_at("doc_to_choice", "expected a list of 1 to {} texts, got {}", kMaxChoices,
                    quote(list.dump()));
  for (const Json& one : list) out.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  return out;
}

// The index of a correct choice, from an integer, the text of a choice, or digits.
Result<int64_t> gold_index(const Json& target, const std::vector<std::string>& choices) {
  int64_t index = -1;
  if (target.is_number_integer()) {
    index = target.get<int64_t>();
  } else if (target.is_string()) {
    const auto& text = target.get_ref<const std::string&>();
    const auto at = std::find(choices.begin(), choices.end(), text);
    if (at != choices.end()) return at - choices.begin();
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (code != std::errc() || end != text.data() + text.size()) index = -1;
  }
  if (index < 0 || index >= static_cast<int64_t>(choices.size()))
    return error_at("doc_to_target", "{} is neither one of the {} choices nor the index of one",
                    quote(target.dump()), choices.size());
  return index;
}

std::optional<double> number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

// The text after the context in a few-shot example.
Result<std::string> target_text(const EvalTask& task, const Json& document) {
  MAKAR_TRY(Json target, task.target.value(document));
  if (target.is_array() && !target.empty()) target = target[0];
  if (task.output != OutputType::kMultipleChoice)
    return target.is_string() ? target.get<std::string>() : target.dump();
  MAKAR_TRY(const auto choices, choices_of(task, document));
  if (task.numeric()) return target.is_string() ? target.get<std::string>() : target.dump();
  MAKAR_TRY(const int64_t index, gold_index(target, choices));
  return choices[static_cast<size_t>(index)];
}

// Indices of examples: the first ones, or drawn without repetition; never the question itself.
std::vector<size_t> draw_shots(const EvalTask& task, const EvalData& data, size_t index, size_t count,
                               uint64_t seed) {
  const std::vector<Json>& pool = data.same_split ? data.test : data.fewshot;
  std::vector<size_t> out;
  const Rng rng(seed, Purpose::kShuffle, index);
  const uint64_t max_draws = pool.size() * 64 + 64;  // ends the search if the pool has too few documents
  for (uint64_t draw = 0; out.size() < count && draw < max_draws; ++draw) {
    const size_t at = task.first_shots
                          ? draw
                          : static_cast<size_t>(rng.uniform_double(draw) * static_cast<double>(pool.size()));
    if (at >= pool.size()) break;
    const bool is_question = data.same_split && at == index;
    if (!is_question && std::find(out.begin(), out.end(), at) == out.end()) out.push_back(at);
  }
  return out;
}

}  // namespace

Result<EvalData> read_eval_data(const EvalTask& task, const std::string& subtask, const std::string& data) {
  EvalData out;
  MAKAR_TRY(out.test, read_split(task, task.test_split, subtask, data));
  out.same_split = task.fewshot_split.empty() || task.fewshot_split == task.test_split;
  if (!out.same_split) {
    MAKAR_TRY(out.fewshot, read_split(task, task.fewshot_split, subtask, data));
  }
  return out;
}

namespace {

// The context of a question: its text, or its messages.
Status make_context(const EvalTask& task, const std::string& description,
                    const std::vector<std::pair<std::string, std::string>>& shots, const std::string& text,
                    const PromptStyle& style, Question& out) {
  std::string examples;
  for (const auto& [question, answer] : shots)
    examples += question + task.target_delimiter + answer + task.fewshot_delimiter;
  out.context = description + examples + text;
  if (!style.chat) return Done{};
  out.messages = Json::array();
  const auto add_message = [&](const char* role, const std::string& content) {
    out.messages.push_back({{"role", role}, {"content", to_valid_utf8(content)}});
  };
  std::string system = style.system;
  if (!system.empty() && !description.empty()) system += "\n\n";
  system += without_end_blanks(description);
  if (!system.empty()) add_message("system", system);
  if (style.multiturn)
    for (const auto& [question, answer] : shots)
      add_message("user", question), add_message("assistant", answer);
  add_message("user", style.multiturn ? text : examples + text);
  return Done{};
}

Status add_turns(const EvalTask& task, const Json& document, std::string& text, Question& out) {
  if (task.turns.empty()) return Done{};
  MAKAR_TRY(const Json turns, task.turns.value(document));
  if (!turns.is_array() || turns.empty() || turns.size() > kMaxTurns)
    return error_at("doc_to_turns", "expected a list of 1 to {} texts, got {}", kMaxTurns,
                    quote(turns.dump()));
  for (const Json& one : turns) out.turns.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  text = out.turns[0];
  out.turns.erase(out.turns.begin());
  return Done{};
}

}  // namespace

Result<Question> make_question(const EvalTask& task, const EvalData& data, size_t index, int64_t shots,
                               uint64_t seed, const PromptStyle& style) {
  const Json& document = data.test[index];
  const std::vector<Json>& pool = data.same_split ? data.test : data.fewshot;
  Question out;
  MAKAR_TRY(const std::string description, task.description.text(document));
  const auto shot_indices = draw_shots(task, data, index, static_cast<size_t>(shots), seed);
  if (shot_indices.size() != static_cast<size_t>(shots))
    return error_at("num_fewshot", "is {}, but the split has only {} other documents", shots,
                    shot_indices.size());
  std::vector<std::pair<std::string, std::string>> examples;
  for (const size_t at : shot_indices) {
    MAKAR_TRY(std::string text, task.text.text(pool[at]));
    MAKAR_TRY(std::string answer, target_text(task, pool[at]));
    examples.emplace_back(std::move(text), std::move(answer));
  }
  MAKAR_TRY(std::string text, task.text.text(document));
  MAKAR_RETURN_IF_ERROR(add_turns(task, document, text, out));
  const uint64_t perturb_seed = seed + index;
  const bool perturb_answers = perturbs_answers(style.perturbation);
  text = perturb(text, style.perturbation, perturb_seed);
  MAKAR_RETURN_IF_ERROR(make_context(task, description, examples, text, style, out));
  MAKAR_TRY(out.target, task.target.value(document));
  if (task.output == OutputType::kMultipleChoice) {
    MAKAR_TRY(out.choices, choices_of(task, document));
    if (task.numeric()) {
      const auto number = number_of(out.target);
      if (!number) return error_at("doc_to_target", "expected a number, got {}", quote(out.target.dump()));
      out.target = *number;
      return out;
    }
    Json golds = Json::array();
    for (const Json& one : out.target.is_array() ? out.target : Json::array({out.target})) {
      MAKAR_TRY(const int64_t gold, gold_index(one, out.choices));
      golds.push_back(gold);
    }
    if (perturb_answers)
      for (std::string& choice : out.choices) choice = perturb(choice, style.perturbation, perturb_seed);
    if (golds.empty()) return error_at("doc_to_target", "names no correct choice");
    out.target = golds.size() == 1 ? golds[0] : golds;
    return out;
  }
  for (const Json& one : out.target.is_array() ? out.target : Json::array({out.target}))
    out.targets.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  if (perturb_answers)
    for (std::string& target : out.targets) target = perturb(target, style.perturbation, perturb_seed);
  if (out.targets.empty()) return error_at("doc_to_target", "is an empty list");
  return out;
}

}  // namespace makar
