#include "lexical/text_classifier.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>

#include "base/nearest.h"
#include "data/permutation.h"
#include "data/schema.h"
#include "metrics/classification.h"

namespace makar {
namespace {

using Weights = std::vector<std::vector<double>>;

double score(const std::vector<double>& weights, const SparseVector& x) {
  double out = weights.back();
  for (const auto& [i, v] : x) out += weights[i] * static_cast<double>(v);
  return out;
}

void softmax(std::vector<double>& scores) {
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - max);
  for (double& s : scores) s /= sum;
}

Weights naive_bayes(const std::vector<SparseVector>& x, const std::vector<size_t>& y, size_t labels,
                    size_t features, double smoothing) {
  Weights w(labels, std::vector<double>(features + 1, smoothing));
  std::vector<double> documents(labels, 0);
  for (size_t i = 0; i < x.size(); ++i) {
    ++documents[y[i]];
    for (const auto& [f, v] : x[i]) w[y[i]][f] += static_cast<double>(v);
  }
  for (size_t c = 0; c < labels; ++c) {
    const double sum = std::accumulate(w[c].begin(), w[c].end() - 1, 0.0);
    for (size_t f = 0; f < features; ++f) w[c][f] = std::log(w[c][f] / sum);
    w[c][features] = std::log(documents[c] / static_cast<double>(x.size()));
  }
  return w;
}

// Minimises C * sum of cross-entropies + |w|^2 / 2, where w excludes the biases.
Weights logistic(const std::vector<SparseVector>& x, const std::vector<size_t>& y, size_t labels,
                 size_t features, const ClassifierOptions& o) {
  const size_t width = features + 1;
  std::vector<double> w(labels * width, 0);
  std::vector<double> weight(labels, o.strength);  // of an example, by its label
  if (o.balanced) {
    std::vector<double> count(labels, 0);
    for (const size_t label : y) ++count[label];
    for (size_t c = 0; c < labels; ++c)
      weight[c] = o.strength * static_cast<double>(y.size()) /
                  (static_cast<double>(labels) * std::max(count[c], 1.0));
  }
  minimize(w, o.iterations, [&](const std::vector<double>& at, std::vector<double>& gradient) {
    double loss = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      const bool bias = i % width == features;
      gradient[i] = bias ? 0 : at[i];
      loss += bias ? 0 : at[i] * at[i] / 2;
    }
    std::vector<double> p(labels);
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t c = 0; c < labels; ++c) {
        p[c] = at[c * width + features];
        for (const auto& [f, v] : x[i]) p[c] += at[c * width + f] * static_cast<double>(v);
      }
      softmax(p);
      loss -= weight[y[i]] * std::log(std::max(p[y[i]], 1e-300));
      for (size_t c = 0; c < labels; ++c) {
        const double g = weight[y[i]] * (p[c] - (c == y[i] ? 1 : 0));
        for (const auto& [f, v] : x[i]) gradient[c * width + f] += g * static_cast<double>(v);
        gradient[c * width + features] += g;
      }
    }
    return loss;
  });
  Weights out;
  for (size_t c = 0; c < labels; ++c)
    out.emplace_back(w.begin() + static_cast<int64_t>(c * width),
                     w.begin() + static_cast<int64_t>((c + 1) * width));
  return out;
}

// One class against the rest: min |w|^2 / 2 + C sum max(0, 1 - y w x)^2, the bias as a feature of 1.
Weights support_vectors(const std::vector<SparseVector>& x, const std::vector<size_t>& y, size_t labels,
                        size_t features, const ClassifierOptions& o) {
  Weights out;
  const double diagonal = 1 / (2 * o.strength);
  std::vector<double> square(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    square[i] = 1 + diagonal;
    for (const auto& entry : x[i])
      square[i] += static_cast<double>(entry.second) * static_cast<double>(entry.second);
  }
  for (size_t c = 0; c < labels; ++c) {
    std::vector<double> w(features + 1, 0), alpha(x.size(), 0);
    for (int64_t round = 0; round < o.iterations; ++round) {
      const Permutation order(x.size(), static_cast<uint64_t>(o.seed),
                              static_cast<uint64_t>(round) * labels + c);
      double largest_violation = 0;
      for (size_t n = 0; n < x.size(); ++n) {
        const size_t i = order(n);
        const double sign = y[i] == c ? 1 : -1;
        const double g = sign * score(w, x[i]) - 1 + diagonal * alpha[i];
        const double projected = alpha[i] == 0 ? std::min(g, 0.0) : g;
        largest_violation = std::max(largest_violation, std::fabs(projected));
        if (projected == 0) continue;
        const double before = alpha[i];
        alpha[i] = std::max(0.0, before - g / square[i]);
        const double change = (alpha[i] - before) * sign;
        for (const auto& [f, v] : x[i]) w[f] += change * static_cast<double>(v);
        w[features] += change;
      }
      if (largest_violation < 1e-3) break;
    }
    out.push_back(std::move(w));
  }
  return out;
}

}  // namespace

