#include "lexical/word_vectors.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/quote.h"
#include "data/line_reader.h"
#include "metrics/agreement.h"
#include "metrics/words.h"

namespace makar {

namespace {

void scale_to_one(float* row, size_t size) {
  double square = 0;
  for (size_t j = 0; j < size; ++j) square += static_cast<double>(row[j]) * row[j];
  if (square <= 0) return;
  const auto scale = static_cast<float>(1 / std::sqrt(square));
  for (size_t j = 0; j < size; ++j) row[j] *= scale;
}

// The mean of the character n-grams of a word [padded width]; nullopt if there are none.
std::optional<std::vector<float>> by_ngrams(const WordVectors& vectors, const std::string& word) {
  if (!vectors.subwords) return std::nullopt;
  std::vector<uint32_t> rows;
  add_ngram_rows(word, vectors.words.size(), vectors.subwords->options, rows);
  if (rows.empty()) return std::nullopt;
  std::vector<float> out(vectors.rows.stride(), 0.0f);
  add_mean(vectors.subwords->rows, rows, out.data());
  return out;
}

}  // namespace

std::optional<std::vector<float>> vector_of(const WordVectors& vectors, const std::string& word) {
  std::optional<std::vector<float>> out;
  if (const auto id = vectors.words.find(word))
    out.emplace(vectors.rows.row(*id), vectors.rows.row(*id) + vectors.width);
  else
    out = by_ngrams(vectors, word);
  if (out) out->resize(vectors.width);
  return out;
}

VectorIndex::VectorIndex(const WordVectors& vectors) : vectors_(vectors), units_(vectors.rows) {
  for (size_t i = 0; i < units_.rows(); ++i) scale_to_one(units_.row(i), units_.stride());
}

std::optional<std::vector<float>> VectorIndex::unit_by_ngrams(const std::string& word) const {
  auto out = by_ngrams(vectors_, word);
  if (out) scale_to_one(out->data(), out->size());
  return out;
}

std::vector<float> VectorIndex::unit(uint32_t word) const {
  return {units_.row(word), units_.row(word) + units_.stride()};
}

double VectorIndex::cosine(uint32_t a, uint32_t b) const {
  return dot(units_.row(a), units_.row(b), units_.stride());
}

std::vector<Neighbor> VectorIndex::nearest(const std::vector<float>& vector, size_t count,
                                           const std::vector<uint32_t>& excluded, size_t search_limit) const {
  const double length = std::sqrt(static_cast<double>(dot(vector.data(), vector.data(), units_.stride())));
  std::vector<Neighbor> neighbors;
  const size_t end = search_limit > 0 ? std::min(search_limit, units_.rows()) : units_.rows();
  neighbors.reserve(end);
  for (uint32_t i = 0; i < end; ++i)
    if (std::find(excluded.begin(), excluded.end(), i) == excluded.end())
      neighbors.push_back({i, length > 0 ? dot(vector.data(), units_.row(i), units_.stride()) / length : 0});
  count = std::min(count, neighbors.size());
  std::partial_sort(neighbors.begin(), neighbors.begin() + static_cast<int64_t>(count), neighbors.end(),
                    [](const Neighbor& a, const Neighbor& b) {
                      return a.similarity != b.similarity ? a.similarity > b.similarity : a.word < b.word;
                    });
  neighbors.resize(count);
  return neighbors;
}

std::vector<Neighbor> VectorIndex::analogy(uint32_t a, uint32_t b, uint32_t c, size_t count,
                                           size_t search_limit) const {
  return analogy(unit(a), unit(b), unit(c), count, {a, b, c}, search_limit);
}

std::vector<Neighbor> VectorIndex::analogy(const std::vector<float>& a, const std::vector<float>& b,
                                           const std::vector<float>& c, size_t count,
                                           const std::vector<uint32_t>& excluded, size_t search_limit) const {
  std::vector<float> sum = b;
  add_scaled(sum.data(), -1, a.data(), units_.stride());
  add_scaled(sum.data(), 1, c.data(), units_.stride());
  return nearest(sum, count, excluded, search_limit);
}

namespace {

// A word as it is, or in lower case.
std::optional<uint32_t> find_word(const NumberedWords& words, const std::string& word) {
  if (const auto id = words.find(word)) return id;
  return words.find(lowered(word));
}

Result<LineReader> open_lines(const std::string& path) {
  MAKAR_TRY(auto stream, ByteStream::open(path));
  return LineReader(std::move(stream));
}

}  // namespace

Result<SimilarityScore> score_similarity(const VectorIndex& index, const std::string& path) {
  MAKAR_TRY(LineReader lines, open_lines(path));
  SimilarityScore out;
  std::vector<double> cosines, ratings;
  for (Line line;;) {
    MAKAR_TRY(const bool found, lines.next(line));
    if (!found) break;
    std::replace(line.text.begin(), line.text.end(), ',', ' ');
    const WordList fields = split_words(line.text);
    if (fields.empty()) continue;
    double rating = 0;
    const std::string& last = fields.size() > 2 ? fields[2] : fields[0];
    const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), rating);
    if (fields.size() < 3 || error != std::errc{} || end != last.data() + last.size() ||
        !std::isfinite(rating)) {
      if (line.number == 1) continue;  // a header
      return error_at(fmt::format("{}:{}", path, line.number), "expected two words and a rating, found {}",
                      quote(line.text));
    }
    bool by_ngrams = false;
    const auto unit = [&](const std::string& word) {
      if (const auto id = find_word(index.vectors().words, word)) return std::optional(index.unit(*id));
      by_ngrams = true;
      return index.unit_by_ngrams(lowered(word));
    };
    const auto a = unit(fields[0]), b = unit(fields[1]);
    if (!a || !b) {
      ++out.unknown;
      continue;
    }
    out.by_ngrams += by_ngrams;
    cosines.push_back(dot(a->data(), b->data(), a->size())), ratings.push_back(rating);
  }
  out.pairs = cosines.size();
  if (out.pairs > 1) out.spearman = spearman(cosines, ratings);
  return out;
}

Result<std::vector<AnalogyScore>> score_analogies(const VectorIndex& index, const std::string& path,
                                                  size_t search_limit) {
  MAKAR_TRY(LineReader lines, open_lines(path));
  std::vector<AnalogyScore> out;
  for (Line line;;) {
    MAKAR_TRY(const bool found, lines.next(line));
    if (!found) break;
    const WordList fields = split_words(line.text);
    if (fields.empty()) continue;
    if (fields[0].starts_with(":")) {
      AnalogyScore section;
      section.section = fields.size() > 1 ? fields[1] : fields[0].substr(1);
      out.push_back(section);
      continue;
    }
    if (fields.size() != 4)
      return error_at(fmt::format("{}:{}", path, line.number), "expected four words, found {}",
                      quote(line.text));
    if (out.empty()) out.emplace_back().section = "all";
    std::array<uint32_t, 4> id = {};
    bool known = true;
    for (size_t i = 0; i < 4; ++i) {
      const auto word = find_word(index.vectors().words, fields[i]);
      known &= word && (search_limit == 0 || *word < search_limit);
      id[i] = word.value_or(0);
    }
    if (!known) {
      ++out.back().unknown;
      continue;
    }
    const auto answer = index.analogy(id[0], id[1], id[2], 1, search_limit);
    ++out.back().questions, out.back().correct += !answer.empty() && answer[0].word == id[3];
  }
  AnalogyScore total;
  total.section = "total";
  for (const AnalogyScore& s : out)
    total.questions += s.questions, total.correct += s.correct, total.unknown += s.unknown;
  out.push_back(total);
  return out;
}

}  // namespace makar
