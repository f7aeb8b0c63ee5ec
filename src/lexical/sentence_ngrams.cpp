#include "lexical/sentence_ngrams.h"

#include "lexical/ngram_model.h"

namespace makar {

SentenceNgrams::SentenceNgrams(int order, size_t max_bytes) : max_bytes_(max_bytes) {
  check(order >= 1 && order <= kMaxOrder, "the order of an n-gram model is 1 to 10");
  tables.resize(static_cast<size_t>(order));
  counts.resize(static_cast<size_t>(order));
  for (const char* word : {kUnknownWord, kBeginSentence, kEndSentence}) {
    tables[0].add(0, words.add(word));
    counts[0].push_back(0);
  }
}

size_t SentenceNgrams::bytes() const {
  size_t out = word_bytes_;
  for (size_t k = 0; k < tables.size(); ++k) out += tables[k].bytes() + counts[k].capacity() * 8;
  return out;
}

uint32_t SentenceNgrams::id(std::string_view word) {
  if (word == kBeginSentence || word == kEndSentence || (known_ && !known_->find(word))) return kUnknown;
  const uint32_t id = words.add(word);
  if (id == counts[0].size()) {
    tables[0].add(0, id);
    counts[0].push_back(0);
    word_bytes_ += 2 * word.size() + 128;  // string, map node
  }
  return id;
}

Status SentenceNgrams::add(std::span<const std::string_view> sentence) {
  ids_.clear();
  ids_.push_back(kBegin);
  for (const std::string_view word : sentence) ids_.push_back(id(word));
  ids_.push_back(kEnd);
  ++sentences, tokens += sentence.size() + 1;
  for (size_t from = 0; from < ids_.size(); ++from) {
    uint32_t at = ids_[from];
    ++counts[0][at];
    for (size_t k = 1; k < tables.size() && from + k < ids_.size(); ++k) {
      at = tables[k].add(at, ids_[from + k]);
      if (at == counts[k].size()) counts[k].push_back(0);
      ++counts[k][at];
    }
  }
  if (bytes() > max_bytes_)
    return error_of(
        Error::Kind::kLimit, "n-gram counts",
        "need more than {} MB; use a larger `memory`, a smaller `order`, or `min_word_count` to keep "
        "fewer words",
        max_bytes_ >> 20);
  return Done{};
}

}  // namespace makar