double minimize(std::vector<double>& x, int64_t iterations,
                const std::function<double(const std::vector<double>&, std::vector<double>&)>& value) {
  constexpr int kMaxHalvings = 40;  // of the step in a line search
  constexpr size_t kHistory = 10;   // pairs that approximate the Hessian
  const size_t n = x.size();
  const auto product = [&](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  struct Pair {
    std::vector<double> step, change;
    double rho;
  };
  std::deque<Pair> pairs;
  std::vector<double> gradient(n), next(n), next_gradient(n), direction(n);
  double current_loss = value(x, gradient);
  const double start = std::sqrt(product(gradient, gradient));
  for (int64_t i = 0; i < iterations; ++i) {
    if (std::sqrt(product(gradient, gradient)) <= 1e-6 * std::max(1.0, start)) break;
    for (size_t j = 0; j < n; ++j) direction[j] = -gradient[j];
    std::vector<double> alpha(pairs.size());
    for (size_t k = pairs.size(); k-- > 0;) {
      alpha[k] = pairs[k].rho * product(pairs[k].step, direction);
      for (size_t j = 0; j < n; ++j) direction[j] -= alpha[k] * pairs[k].change[j];
    }
    if (!pairs.empty()) {
      const double scale = 1 / (pairs.back().rho * product(pairs.back().change, pairs.back().change));
      for (double& d : direction) d *= scale;
    }
    for (size_t k = 0; k < pairs.size(); ++k) {
      const double beta = pairs[k].rho * product(pairs[k].change, direction);
      for (size_t j = 0; j < n; ++j) direction[j] += (alpha[k] - beta) * pairs[k].step[j];
    }
    const double slope = product(gradient, direction);
    if (slope >= 0) break;
    double rate = pairs.empty() ? 1 / std::max(1.0, start) : 1, next_loss = current_loss;
    int tries = 0;
    for (; tries < kMaxHalvings; ++tries, rate /= 2) {
      for (size_t j = 0; j < n; ++j) next[j] = x[j] + rate * direction[j];
      next_loss = value(next, next_gradient);
      if (next_loss <= current_loss + 1e-4 * rate * slope) break;
    }
    if (tries == kMaxHalvings) break;
    Pair pair{std::vector<double>(n), std::vector<double>(n), 0};
    for (size_t j = 0; j < n; ++j)
      pair.step[j] = next[j] - x[j], pair.change[j] = next_gradient[j] - gradient[j];
    const double curvature = product(pair.step, pair.change);
    if (curvature > 1e-12) {
      pair.rho = 1 / curvature;
      pairs.push_back(std::move(pair));
      if (pairs.size() > kHistory) pairs.pop_front();
    }
    std::swap(x, next), std::swap(gradient, next_gradient);
    current_loss = next_loss;
  }
  return std::sqrt(product(gradient, gradient));
}

Status check(const ClassifierOptions& o) {
  const std::vector<std::string> known = {"naive-bayes", "logistic", "svm"};
  if (std::find(known.begin(), known.end(), o.method) == known.end())
    return error_at("`method`", "must be one of {}, or hmm for tags of words, got '{}'{}",
                    fmt::join(known, ", "), o.method, did_you_mean(o.method, known));
  if (!(o.strength > 0 && o.strength <= 1e6))
    return error_at("`strength`", "must be above 0 and at most 1e6, got {}", o.strength);
  if (!(o.smoothing > 0 && o.smoothing <= 1e6))
    return error_at("`smoothing`", "must be above 0 and at most 1e6, got {}", o.smoothing);
  if (o.iterations < 1 || o.iterations > 100000)
    return error_at("`iterations`", "must be 1 to 100000, got {}", o.iterations);
  if (o.features.ngrams < 1 || o.features.ngrams > 10)
    return error_at("`word_ngrams`", "must be 1 to 10, got {}", o.features.ngrams);
  if (o.features.min_count < 1)
    return error_at("`min_count`", "must be 1 or more, got {}", o.features.min_count);
  return Done{};
}

Result<TextsWithLabels> read_labelled_texts(const std::vector<DataPath>& paths) {
  MAKAR_TRY(auto reader, RecordReader::open(paths));
  TextsWithLabels out;
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    const auto pair = text_pair_fields(record.value);
    const Json* text = pair.first ? pair.first : text_field(record.value);
    const Json* label = label_field(record.value);
    if (!text || !text->is_string() || !label || label->is_structured() || label->is_null()) {
      reader.bad().add(record.place(), "expected a text and a label");
      continue;
    }
    if (is_unlabelled_pair(record.value)) {
      reader.bad().add_once(record.place(), "the annotators did not agree on a label");
      continue;
    }
    out.texts.push_back(text->get<std::string>() +
                        (pair.second ? "\n" + pair.second->get<std::string>() : ""));
    out.labels.push_back(label->is_string() ? label->get<std::string>() : label->dump());
  }
  if (out.texts.empty())
    return error_at(paths.empty() ? "datasets" : paths[0].path,
                    "there are no records with a text and a label{}",
                    reader.bad().reported.empty() ? "" : "; " + reader.bad().reported[0]);
  return out;
}

