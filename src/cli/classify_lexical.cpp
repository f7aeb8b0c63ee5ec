// makar classify with methods that need no language model: naive Bayes, logistic regression, a linear support
// vector machine on TF-IDF, the mean of word vectors, a convolutional network on words, and a hidden Markov
// model that tags words.
#include "cli/classify_lexical.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "base/progress.h"
#include "cli/data_paths.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "data/schema.h"
#include "lexical/hmm.h"
#include "lexical/text_classifier.h"
#include "lexical/vector_files.h"
#include "nets/text_cnn.h"

namespace makar {
namespace {

struct LexicalTraining {
  std::string method = "logistic", output;
  std::vector<std::string> train, validation;
  ClassifierOptions options;
  TextCnnOptions cnn;
  // kUnset and kUnsetCount: the option is not set; the default of the method is used.
  static constexpr double kUnset = -1e300;
  static constexpr int64_t kUnsetCount = INT64_MIN;
  int64_t epochs = kUnsetCount;
  double learning_rate = kUnset, dropout = kUnset;
  std::string vectors;
  int64_t threads = 0;
  bool json = false;
};

// Defaults of --method vectors. Its learning rate is higher: it has few weights besides the vectors.
constexpr struct {
  double dropout = 0.2, learning_rate = 1e-2;
  int64_t epochs = 10;
} kVectorsDefaults;

void declare_features(Options& o, LexicalTraining& c) {
  o.group("Data");
  o.add("-d --datasets", &c.train, "texts with labels, or words with tags (hmm)", "PATH").required = true;
  o.add("--val-datasets --test", &c.validation, "data to measure the accuracy on", "PATH");
  o.group("Model");
  o.add("--word-ngrams", &c.options.features.ngrams, "features are n-grams of up to this many words", "N");
  o.add("--min-count", &c.options.features.min_count, "drop features that occur in fewer texts", "N");
  o.add("-C --strength", &c.options.strength, "logistic, svm: inverse regularisation strength", "X");
  o.add("--smoothing", &c.options.smoothing, "naive-bayes: number added to every count", "X");
  o.add("--balanced", &c.options.balanced, "logistic: weight classes inversely to their frequency");
  o.add("--iterations", &c.options.iterations, "logistic, svm: maximum number of iterations", "N");
  o.add("--seed", &c.options.seed, "seed for shuffling", "S");
  o.group("Word vectors and convolutional network");
  o.add("--width", &c.cnn.width, "vectors, cnn: width of a word's vector", "N");
  o.add("--filters", &c.cnn.filters, "cnn: filters for each window of 3, 4 and 5 words", "N");
  // An option whose default depends on the method; returns the text of the default in --help.
  const auto add_with_default = [&](auto... option) -> std::string& { return o.add(option...).default_text; };
  add_with_default("--dropout", &c.dropout, "vectors, cnn: dropout before the classifier", "X") =
      fmt::format("vectors {}, cnn {}", kVectorsDefaults.dropout, TextCnnOptions().dropout);
  o.add("--vectors", &c.vectors,
        "vectors, cnn: initial word vectors, of `makar vectors train`, word2vec or GloVe", "FILE");
  add_with_default("--epochs --num-epochs", &c.epochs, "vectors, cnn: passes over the data", "N") =
      fmt::format("vectors {}, cnn {}", kVectorsDefaults.epochs, TextCnnOptions().training.epochs);
  o.add("--batch-size", &c.cnn.training.batch, "vectors, cnn: texts per step", "N");
  add_with_default("--learning-rate --lr", &c.learning_rate, "vectors, cnn: peak learning rate", "X") =
      fmt::format("vectors {}, cnn {}", kVectorsDefaults.learning_rate,
                  TextCnnOptions().training.learning_rate);
  o.group("Output");
  o.add("--json", &c.json, "print the result as JSON");
  declare_threads(o, c.threads);
}

Status save_json(const std::string& path, const Json& json) { return write_file(path, dump(json) + "\n"); }

Result<Json> train_tagger(const LexicalTraining& c) {
  MAKAR_TRY(const auto paths, parse_data_paths(c.train));
  MAKAR_TRY(const TaggedSentences data, read_tagged(paths));
  MAKAR_TRY(const HmmTagger tagger, HmmTagger::train(data));
  MAKAR_RETURN_IF_ERROR(save_json(c.output, tagger.json()));
  Json out = {{"file", c.output},
              {"method", "hmm"},
              {"sentences", data.words.size()},
              {"tags", tagger.tags().size()}};
  if (c.validation.empty()) return out;
  MAKAR_TRY(const auto test_paths, parse_data_paths(c.validation));
  MAKAR_TRY(const TaggedSentences test, read_tagged(test_paths));
  size_t correct = 0, total = 0;
  for (size_t s = 0; s < test.words.size(); ++s) {
    const auto tags = tagger.tag(test.words[s]);
    for (size_t i = 0; i < tags.size(); ++i, ++total) correct += tags[i] == test.tags[s][i];
  }
  out["accuracy"] = static_cast<double>(correct) / static_cast<double>(std::max<size_t>(1, total));
  return out;
}

Result<Json> train_lexical(const LexicalTraining& c, const TextsWithLabels& data,
                           const TextsWithLabels* test) {
  const auto begin = std::chrono::steady_clock::now();
  MAKAR_TRY(const TextClassifier classifier, TextClassifier::train(data, c.options));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!c.output.empty()) MAKAR_RETURN_IF_ERROR(save_json(c.output, classifier.json()));
  Json out = {{"file", c.output},
              {"method", c.options.method},
              {"texts", data.texts.size()},
              {"labels", classifier.labels()},
              {"features", classifier.features().size()},
              {"seconds", seconds}};
  if (test) out["accuracy"] = accuracy_of(classifier, *test);
  return out;
}

Result<Json> train_cnn(LexicalTraining& c, const TextsWithLabels& data, const TextsWithLabels* test) {
  MAKAR_TRY(const auto device, open_device_option("cpu", c.threads));
  std::optional<WordVectors> vectors;
  if (!c.vectors.empty()) {
    MAKAR_TRY(vectors, load_vectors(c.vectors));
    c.cnn.vectors = &*vectors;
  }
  c.cnn.training.seed = c.options.seed;
  if (c.method == "vectors") {
    c.cnn.windows.clear();
    c.cnn.dropout = kVectorsDefaults.dropout;
    c.cnn.training.epochs = kVectorsDefaults.epochs,
    c.cnn.training.learning_rate = kVectorsDefaults.learning_rate;
  }
  if (c.dropout != c.kUnset) c.cnn.dropout = c.dropout;
  if (c.epochs != c.kUnsetCount) c.cnn.training.epochs = c.epochs;
  if (c.learning_rate != c.kUnset) c.cnn.training.learning_rate = c.learning_rate;
  const auto begin = std::chrono::steady_clock::now();
  Progress progress(c.json);
  auto net = TextCnn::train(data, c.cnn, *device, [&](const EpochResult& e) {
    progress.show("epoch", static_cast<uint64_t>(e.epoch), static_cast<uint64_t>(c.cnn.training.epochs),
                  fmt::format("loss {:.4f}", e.loss));
  });
  if (!net.ok()) return net.error();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!c.output.empty()) MAKAR_RETURN_IF_ERROR(net->save(c.output));
  Json out = {{"file", c.output},
              {"method", c.method},
              {"texts", data.texts.size()},
              {"labels", net->labels()},
              {"features", net->parameters()},
              {"seconds", seconds}};
  if (test) out["accuracy"] = net->accuracy(*test, *device);
  return out;
}

