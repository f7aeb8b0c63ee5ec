// Pre-tokenizers: the second pipeline stage, which splits the normalised text into words.
#pragma once
#include <memory>
#include <vector>

#include "base/json.h"
#include "text/aligned_text.h"

namespace makar {

// A text and its words; bytes outside the words are dropped.
struct Words {
  AlignedText text;
  std::vector<Span> ranges;  // ranges of text.text()
};

// What happens to the matches of a pattern.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual Status apply(Words& words) const = 0;

  // From the "pre_tokenizer" section; a null section gives a null pointer. With `raw_bytes` the ByteLevel
  // stage does not translate bytes, for a model with a byte vocabulary.
  static Result<std::unique_ptr<const PreTokenizer>> from_json(const Json& json, bool raw_bytes);
};

// GPT-2's pattern, which the ByteLevel stage uses.
extern const char* const kGpt2Pattern;

}  // namespace makar