Result<TextClassifier> TextClassifier::train(const TextsWithLabels& data, const ClassifierOptions& o) {
  MAKAR_RETURN_IF_ERROR(check(o));
  TextClassifier out;
  out.method_ = o.method;
  out.labels_ = sorted_labels(data.labels);
  if (out.labels_.size() < 2 || out.labels_.size() > kMaxClassLabels)
    return error_at("datasets", "a classifier needs 2 to {} different labels, found {}", kMaxClassLabels,
                    out.labels_.size());
  FeatureOptions features = o.features;
  if (o.method == "naive-bayes") features.tf_idf = false;
  out.features_ = TextFeatures::learn(data.texts, features);
  std::map<std::string, size_t> label_ids;
  for (size_t i = 0; i < out.labels_.size(); ++i) label_ids[out.labels_[i]] = i;
  std::vector<SparseVector> x;
  std::vector<size_t> y;
  for (size_t i = 0; i < data.texts.size(); ++i) {
    x.push_back(out.features_.vector(data.texts[i]));
    y.push_back(label_ids.at(data.labels[i]));
  }
  const size_t labels = out.labels_.size(), size = out.features_.size();
  if (o.method == "naive-bayes")
    out.weights_ = naive_bayes(x, y, labels, size, o.smoothing);
  else if (o.method == "logistic")
    out.weights_ = logistic(x, y, labels, size, o);
  else
    out.weights_ = support_vectors(x, y, labels, size, o);
  return out;
}

TextClassifier::Answer TextClassifier::classify(std::string_view text) const {
  const SparseVector x = features_.vector(text);
  Answer out{0, {}};
  for (const auto& w : weights_) out.scores.push_back(score(w, x));
  out.label =
      static_cast<size_t>(std::max_element(out.scores.begin(), out.scores.end()) - out.scores.begin());
  if (method_ != "svm") softmax(out.scores);
  return out;
}

Json TextClassifier::json() const {
  return {{"makar", "text-classifier"},
          {"method", method_},
          {"labels", labels_},
          {"features", features_.json()},
          {"weights", weights_}};
}

Result<TextClassifier> TextClassifier::from_json(const Json& json, const std::string& place) {
  const auto is_list = [&](const char* key) { return json.contains(key) && json[key].is_array(); };
  if (!json.is_object() || !json.contains("method") || !json["method"].is_string() || !is_list("labels") ||
      !is_list("weights") || !json.contains("features"))
    return error_at(place, "expected a classifier of texts: method, labels, features and weights");
  TextClassifier out;
  out.method_ = json["method"].get<std::string>();
  MAKAR_TRY(out.features_, TextFeatures::from_json(json["features"], place));
  for (const Json& label : json["labels"]) {
    if (!label.is_string()) return error_at(place + ": labels", "expected strings");
    out.labels_.push_back(label.get<std::string>());
  }
  for (const Json& row : json["weights"]) {
    auto& to = out.weights_.emplace_back();
    if (!row.is_array() || row.size() != out.features_.size() + 1)
      return error_at(place + ": weights", "expected {} numbers per label", out.features_.size() + 1);
    for (const Json& w : row) {
      if (!w.is_number() || !std::isfinite(w.get<double>()))
        return error_at(place + ": weights", "expected finite numbers");
      to.push_back(w.get<double>());
    }
  }
  if (out.labels_.size() < 2 || out.weights_.size() != out.labels_.size())
    return error_at(place + ": weights", "expected one list for each of 2 or more labels");
  return out;
}

double accuracy_of(const TextClassifier& classifier, const TextsWithLabels& data) {
  size_t right = 0;
  for (size_t i = 0; i < data.texts.size(); ++i)
    right += classifier.labels()[classifier.classify(data.texts[i]).label] == data.labels[i];
  return data.texts.empty() ? 0 : static_cast<double>(right) / static_cast<double>(data.texts.size());
}

}  // namespace makar
