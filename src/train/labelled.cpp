#include "train/labelled.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "data/prepare.h"
#include "ops/softmax.h"
#include "text/unicode.h"

namespace makar {
namespace {

std::string label_text(const Json& v) {
  if (v.is_string()) return v.get<std::string>();
  if (v.is_boolean()) return v.get<bool>() ? "1" : "0";
  if (v.is_number()) return v.dump();
  return "";
}

bool parse_double(const std::string& text, double& out) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc() && end == text.data() + text.size() && std::isfinite(out);
}

// Sorts label names: numbers by value, others by their bytes.
void sort_names(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    double x = 0, y = 0;
    const bool x_is_number = parse_double(a, x), y_is_number = parse_double(b, y);
    if (x_is_number != y_is_number) return x_is_number;
    return x_is_number && x != y ? x < y : a < b;
  });
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

Result<LabelledText> encode_text(const Tokenizer& tokenizer, const Json& record, int64_t max_length) {
  EncodeOptions o;
  o.add_special = true, o.offsets = false;
  o.truncation = Truncation{static_cast<size_t>(max_length)};
  auto [text, second] = text_pair_fields(record);
  if (!text) text = text_field(record);
  if (!text || !text->is_string()) return error_at("", "the record has no text");
  const auto encode = [&](const std::string& first, const Json* other) {
    return other ? tokenizer.encode_pair(first, other->get_ref<const std::string&>(), o)
                 : tokenizer.encode(first, o);
  };
  MAKAR_TRY(const Encoding e, encode(text->get_ref<const std::string&>(), second));
  if (e.ids.empty()) return error_at("", "the text is empty");
  LabelledText out;
  out.ids.assign(e.ids.begin(), e.ids.end());
  out.types.assign(e.type_ids.begin(), e.type_ids.end());
  return out;
}

// The number of bytes in the first `points` code points.
size_t byte_offset(const std::string& text, int64_t points) {
  size_t at = 0;
  for (int64_t i = 0; i < points && at < text.size(); ++i) next_code(text, at);
  return at;
}

// Splits a question's context into windows; keeps the byte offsets of context tokens.
Status add_windows(const Tokenizer& tokenizer, const Json& record, const LabelledOptions& o, size_t question,
                   std::vector<LabelledText>& out) {
  const Json &q = record["question"], &c = record["context"];
  if (!q.is_string() || !c.is_string()) return error_at("", "'question' and 'context' must be texts");
  const std::string context = c.get<std::string>();
  std::vector<std::string> answers;
  size_t begin = 0, end = 0;
  const auto add_answer = [&](const Json& text, const Json& start) {
    if (!text.is_string() || !start.is_number_integer()) return false;
    if (answers.empty()) {
      begin = byte_offset(context, start.get<int64_t>());
      end = begin + text.get_ref<const std::string&>().size();
    }
    answers.push_back(text.get<std::string>());
    return true;
  };
  const Json* value = field(record, {"answers"});
  if (value && value->is_array())
    for (const Json& a : *value)
      if (!a.is_object() || !a.contains("text") || !a.contains("answer_start") ||
          !add_answer(a["text"], a["answer_start"]))
        return error_at("", "an answer needs 'text' and 'answer_start'");
  if (value && value->is_object() && value->contains("text") && (*value)["text"].is_array())
    for (size_t i = 0; i < (*value)["text"].size(); ++i)
      if (!value->contains("answer_start") || !(*value)["answer_start"].is_array() ||
          (*value)["answer_start"].size() <= i ||
          !add_answer((*value)["text"][i], (*value)["answer_start"][i]))
        return error_at("", "an answer needs 'text' and 'answer_start'");
  if (!answers.empty() && context.compare(begin, answers[0].size(), answers[0]) != 0)
    return error_at("", "'answer_start' does not point at the answer's text");
  EncodeOptions e;
  e.add_special = true, e.overflow = true;
  e.truncation = Truncation{static_cast<size_t>(o.max_length), static_cast<size_t>(o.stride),
                            Truncation::Strategy::kOnlySecond};
  MAKAR_TRY(Encoding first, tokenizer.encode_pair(q.get_ref<const std::string&>(), context, e));
  std::vector<Encoding> windows = std::move(first.overflow);
  windows.insert(windows.begin(), std::move(first));
  for (const Encoding& w : windows) {
    LabelledText t;
    t.ids.assign(w.ids.begin(), w.ids.end()), t.types.assign(w.type_ids.begin(), w.type_ids.end());
    t.question = question, t.context = context, t.answers = answers;
    for (size_t i = 0; i < w.ids.size(); ++i) {
      const bool inside = w.sequence_ids[i] == 1 && !w.special_mask[i];
      t.offsets.push_back(inside ? w.offsets[i] : Span{});
      if (!inside || answers.empty()) continue;
      if (w.offsets[i].begin <= begin && begin < w.offsets[i].end) t.start = static_cast<int64_t>(i);
      if (w.offsets[i].begin < end && end <= w.offsets[i].end) t.end = static_cast<int64_t>(i);
    }
    if (t.start == 0 || t.end == 0 || t.end < t.start) t.start = t.end = 0;
    out.push_back(std::move(t));
  }
  return Done{};
}

