// Counts of the n-grams of sentences: every window of <s> w1 ... wm </s>.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "lexical/ngram_table.h"
#include "lexical/numbered_words.h"

namespace makar {

class SentenceNgrams {
 public:
  // Word 0 is <unk>, 1 is <s>, 2 is </s>. add() fails with kLimit if the counts exceed `max_bytes` of memory.
  SentenceNgrams(int order, size_t max_bytes);

  // Words that spell <s>, </s> or <unk> count as unknown words.
  Status add(std::span<const std::string_view> words);
  // Words other than these become <unk>.
  void limit_words(const NumberedWords& known) { known_ = &known; }

  int order() const { return static_cast<int>(tables.size()); }
  size_t bytes() const;

  NumberedWords words;
  // By length - 1. Level 1 is numbered as `words`.
  std::vector<NgramTable> tables;
  std::vector<std::vector<uint64_t>> counts;
  uint64_t sentences = 0, tokens = 0;  // tokens with </s>

  static constexpr uint32_t kUnknown = 0, kBegin = 1, kEnd = 2;

 private:
  uint32_t id(std::string_view word);
  size_t max_bytes_, word_bytes_ = 0;
  const NumberedWords* known_ = nullptr;
  std::vector<uint32_t> ids_;
};

}  // namespace makar
