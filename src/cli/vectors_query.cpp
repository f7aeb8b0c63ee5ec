// makar vectors: neighbours, analogies, similarities and the vectors themselves of words, also of unknown
// ones by their character n-grams.
#include <fmt/format.h>

#include "base/quote.h"
#include "cli/command.h"
#include "cli/run.h"
#include "cli/tokenizer_options.h"
#include "lexical/vector_files.h"

namespace makar {
namespace {

Error unknown_word(const WordVectors& vectors, const std::string& word) {
  return error_of(Error::Kind::kNotFound, quote(word),
                  "is not in the vocabulary of {} words; files of `makar vectors train --maxn 6 --format "
                  "fasttext` have vectors of unknown words too",
                  vectors.words.size());
}

// The unit vector of each word, and the numbers of those in the vocabulary.
struct QueryWords {
  std::vector<std::vector<float>> units;
  std::vector<uint32_t> known;
};
Result<QueryWords> query_words(const VectorIndex& index, const std::vector<std::string>& words) {
  QueryWords out;
  for (const std::string& word : words) {
    if (const auto id = index.vectors().words.find(word)) {
      out.known.push_back(*id), out.units.push_back(index.unit(*id));
      continue;
    }
    const auto unit = index.unit_by_ngrams(word);
    if (!unit) return unknown_word(index.vectors(), word);
    out.units.push_back(*unit);
  }
  return out;
}

Json neighbors_json(const WordVectors& vectors, const std::vector<Neighbor>& list) {
  Json out = Json::array();
  for (const Neighbor& n : list)
    out.push_back({{"word", vectors.words.word(n.word)}, {"similarity", n.similarity}});
  return out;
}
bool print_neighbors(const WordVectors& vectors, const std::vector<Neighbor>& list, bool json) {
  if (json)
    return print_out(neighbors_json(vectors, list).dump(-1, ' ', false, Json::error_handler_t::replace) +
                     "\n");
  std::string out;
  for (const Neighbor& n : list) out += fmt::format("{:.4f}  {}\n", n.similarity, vectors.words.word(n.word));
  return print_out(out);
}

}  // namespace

int run_vectors_neighbors(const std::vector<std::string>& arguments) {
  std::string path;
  std::vector<std::string> words;
  int64_t count = 10;
  bool json = false;
  Options options("vectors neighbors", "Print the words nearest to a word, or to the sum of several.",
                  "makar vectors neighbors books.vec king");
  options.positional("FILE", &path, "file of vectors: word2vec text or binary, GloVe, fastText .bin");
  options.positional("WORDS", &words, "words");
  options.add("-k --top-k", &count, "number of words to print", "N");
  options.add("--json", &json, "print JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (count < 1) return report(error_at("--top-k", "must be 1 or more, got {}", count)), 2;
  const auto vectors = load_vectors(path);
  if (!vectors.ok()) return report(vectors.error());
  const VectorIndex index(*vectors);
  const auto query = query_words(index, words);
  if (!query.ok()) return report(query.error());
  std::vector<float> sum(vectors->rows.stride(), 0.0f);
  for (const auto& unit : query->units) add_scaled(sum.data(), 1, unit.data(), sum.size());
  return print_neighbors(*vectors, index.nearest(sum, static_cast<size_t>(count), query->known), json) ? 0
                                                                                                       : 1;
}

int run_vectors_analogy(const std::vector<std::string>& arguments) {
  std::string path;
  std::vector<std::string> words;
  int64_t count = 5;
  bool json = false;
  Options options("vectors analogy", "Answer \"A is to B as C is to ?\" by the vector B - A + C.",
                  "makar vectors analogy books.vec man king woman");
  options.positional("FILE", &path, "file of vectors");
  options.positional("WORDS", &words, "A, B and C");
  options.add("-k --top-k", &count, "number of words to print", "N");
  options.add("--json", &json, "print JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (words.size() != 3 || count < 1)
    return report(error_at("vectors analogy", "needs three words and --top-k of 1 or more")), 2;
  const auto vectors = load_vectors(path);
  if (!vectors.ok()) return report(vectors.error());
  const VectorIndex index(*vectors);
  const auto query = query_words(index, words);
  if (!query.ok()) return report(query.error());
  const auto& u = query->units;
  const auto answers = index.analogy(u[0], u[1], u[2], static_cast<size_t>(count), query->known);
  return print_neighbors(*vectors, answers, json) ? 0 : 1;
}

int run_vectors_similarity(const std::vector<std::string>& arguments) {
  std::string path;
  std::vector<std::string> words;
  bool json = false;
  Options options("vectors similarity", "Print the cosine of the vectors of two words.",
                  "makar vectors similarity books.vec king queen");
  options.positional("FILE", &path, "file of vectors");
  options.positional("WORDS", &words, "two words");
  options.add("--json", &json, "print JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (words.size() != 2) return report(error_at("vectors similarity", "needs two words")), 2;
  const auto vectors = load_vectors(path);
  if (!vectors.ok()) return report(vectors.error());
  const VectorIndex index(*vectors);
  const auto query = query_words(index, words);
  if (!query.ok()) return report(query.error());
  const double cosine = dot(query->units[0].data(), query->units[1].data(), query->units[0].size());
  return print_out(json ? Json{{"similarity", cosine}}.dump() + "\n" : fmt::format("{:.4f}\n", cosine)) ? 0
                                                                                                        : 1;
}

int run_vectors_print(const std::vector<std::string>& arguments) {
  std::string path;
  std::vector<std::string> words;
  bool json = false;
  Options options("vectors print", "Print the vectors of words: a word and its numbers per line.",
                  "makar vectors print books.vec king queen");
  options.positional("FILE", &path, "file of vectors");
  options.positional("WORDS", &words, "words");
  options.add("--json", &json, "print JSON lines");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto vectors = load_vectors(path);
  if (!vectors.ok()) return report(vectors.error());
  std::string out;
  for (const std::string& word : words) {
    const auto vector = vector_of(*vectors, word);
    if (!vector) return report(unknown_word(*vectors, word));
    if (json) {
      out += dump(Json{{"word", word}, {"vector", *vector}}) + "\n";
    } else {
      out += fmt::format("{} {}\n", word, fmt::join(*vector, " "));
    }
  }
  return print_out(out) ? 0 : 1;
}

}  // namespace makar