// Maps label names to numbers: fixed names, or numbered in order of first appearance.
class LabelNames {
 public:
  explicit LabelNames(const std::vector<std::string>& fixed_names) : fixed_(!fixed_names.empty()) {
    for (const std::string& name : fixed_names) numbers_.emplace(name, static_cast<int64_t>(numbers_.size()));
  }
  Result<int64_t> number(const std::string& name) {
    const auto it = numbers_.find(name);
    if (it != numbers_.end()) return it->second;
    if (fixed_)
      return error_at("", "label '{}' is not among the {} labels of the training data", name.substr(0, 80),
                      numbers_.size());
    if (numbers_.size() >= kMaxLabels)
      return error_at("", "more than {} different labels; to predict numbers, use --regression", kMaxLabels);
    return numbers_.emplace(name, static_cast<int64_t>(numbers_.size())).first->second;
  }
  std::vector<std::string> sorted() const {
    std::vector<std::string> out;
    for (const auto& entry : numbers_) out.push_back(entry.first);
    sort_names(out);
    return out;
  }
  // For each number, its position in `names`.
  std::vector<int64_t> order(const std::vector<std::string>& names) const {
    std::vector<int64_t> out(names.size());
    for (size_t i = 0; i < names.size(); ++i)
      out[static_cast<size_t>(numbers_.at(names[i]))] = static_cast<int64_t>(i);
    return out;
  }

 private:
  static constexpr size_t kMaxLabels = 100'000;
  bool fixed_;
  std::map<std::string, int64_t> numbers_;
};

class LabelReader {
 public:
  LabelReader(const Tokenizer& tokenizer, const LabelledOptions& o, LabelNames& names, bool fixed_groups)
      : tokenizer_(tokenizer), o_(o), names_(names), fixed_groups_(fixed_groups) {}

