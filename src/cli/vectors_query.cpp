// makar vectors neighbors, analogy, similarity and print. An unknown word gets the vector of its character
// n-grams, if the file has them.
#include <fmt/format.h>

#include "base/quote.h"
#include "cli/command.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "lexical/vector_files.h"

namespace makar {
namespace {

Error unknown_word(const WordVectors& vectors, const std::string& word) {
  return error_of(Error::Kind::kNotFound, quote(word),
                  "is not in the vocabulary of {} words; files of `makar vectors train --maxn 6 --format "
                  "fasttext` have vectors of unknown words too",
                  vectors.words.size());
}

// The unit vector of each word, and the ids of the words that are in the vocabulary.
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

constexpr std::string_view kVectorFile = "file of vectors: word2vec text or binary, GloVe, fastText .bin";

// The arguments of every query.
struct WordQuery {
  std::string path;
  std::vector<std::string> words;
  bool json = false;

  void declare(Options& options, std::string_view words_help, std::string_view json_help = "print JSON") {
    options.positional("FILE", &path, kVectorFile);
    options.positional("WORDS", &words, words_help);
    options.add("--json", &json, json_help);
  }
};

struct NearestQuery : WordQuery {
  int64_t count;
  explicit NearestQuery(int64_t default_count) : count(default_count) {}

  void declare(Options& options, std::string_view words_help) {
    WordQuery::declare(options, words_help);
    options.add("-k --top-k", &count, "number of words to print", "N");
  }
  // Reports a bad --top-k.
  bool is_valid() const {
    if (count < 1) report(error_at("--top-k", "must be 1 or more, got {}", count));
    return count >= 1;
  }
};

}  // namespace

int run_vectors_neighbors(const std::vector<std::string>& arguments) {
  NearestQuery q(10);
  Options options("vectors neighbors", "Print the words nearest to a word, or to the sum of several.",
                  "makar vectors neighbors books.vec king");
  q.declare(options, "words");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (!q.is_valid()) return 2;
  const auto vectors = load_vectors(q.path);
  if (!vectors.ok()) return report(vectors.error());
  const VectorIndex index(*vectors);
  const auto query = query_words(index, q.words);
  if (!query.ok()) return report(query.error());
  std::vector<float> sum(vectors->rows.stride(), 0.0f);
  for (const auto& unit : query->units) add_scaled(sum.data(), 1, unit.data(), sum.size());
  const auto nearest = index.nearest(sum, static_cast<size_t>(q.count), query->known);
  return print_neighbors(*vectors, nearest, q.json) ? 0 : 1;
}

int run_vectors_analogy(const std::vector<std::string>& arguments) {
  NearestQuery q(5);
  Options options("vectors analogy", "Answer \"A is to B as C is to ?\" by the vector B - A + C.",
                  "makar vectors analogy books.vec man king woman");
  q.declare(options, "A, B and C");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (q.words.size() != 3)
    return report(error_at("vectors analogy", "needs three words, got {}", q.words.size())), 2;
  if (!q.is_valid()) return 2;
  const auto vectors = load_vectors(q.path);
  if (!vectors.ok()) return report(vectors.error());
  const VectorIndex index(*vectors);
  const auto query = query_words(index, q.words);
  if (!query.ok()) return report(query.error());
  const auto& u = query->units;
  const auto answers = index.analogy(u[0], u[1], u[2], static_cast<size_t>(q.count), query->known);
  return print_neighbors(*vectors, answers, q.json) ? 0 : 1;
}

int run_vectors_similarity(const std::vector<std::string>& arguments) {
  WordQuery q;
  Options options("vectors similarity", "Print the cosine of the vectors of two words.",
                  "makar vectors similarity books.vec king queen");
  q.declare(options, "two words");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (q.words.size() != 2)
    return report(error_at("vectors similarity", "needs two words, got {}", q.words.size())), 2;
  const auto vectors = load_vectors(q.path);
  if (!vectors.ok()) return report(vectors.error());
  const VectorIndex index(*vectors);
  const auto query = query_words(index, q.words);
  if (!query.ok()) return report(query.error());
  const double cosine = dot(query->units[0].data(), query->units[1].data(), query->units[0].size());
  const std::string text =
      q.json ? Json{{"similarity", cosine}}.dump() + "\n" : fmt::format("{:.4f}\n", cosine);
  return print_out(text) ? 0 : 1;
}

int run_vectors_print(const std::vector<std::string>& arguments) {
  WordQuery q;
  Options options("vectors print", "Print the vectors of words: a word and its numbers per line.",
                  "makar vectors print books.vec king queen");
  q.declare(options, "words", "print JSON lines");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto vectors = load_vectors(q.path);
  if (!vectors.ok()) return report(vectors.error());
  std::string out;
  for (const std::string& word : q.words) {
    const auto vector = vector_of(*vectors, word);
    if (!vector) return report(unknown_word(*vectors, word));
    if (q.json) {
      out += dump(Json{{"word", word}, {"vector", *vector}}) + "\n";
    } else {
      out += fmt::format("{} {}\n", word, fmt::join(*vector, " "));
    }
  }
  return print_out(out) ? 0 : 1;
}

}  // namespace makar
