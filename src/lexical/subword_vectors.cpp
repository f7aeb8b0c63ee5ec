#include "lexical/subword_vectors.h"

#include "base/utf8.h"

namespace makar {

void add_ngram_rows(const std::string& word, size_t words, const Word2VecOptions& o,
                    std::vector<uint32_t>& rows) {
  if (word == "</s>" || o.buckets < 1) return;
  const std::string bracketed = "<" + word + ">";
  for (size_t from = 0; from < bracketed.size(); ++from) {
    if (is_utf8_continuation(bracketed[from])) continue;
    uint32_t hash = 2166136261u;
    size_t end = from;
    for (int64_t length = 1; length <= o.max_ngram && end < bracketed.size(); ++length) {
      do {  // FNV-1a with signed bytes, as fastText
        hash = (hash ^ static_cast<uint32_t>(static_cast<int8_t>(bracketed[end]))) * 16777619u;
        ++end;
      } while (end < bracketed.size() && is_utf8_continuation(bracketed[end]));
      if (length < o.min_ngram || (length == 1 && (from == 0 || end == bracketed.size()))) continue;
      rows.push_back(static_cast<uint32_t>(words + hash % static_cast<uint64_t>(o.buckets)));
    }
  }
}

void add_mean(const RowMatrix& matrix, const std::vector<uint32_t>& rows, float* out) {
  for (const uint32_t row : rows) add_scaled(out, 1, matrix.row(row), matrix.stride());
  if (rows.size() < 2) return;
  const float scale = 1 / static_cast<float>(rows.size());
  for (size_t j = 0; j < matrix.stride(); ++j) out[j] *= scale;
}

}  // namespace makar