int print_result(const LexicalTraining& c, const Result<Json>& out) {
  if (!out.ok()) return report(out.error());
  std::string text = fmt::format("{}: {}", c.output, c.method);
  for (const char* key : {"texts", "sentences", "features", "tags"})
    if (out->contains(key)) text += fmt::format(", {} {}", (*out)[key].dump(), key);
  if (out->contains("accuracy")) text += fmt::format(", accuracy {:.4f}", (*out)["accuracy"].get<double>());
  return print_out((c.json ? dump(*out) : text) + "\n") ? 0 : 1;
}

}  // namespace

bool is_lexical_training(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const std::string& a) { return a == "--method" || a.starts_with("--method="); });
}

int run_classify_lexical(const std::vector<std::string>& arguments) {
  LexicalTraining c;
  Options options(
      "classify train", "Train a classifier of texts or a tagger of words without a language model.",
      "makar classify train --method logistic -d train.tsv --val-datasets dev.tsv -o sentiment.json");
  options.add("--method", &c.method, "naive-bayes, logistic, svm, vectors, cnn, or hmm for tags of words",
              "NAME");
  options.add("-o --output --out", &c.output, "file to write; a folder for vectors and cnn", "FILE")
      .required = true;
  declare_features(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (c.method == "hmm") return print_result(c, train_tagger(c));
  const bool cnn = c.method == "cnn" || c.method == "vectors";
  if (!cnn) c.options.method = c.method;
  if (const Status s = check(c.options); !s.ok()) return report(s.error()), 2;
  const auto train = [&]() -> Result<Json> {
    MAKAR_TRY(const auto paths, parse_data_paths(c.train));
    MAKAR_TRY(const TextsWithLabels data, read_labelled_texts(paths));
    if (c.validation.empty()) return cnn ? train_cnn(c, data, nullptr) : train_lexical(c, data, nullptr);
    MAKAR_TRY(const auto test_paths, parse_data_paths(c.validation));
    MAKAR_TRY(const TextsWithLabels test, read_labelled_texts(test_paths));
    return cnn ? train_cnn(c, data, &test) : train_lexical(c, data, &test);
  };
  return print_result(c, train());
}

int run_classify_compare(const std::vector<std::string>& arguments) {
  LexicalTraining c;
  Options options("classify compare",
                  "Train every method without a language model on the same data and compare their accuracy.",
                  "makar classify compare -d train.tsv --test test.tsv");
  declare_features(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (c.validation.empty())
    return report(error_at("--test", "is needed: the data to measure the accuracy on")), 2;
  const auto train = [&]() -> Result<Json> {
    MAKAR_TRY(const auto paths, parse_data_paths(c.train));
    MAKAR_TRY(const TextsWithLabels data, read_labelled_texts(paths));
    MAKAR_TRY(const auto test_paths, parse_data_paths(c.validation));
    MAKAR_TRY(const TextsWithLabels test, read_labelled_texts(test_paths));
    Json rows = Json::array();
    // The baseline: always predict the most frequent label of the training data.
    std::map<std::string, size_t> counts;
    for (const std::string& label : data.labels) ++counts[label];
    const auto most_frequent = std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) {
                                 return a.second < b.second;
                               })->first;
    const auto correct = std::count(test.labels.begin(), test.labels.end(), most_frequent);
    rows.push_back({{"method", "most frequent label"},
                    {"features", 0},
                    {"seconds", 0.0},
                    {"accuracy", static_cast<double>(correct) / static_cast<double>(test.labels.size())}});
    for (const char* method : {"naive-bayes", "logistic", "svm"}) {
      c.options.method = method;
      MAKAR_TRY(Json row, train_lexical(c, data, &test));
      rows.push_back(std::move(row));
    }
    for (const char* method : {"vectors", "cnn"}) {
      LexicalTraining one = c;
      one.method = method;
      MAKAR_TRY(Json row, train_cnn(one, data, &test));
      rows.push_back(std::move(row));
    }
    return rows;
  };
  const auto rows = train();
  if (!rows.ok()) return report(rows.error());
  if (c.json) return print_out(dump(*rows) + "\n") ? 0 : 1;
  std::string out = fmt::format("{:<22} {:>9} {:>9} {:>9}\n", "method", "features", "seconds", "accuracy");
  for (const Json& r : *rows)
    out += fmt::format("{:<22} {:>9} {:>9.2f} {:>9.4f}\n", r["method"].get<std::string>(),
                       r["features"].get<int64_t>(), r["seconds"].get<double>(), r["accuracy"].get<double>());
  return print_out(out) ? 0 : 1;
}

}  // namespace makar
