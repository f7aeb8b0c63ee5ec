// Labelled texts: sequences with a class or a number, tokens with tags, questions with answers in their
// context.
#pragma once
#include "data/datasets.h"
#include "data/schema.h"
#include "data/spool.h"
#include "text/tokenizer.h"

namespace makar {

enum class LabelKind { kClass, kNumber, kTags, kAnswer };

struct LabelledText {
  std::vector<int64_t> ids, types;
  int64_t label = -1;          // kClass
  int64_t group = -1;          // kClass: the group of people that the text is about or from; -1: not read
  float number = 0;            // kNumber
  std::vector<int64_t> tags;   // kTags: one per token, -100 for all but the first token of a word
  int64_t start = 0, end = 0;  // kAnswer: tokens of the answer; 0 (the first token) if not in this window
  // kAnswer: to extract the answer text.
  size_t question = 0;        // windows of one question share it
  std::vector<Span> offsets;  // byte ranges of context tokens in the context, (0, 0) for others
  std::string context;
  std::vector<std::string> answers;

  static constexpr auto fields() {
    using T = LabelledText;
    return std::tuple(&T::ids, &T::types, &T::label, &T::group, &T::number, &T::tags, &T::start, &T::end,
                      &T::question, &T::offsets, &T::context, &T::answers);
  }
};

// Texts stored in temporary files in `folder`.
class LabelledTexts {
 public:
  explicit LabelledTexts(const std::string& folder) : texts_(folder) {}
  Status add(const LabelledText& text) { return texts_.add(text); }
  Result<LabelledText> read(size_t at) const;
  size_t size() const { return texts_.size(); }
  bool empty() const { return texts_.empty(); }
  // From now on, a label or tag stored as i is read as numbers[i].
  void renumber(std::vector<int64_t> numbers) { numbers_ = std::move(numbers); }

 private:
  SpoolOf<LabelledText> texts_;
  std::vector<int64_t> numbers_;
};

struct LabelledData {
  explicit LabelledData(const std::string& folder) : train(folder), validation(folder) {}
  LabelKind kind = LabelKind::kClass;
  std::vector<std::string> names;   // of classes or tags, by index
  std::vector<std::string> groups;  // by index, in order of appearance; empty: not read
  LabelledTexts train, validation;
  BadRecords bad;
  std::string schema;
};

struct LabelledOptions {
  int64_t max_length = 128;  // in tokens; longer questions are split into windows of this size
  int64_t stride = 64;       // overlap of consecutive windows
  bool regression = false;
  std::string group_field = "";  // field of the group; "": none is read
  double validation = 0;         // share of records held out by hash; the last ones if the hash selects none
  std::string folder = ".";      // for temporary files
};

// Reads a file or folder. `names` fixes the classes (for validation data); if empty, they are collected and
// sorted by name (numbers by value).
Result<LabelledData> read_labelled(const DataPath& path, const Tokenizer& tokenizer,
                                   const LabelledOptions& options, const std::vector<std::string>& names = {},
                                   const std::vector<std::string>& groups = {});

// Reads the training and the validation dataset of a run; the training data determines the labels. Adds the
// hash of the data to `identity`. `options` sets `validation` and `folder` of `reading`.
Result<LabelledData> open_labelled(const DatasetOptions& options, const Tokenizer& tokenizer,
                                   LabelledOptions reading, Json& identity);

// A pre-split sentence as ids between the tokenizer's special tokens; `first` maps words to their first
// token.
struct WordPieces {
  std::vector<int64_t> ids;
  std::vector<int64_t> first;  // the first token of each word that was not truncated
};
Result<WordPieces> encode_words(const Tokenizer& tokenizer, const std::vector<std::string>& words,
                                int64_t max_length);

}  // namespace makar
