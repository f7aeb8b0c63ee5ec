// Labelled texts: sequences with a class or a number, tokens with tags, questions with answers in their
// context.
#pragma once
#include "data/record_reader.h"
#include "data/schema.h"
#include "data/spool.h"
#include "text/tokenizer.h"

namespace makar {

enum class LabelKind { kClass, kNumber, kTags, kAnswer };

struct LabelledText {
  std::vector<int64_t> ids, types;
  int64_t label = -1;          // kClass
  float number = 0;            // kNumber
  std::vector<int64_t> tags;   // kTags: one a token, -100 for the pieces of a word after its first
  int64_t start = 0, end = 0;  // kAnswer: tokens of the answer; 0 (the first token) where the window has none
  // kAnswer: for reading the answer back.
  size_t question = 0;        // windows of one question share it
  std::vector<Span> offsets;  // of context tokens in bytes of the context, (0, 0) for others
  std::string context;
  std::vector<std::string> answers;

  static constexpr auto fields() {
    using T = LabelledText;
    return std::tuple(&T::ids, &T::types, &T::label, &T::number, &T::tags, &T::start, &T::end, &T::question,
                      &T::offsets, &T::context, &T::answers);
  }
};

// Texts on disk, in temporary files of `folder`.
class LabelledTexts {
 public:
  explicit LabelledTexts(const std::string& folder) : texts_(folder) {}
  Status add(const LabelledText& text) { return texts_.add(text); }
  Result<LabelledText> read(size_t at) const;
  size_t size() const { return texts_.size(); }
  bool empty() const { return texts_.empty(); }
  // Labels and tags that were added as i read as numbers[i].
  void renumber(std::vector<int64_t> numbers) { numbers_ = std::move(numbers); }

 private:
  SpoolOf<LabelledText> texts_;
  std::vector<int64_t> numbers_;
};

struct LabelledData {
  explicit LabelledData(const std::string& folder) : train(folder), validation(folder) {}
  LabelKind kind = LabelKind::kClass;
  std::vector<std::string> names;  // of classes or tags, by number
  LabelledTexts train, validation;
  BadRecords bad;
  std::string schema;
};

struct LabelledOptions {
  int64_t max_length = 128;  // tokens; questions go in windows of it
  int64_t stride = 64;       // how much windows overlap
  bool regression = false;
  double validation = 0;     // share of the texts, by hash; windows of one question stay together
  std::string folder = ".";  // of temporary files
};

// Reads a file or folder. `names` fixes the classes (for validation data); empty: they are found, in order of
// name (numbers by value).
Result<LabelledData> read_labelled(const std::string& path, const Tokenizer& tokenizer,
                                   const LabelledOptions& options,
                                   const std::vector<std::string>& names = {});

// A word-by-word sentence as ids between the tokenizer's special tokens; `first` says which piece begins
// which word.
struct WordPieces {
  std::vector<int64_t> ids;
  std::vector<int64_t> first;  // token of each word that was not cut off
};
Result<WordPieces> encode_words(const Tokenizer& tokenizer, const std::vector<std::string>& words,
                                int64_t max_length);

}  // namespace makar
