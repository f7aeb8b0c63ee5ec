#include "lexical/count_vectors.h"

#include <cmath>

namespace makar {

std::vector<int64_t> bag_of_words(const NumberedWords& vocabulary, std::span<const std::string_view> words) {
  std::vector<int64_t> out(vocabulary.size(), 0);
  for (const std::string_view word : words)
    if (const auto id = vocabulary.find(word)) ++out[*id];
  return out;
}

double tf_idf(double count, double words, double documents, double documents_with_word) {
  return count / words * std::log(documents / documents_with_word);
}

SparseMatrix positive_pmi(size_t words, std::span<const Cooccurrence> counts, double smoothing) {
  std::vector<double> word(words, 0), context(words, 0);
  double total = 0, smoothed = 0;
  for (const Cooccurrence& c : counts) {
    word[c.word] += static_cast<double>(c.count), context[c.context] += static_cast<double>(c.count);
    total += static_cast<double>(c.count);
  }
  for (double& c : context) smoothed += c = std::pow(c, smoothing);
  SparseMatrix out;
  out.columns = words;
  for (const Cooccurrence& c : counts) {  // sorted by word
    while (out.rows < c.word) out.end_row();
    const double pmi = std::log(static_cast<double>(c.count) / total / (word[c.word] / total) /
                                (context[c.context] / smoothed));
    if (pmi > 0) out.column.push_back(c.context), out.value.push_back(static_cast<float>(pmi));
  }
  while (out.rows < words) out.end_row();
  return out;
}

SparseMatrix word_documents(const WordStream& text) {
  SparseMatrix documents;
  documents.columns = text.words.size();
  std::map<uint32_t, uint32_t> counts;
  std::vector<double> with_word(text.words.size(), 0), sizes;
  for (const uint32_t id : text.ids.as<const uint32_t>().first(text.size)) {
    if (id != WordStream::kLineEnd) {
      ++counts[id];
      continue;
    }
    double size = 0;
    for (const auto& [word, count] : counts) {
      documents.column.push_back(word), documents.value.push_back(static_cast<float>(count));
      ++with_word[word], size += count;
    }
    documents.end_row();
    sizes.push_back(size);
    counts.clear();
  }
  for (size_t d = 0; d < documents.rows; ++d)
    for (uint64_t i = documents.first[d]; i < documents.first[d + 1]; ++i)
      documents.value[i] =
          static_cast<float>(tf_idf(static_cast<double>(documents.value[i]), sizes[d],
                                    static_cast<double>(documents.rows), with_word[documents.column[i]]));
  return documents.transposed();
}

WordVectors svd_vectors(const NumberedWords& words, const SparseMatrix& matrix, size_t width, double power,
                        uint64_t seed, ThreadPool& pool) {
  const Svd svd = truncated_svd(matrix, width, seed, pool);
  WordVectors out{words, width, RowMatrix(words.size(), padded(width))};
  for (size_t k = 0; k < svd.values.size(); ++k)
    for (size_t i = 0; i < words.size(); ++i)
      out.rows.row(i)[k] = static_cast<float>(svd.u[k][i] * std::pow(svd.values[k], power));
  return out;
}

}  // namespace makar
