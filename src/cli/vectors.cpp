// makar vectors: trains, queries, evaluates, draws and converts word vectors.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/data_paths.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "lexical/count_vectors.h"
#include "lexical/glove.h"
#include "lexical/vector_files.h"
#include "lexical/vector_map.h"

namespace makar {

int run_vectors_count(const std::vector<std::string>&);
int run_vectors_neighbors(const std::vector<std::string>&);
int run_vectors_analogy(const std::vector<std::string>&);
int run_vectors_similarity(const std::vector<std::string>&);
int run_vectors_print(const std::vector<std::string>&);

namespace {

struct TrainVectors {
  std::vector<std::string> paths;
  std::string method = "skipgram", output, format = "text";
  WordOptions words;
  Word2VecOptions word2vec;
  int64_t min_count = 5, max_words = 0, memory = 1024, threads = 0;
  double x_max = 100, alpha = 0.75, power = 0.5, context_power = 0.75;
  bool quiet = false, json = false;
};
const std::vector<std::string> kMethods = {"skipgram", "cbow", "glove", "ppmi", "lsa"};

void declare(Options& o, TrainVectors& c) {
  o.positional("PATHS", &c.paths, "files and folders: text, JSONL, JSON, CSV, TSV, plain, gzip or zstd");
  o.add("-o --output --out", &c.output, "file of vectors to write", "FILE").required = true;
  o.add("--method", &c.method,
        "skipgram, cbow, glove, ppmi (PPMI with SVD) or lsa (TF-IDF of lines with SVD)", "NAME");
  o.add("--format", &c.format,
        "text or binary (word2vec's), glove (text without a header), or fasttext (.bin, keeps the character "
        "n-grams of --maxn, so that unknown words have vectors too)",
        "NAME");
  declare_table(o, c.word2vec, word2vec_options());
  o.group("Counts");
  o.add("--x-max", &c.x_max, "glove: counts above it have full weight", "X");
  o.add("--alpha", &c.alpha, "glove: exponent of the weight", "X");
  o.add("--context-power", &c.context_power, "ppmi: exponent of context counts", "X");
  o.add("--singular-power", &c.power, "ppmi, lsa: exponent of singular values", "X");
  o.group("Words");
  o.add("--split", &c.words.split, "space: split at white space; words: split off punctuation too", "NAME");
  o.add("--lower", &c.words.lower, "convert to lower case");
  o.add("--min-count", &c.min_count, "drop words with fewer occurrences", "N");
  o.add("--max-words", &c.max_words, "keep only the most frequent words; 0: all", "N");
  o.group("Performance");
  o.add("-t --threads", &c.threads, "number of threads; 0 for one per core", "N");
  o.add("--memory", &c.memory, "memory for counting pairs of words, in MB; spills to temporary files", "MB");
  o.group("Output");
  o.add("-q --quiet", &c.quiet, "print no progress");
  o.add("--json", &c.json, "print the result as JSON");
}

Status check_training(const TrainVectors& c) {
  if (std::find(kMethods.begin(), kMethods.end(), c.method) == kMethods.end())
    return error_at("--method", "must be {}, got '{}'{}", fmt::join(kMethods, ", "), c.method,
                    did_you_mean(c.method, kMethods));
  MAKAR_RETURN_IF_ERROR(check(c.word2vec));
  MAKAR_RETURN_IF_ERROR(check(c.words));
  MAKAR_RETURN_IF_ERROR(vector_format_named(c.format));
  if ((c.method == "glove" || c.method == "ppmi") && c.word2vec.window > 20)
    return error_at("--window", "is at most 20 for {}, got {}", c.method, c.word2vec.window);
  const bool in_range = c.min_count >= 1 && c.max_words >= 0 && c.memory >= 1 && c.memory <= 1 << 24 &&
                        c.x_max > 0 && std::isfinite(c.x_max) && c.alpha >= 0 && c.alpha <= 10 &&
                        c.power >= 0 && c.power <= 10 && c.context_power > 0 && c.context_power <= 10 &&
                        c.threads >= 0;
  if (!in_range)
    return error_at("vectors train",
                    "--min-count and --memory must be 1 or more, --max-words and --threads 0 or more, "
                    "--x-max above 0, --alpha, --singular-power and --context-power up to 10");
  return Done{};
}

Result<WordVectors> train(const TrainVectors& c, const std::vector<DataPath>& paths) {
  Progress progress(c.quiet || c.json);
  MAKAR_TRY(const WordStream text,
            read_words(paths, c.words, c.min_count, c.max_words, [&](uint64_t tokens, size_t words) {
              progress.show("reading", tokens, 0, fmt::format("{} different words", words));
            }));
  ThreadPool pool(static_cast<int>(std::min<int64_t>(c.threads, 256)));
  double loss = 0;
  const ShowProgress show = [&](const VectorProgress& p) {
    if (p.loss > 0) loss = loss == 0 ? p.loss : 0.99 * loss + 0.01 * p.loss;
    progress.show("training", p.done, p.total, fmt::format("loss {:.4f} | lr {:.4f}", loss, p.learning_rate));
  };
  if (c.method == "skipgram" || c.method == "cbow") {
    Word2VecOptions w = c.word2vec;
    w.model = c.method;
    return train_word2vec(text, w, pool, show);
  }
  const auto width = static_cast<size_t>(c.word2vec.width);
  const auto seed = static_cast<uint64_t>(c.word2vec.seed);
  if (c.method == "lsa") {
    progress.show("singular values", 0, 0);
    return svd_vectors(text.words, word_documents(text), width, c.power, seed, pool);
  }
  CooccurrenceOptions counting;
  counting.window = c.word2vec.window, counting.by_distance = c.method == "glove";
  counting.max_bytes = static_cast<size_t>(c.memory) << 20;
  counting.progress = [&](uint64_t done, uint64_t total) { progress.show("counting pairs", done, total); };
  MAKAR_TRY(const MappedRecords pairs, count_cooccurrences(text, counting));
  const auto counts = pairs.as<const Cooccurrence>();
  if (c.method == "ppmi") {
    progress.show("singular values", 0, 0);
    return svd_vectors(text.words, positive_pmi(text.words.size(), counts, c.context_power), width, c.power,
                       seed, pool);
  }
  GloveOptions g;
  g.width = c.word2vec.width, g.epochs = c.word2vec.epochs, g.seed = c.word2vec.seed,
  g.learning_rate = c.word2vec.learning_rate, g.fast = c.word2vec.fast;
  g.x_max = c.x_max, g.alpha = c.alpha;
  return train_glove(text.words, counts, g, pool, show);
}

int run_vectors_train(const std::vector<std::string>& arguments) {
  TrainVectors c;
  Options options("vectors train", "Train word vectors: word2vec, GloVe, or the SVD of counts.",
                  "makar vectors train books/ --lower --split words -o books.vec");
  declare(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (!options.given("--epochs") && c.method == "glove") c.word2vec.epochs = 15;
  if (const Status s = check_training(c); !s.ok()) return report(s.error()), 2;
  const auto paths = parse_data_paths(c.paths);
  if (!paths.ok()) return report(paths.error()), 2;
  const auto vectors = train(c, *paths);
  if (!vectors.ok()) return report(vectors.error());
  if (const Status s = save_vectors(*vectors, *vector_format_named(c.format), c.output); !s.ok())
    return report(s.error());
  const Json out = {
      {"file", c.output}, {"method", c.method}, {"words", vectors->words.size()}, {"dim", vectors->width}};
  return print_out(c.json ? out.dump() + "\n"
                          : fmt::format("{}: {}, {} words, {} dimensions\n", c.output, c.method,
                                        vectors->words.size(), vectors->width))
             ? 0
             : 1;
}

int run_vectors_eval(const std::vector<std::string>& arguments) {
  std::string path;
  std::vector<std::string> similarity, analogies;
  int64_t search_words = 30000;
  bool json = false;
  Options options("vectors eval",
                  "Compare vectors with human ratings of pairs of words, and answer sets of analogies.",
                  "makar vectors eval books.vec --similarity wordsim353.txt --analogies questions-words.txt");
  options.positional("FILE", &path, "file of vectors");
  options.add("--similarity", &similarity, "lines of two words and a rating; rank correlation with cosines",
              "FILE");
  options.add("--analogies", &analogies, "lines of four words, as questions-words.txt", "FILE");
  options.add("--search-words --among", &search_words,
              "analogies: only the first N words of the file; 0: all", "N");
  options.add("--json", &json, "print JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (search_words < 0 || (similarity.empty() && analogies.empty()))
    return report(error_at("vectors eval",
                           "needs --similarity or --analogies, and --search-words of 0 or more")),
           2;
  const auto vectors = load_vectors(path);
  if (!vectors.ok()) return report(vectors.error());
  const VectorIndex index(*vectors);
  Json out = Json::array();
  std::string text;
  for (const std::string& file : similarity) {
    const auto s = score_similarity(index, file);
    if (!s.ok()) return report(s.error());
    out.push_back({{"file", file},
                   {"spearman", s->spearman},
                   {"pairs", s->pairs},
                   {"by_ngrams", s->by_ngrams},
                   {"unknown", s->unknown}});
    const std::string by_ngrams =
        s->by_ngrams == 0 ? "" : fmt::format(" ({} by character n-grams)", s->by_ngrams);
    text += fmt::format("{}: Spearman {:.4f} over {} pairs{}, {} with unknown words\n", file, s->spearman,
                        s->pairs, by_ngrams, s->unknown);
  }
  for (const std::string& file : analogies) {
    const auto sections = score_analogies(index, file, static_cast<size_t>(search_words));
    if (!sections.ok()) return report(sections.error());
    for (const AnalogyScore& s : *sections) {
      out.push_back({{"file", file},
                     {"section", s.section},
                     {"accuracy", s.accuracy()},
                     {"questions", s.questions},
                     {"unknown", s.unknown}});
      text += fmt::format("{:<28} {:6.2f} % of {}, {} with unknown words\n", s.section, 100 * s.accuracy(),
                          s.questions, s.unknown);
    }
  }
  return print_out(json ? out.dump() + "\n" : text) ? 0 : 1;
}

int run_map(const std::vector<std::string>& arguments) {
  std::string path, output, method = "tsne";
  std::vector<std::string> words;
  int64_t count = 300;
  TsneOptions tsne_options;
  Options options("vectors map", "Draw words in two dimensions as an SVG image.",
                  "makar vectors map books.vec -o books.svg --method tsne");
  options.positional("FILE", &path, "file of vectors");
  options.add("-o --output --out", &output, "SVG file to write", "FILE").required = true;
  options.add("--method", &method, "tsne, or pca (principal components)", "NAME");
  options.add("-n --count", &count, "the first N words of the file", "N");
  options.add("--words", &words, "draw these words instead", "WORD");
  options.add("--perplexity", &tsne_options.perplexity, "tsne: number of neighbours", "X");
  options.add("--iterations", &tsne_options.iterations, "tsne: number of iterations", "N");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if ((method != "tsne" && method != "pca") || count < 1 || count > 5000 || words.size() > 5000 ||
      !(tsne_options.perplexity >= 2 && tsne_options.perplexity <= 1000) || tsne_options.iterations < 1 ||
      tsne_options.iterations > 100000)
    return report(error_at("vectors map",
                           "--method is tsne or pca, --count 1 to 5000, --perplexity 2 to 1000, --iterations "
                           "1 to 100000")),
           2;
  const auto vectors = load_vectors(path);
  if (!vectors.ok()) return report(vectors.error());
  std::vector<uint32_t> ids;
  for (const std::string& word : words) {
    const auto id = vectors->words.find(word);
    if (!id)
      return report(error_of(Error::Kind::kNotFound, quote(word), "is not in the vocabulary of {} words",
                             vectors->words.size()));
    ids.push_back(*id);
  }
  if (words.empty())
    for (uint32_t i = 0; i < std::min<size_t>(static_cast<size_t>(count), vectors->words.size()); ++i)
      ids.push_back(i);
  const VectorIndex index(*vectors);
  Vectors points;
  std::vector<std::string> labels;
  for (const uint32_t id : ids) {
    const auto unit = index.unit(id);
    points.emplace_back(unit.begin(), unit.begin() + static_cast<int64_t>(vectors->width));
    labels.push_back(vectors->words.word(id));
  }
  ThreadPool pool;
  std::vector<Point> positions;
  {
    Progress progress;
    tsne_options.progress = [&](int64_t done, int64_t total) {
      progress.show("t-SNE", static_cast<uint64_t>(done), static_cast<uint64_t>(total));
    };
    positions = method == "pca" ? principal_components(points) : tsne(points, tsne_options, pool);
  }
  if (const Status s = write_file(output, map_svg(path, positions, labels)); !s.ok())
    return report(s.error());
  return print_out(fmt::format("{}: {} words\n", output, ids.size())) ? 0 : 1;
}

int run_vectors_convert(const std::vector<std::string>& arguments) {
  std::string path, output, format = "binary";
  Options options("vectors convert",
                  "Convert a file of vectors between the formats of word2vec, GloVe and fastText.",
                  "makar vectors convert glove.txt vectors.bin --format binary");
  options.positional("FILE", &path, "file of vectors in any of the formats");
  options.positional("OUTPUT", &output, "file to write");
  options.add("--format", &format,
              "text or binary (word2vec's), glove (text without a header), or fasttext (.bin)", "NAME");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto kind = vector_format_named(format);
  if (!kind.ok()) return report(kind.error()), 2;
  const auto vectors = load_vectors(path);
  if (!vectors.ok()) return report(vectors.error());
  if (const Status s = save_vectors(*vectors, *kind, output); !s.ok()) return report(s.error());
  return print_out(
             fmt::format("{}: {} words, {} dimensions\n", output, vectors->words.size(), vectors->width))
             ? 0
             : 1;
}

}  // namespace

int run_vectors(const std::vector<std::string>& arguments) {
  constexpr Command kVectorCommands[] = {
      {"train", "train vectors: skip-gram, CBOW, GloVe, PPMI, LSA", run_vectors_train},
      {"neighbors", "print the words nearest to a word", run_vectors_neighbors},
      {"analogy", "answer A is to B as C is to ?", run_vectors_analogy},
      {"similarity", "print the cosine of two words", run_vectors_similarity},
      {"print", "print the vectors of words", run_vectors_print},
      {"eval", "evaluate on word similarity and analogies", run_vectors_eval},
      {"map", "draw words in two dimensions", run_map},
      {"convert", "convert between file formats", run_vectors_convert},
      {"count", "print bags of words, TF-IDF, co-occurrences or PPMI", run_vectors_count},
  };
  return run_subcommand("vectors", "Train, query, evaluate, draw and convert word vectors.",
                        "makar vectors train books/ --lower --split words -o books.vec", kVectorCommands,
                        arguments);
}

}  // namespace makar