  // The texts of one record: the windows of a question, otherwise one.
  Result<std::vector<LabelledText>> read(const DataRecord& record, LabelledData& data) {
    const auto schema = detect_schema(record.value);
    if (!schema ||
        (*schema != Schema::kTextLabel && *schema != Schema::kTokenLabels && *schema != Schema::kQuestion))
      return error_of(Error::Kind::kUnsupported, "", "{}",
                      unexpected_schema_message(
                          record.value, {Schema::kTextLabel, Schema::kTokenLabels, Schema::kQuestion}));
    const LabelKind kind = *schema == Schema::kTokenLabels ? LabelKind::kTags
                           : *schema == Schema::kQuestion  ? LabelKind::kAnswer
                           : o_.regression                 ? LabelKind::kNumber
                                                           : LabelKind::kClass;
    if (data.schema.empty()) data.schema = name(*schema), data.kind = kind;
    if (kind != data.kind)
      return error_at("", "a {} record among {} records; a dataset needs one schema", name(*schema),
                      data.schema);
    std::vector<LabelledText> out;
    if (kind == LabelKind::kAnswer) {
      MAKAR_RETURN_IF_ERROR(add_windows(tokenizer_, record.value, o_, question_++, out));
      return out;
    }
    if (kind == LabelKind::kTags) {
      MAKAR_TRY(out.emplace_back(), tagged(record));
      return out;
    }
    MAKAR_TRY(LabelledText t, encode_text(tokenizer_, record.value, o_.max_length));
    const std::string label = label_text(*label_field(record.value));
    double number = 0;
    if (label.empty()) return error_at("", "the label must be a text or a number");
    if (kind == LabelKind::kClass && is_unlabelled_pair(record.value))
      return error_of(Error::Kind::kUnsupported, "", "the annotators did not agree on a label");
    if (kind == LabelKind::kNumber && !parse_double(label, number))
      return error_at("", "the label must be a number, got '{}'", label.substr(0, 80));
    t.number = static_cast<float>(number);
    if (kind == LabelKind::kClass) {
      MAKAR_TRY(t.label, names_.number(label));
    }
    if (!o_.group_field.empty()) {
      MAKAR_TRY(t.group, group_of(record.value, data));
    }
    out.push_back(std::move(t));
    return out;
  }

 private:
  // Groups are numbered in order of appearance; in validation data, as in the training data.
  Result<int64_t> group_of(const Json& record, LabelledData& data) const {
    const std::string name =
        record.contains(o_.group_field) ? label_text(record[o_.group_field]) : std::string();
    if (name.empty())
      return error_at("", "the field '{}' with the group is missing, or neither a text nor a number",
                      o_.group_field);
    const auto at = std::find(data.groups.begin(), data.groups.end(), name);
    if (at != data.groups.end()) return at - data.groups.begin();
    if (fixed_groups_)
      return error_at("", "group '{}' is not among the {} groups of the training data", name.substr(0, 80),
                      data.groups.size());
    if (data.groups.size() >= kMaxGroups)
      return error_at("", "more than {} groups; is '{}' the field of the group?", kMaxGroups, o_.group_field);
    data.groups.push_back(name);
    return static_cast<int64_t>(data.groups.size()) - 1;
  }

  Result<LabelledText> tagged(const DataRecord& record) {
    const Json &tokens = record.value["tokens"], &tags = *tags_field(record.value);
    if (!tokens.is_array() || !tags.is_array() || tokens.size() != tags.size() || tokens.empty())
      return error_at("", "'tokens' and tags must be non-empty lists of the same length");
    std::vector<std::string> words;
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::string tag = label_text(tags[i]);
      if (!tokens[i].is_string() || tag.empty())
        return error_at("", "token {} is not a text, or has no tag", i);
      words.push_back(tokens[i].get<std::string>());
      MAKAR_TRY(numbers.emplace_back(), names_.number(tag));
    }
    MAKAR_TRY(const WordPieces pieces, encode_words(tokenizer_, words, o_.max_length));
    LabelledText t;
    t.ids = pieces.ids;
    t.tags.assign(t.ids.size(), ops::kIgnore);
    for (size_t w = 0; w < pieces.first.size(); ++w)
      t.tags[static_cast<size_t>(pieces.first[w])] = numbers[w];
    return t;
  }

  const Tokenizer& tokenizer_;
  const LabelledOptions& o_;
  LabelNames& names_;
  bool fixed_groups_;
  static constexpr size_t kMaxGroups = 256;
  size_t question_ = 0;
};

}  // namespace

Result<WordPieces> encode_words(const Tokenizer& tokenizer, const std::vector<std::string>& words,
                                int64_t max_length) {
  // Find the special tokens that the post-processor adds before and after a text.
  EncodeOptions with_special;
  with_special.add_special = true, with_special.offsets = false;
  MAKAR_TRY(const Encoding frame, tokenizer.encode("a", with_special));
  WordPieces out;
  std::vector<int64_t> tail;
  bool after_text = false;
  for (size_t i = 0; i < frame.ids.size(); ++i) {
    if (!frame.special_mask[i])
      after_text = true;
    else
      (after_text ? tail : out.ids).push_back(frame.ids[i]);
  }
  EncodeOptions plain;
  for (size_t w = 0; w < words.size(); ++w) {
    std::vector<uint32_t> ids;
    MAKAR_RETURN_IF_ERROR(
        tokenizer.append_ids(w == 0 || !tokenizer.byte_level() ? words[w] : " " + words[w], plain, ids));
    if (ids.empty())
      ids.push_back(tokenizer.id("[UNK]").value_or(0));  // the normaliser removed the whole word
    if (static_cast<int64_t>(out.ids.size() + ids.size() + tail.size()) > max_length) break;
    out.first.push_back(static_cast<int64_t>(out.ids.size()));
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  }
  out.ids.insert(out.ids.end(), tail.begin(), tail.end());
  return out;
}

Result<LabelledText> LabelledTexts::read(size_t at) const {
  MAKAR_TRY(LabelledText t, texts_.read(at));
  const auto apply_numbers = [&](int64_t& label) {
    if (label >= 0 && !numbers_.empty()) label = numbers_[static_cast<size_t>(label)];
  };
  apply_numbers(t.label);
  for (int64_t& tag : t.tags) apply_numbers(tag);
  return t;
}

namespace {

// The key that is hashed for the validation split: windows of one question stay together.
std::string split_key(const LabelledText& first, LabelKind kind) {
  if (kind == LabelKind::kAnswer) return fmt::format("question {}", first.question);
  return {reinterpret_cast<const char*>(first.ids.data()), first.ids.size() * sizeof(int64_t)};
}

Result<LabelledData> read_once(const DataPath& path, const Tokenizer& tokenizer,
                               const LabelledOptions& options, const std::vector<std::string>& fixed_names,
                               const std::vector<std::string>& groups, ValidationSplit& split) {
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  LabelledData out(options.folder);
  LabelNames names(fixed_names);
  out.groups = groups;
  LabelReader label_reader(tokenizer, options, names, !groups.empty());
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const auto texts = label_reader.read(record, out);
    if (!texts.ok()) {
      if (texts.error().kind == Error::Kind::kUnsupported)
        reader.bad().add_once(record.place(), texts.error().message);
      else
        reader.bad().add(record.place(), texts.error().message);
      continue;
    }
    const bool held_out = split.selects(split_key(texts->front(), out.kind));
    for (const LabelledText& t : *texts)
      MAKAR_RETURN_IF_ERROR((held_out ? out.validation : out.train).add(t));
  }
  out.bad = reader.bad();
  out.names = fixed_names;
  if (fixed_names.empty()) {
    out.names = names.sorted();
    out.train.renumber(names.order(out.names)), out.validation.renumber(names.order(out.names));
  }
  if (out.train.empty() && out.validation.empty())
    return error_at(path.path, "there is no labelled record ({} could not be used{})", out.bad.count,
                    out.bad.reported.empty() ? "" : "; the first: " + out.bad.reported[0]);
  return out;
}

}  // namespace

Result<LabelledData> read_labelled(const DataPath& path, const Tokenizer& tokenizer,
                                   const LabelledOptions& options,
                                   const std::vector<std::string>& fixed_names,
                                   const std::vector<std::string>& groups) {
  ValidationSplit split(options.validation);
  MAKAR_TRY(LabelledData out, read_once(path, tokenizer, options, fixed_names, groups, split));
  auto tail = split.tail();
  if (!tail) return out;
  return read_once(path, tokenizer, options, fixed_names, groups, *tail);
}

}  // namespace makar
