#include "metrics/learned_head.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "base/sha256.h"
#include "metrics/agreement.h"
#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "metrics/rouge.h"
#include "metrics/words.h"

namespace makar {
namespace {

constexpr size_t kMaxFeatures = 1 << 16, kMinPairs = 10;
constexpr size_t kMaxPoolWords = 100'000, kMaxSentenceWords = 200;  // of synthetic pairs
constexpr double kMaxCorruptedShare = 0.6, kPretrainPenalty = 0.1;

std::string corrupt(const WordList& words, const WordList& pool, const Rng& rng, uint64_t& draw) {
  const auto uniform = [&] { return rng.uniform_double(draw++); };
  const auto index = [&](size_t count) {
    return static_cast<size_t>(uniform() * static_cast<double>(count));
  };
  const size_t kind = index(5);  // 0 drop, 1 swap, 2 double, 3 replace words; 4 cut off the end
  const double share = kMaxCorruptedShare * uniform();
  std::vector<std::string> out(words.begin(), words.end());
  if (kind == 4) {
    out.resize(std::max<size_t>(1, static_cast<size_t>(static_cast<double>(out.size()) * (1 - share))));
    return fmt::format("{}", fmt::join(out, " "));
  }
  const auto changes = static_cast<size_t>(std::ceil(share * static_cast<double>(words.size())));
  for (size_t i = 0; i < changes; ++i) {
    const size_t at = index(out.size());
    if (kind == 0 && out.size() > 1)
      out.erase(out.begin() + static_cast<int64_t>(at));
    else if (kind == 1)
      std::swap(out[at], out[index(out.size())]);
    else if (kind == 2)
      out.insert(out.begin() + static_cast<int64_t>(at), out[at]);
    else if (kind == 3)
      out[at] = pool[index(pool.size())];
  }
  return fmt::format("{}", fmt::join(out, " "));
}

// The mean of the weighted tokens.
std::vector<double> mean_vector(const TokenVectors& text) {
  std::vector<double> out(text.width);
  double sum = 0;
  for (size_t t = 0; t < text.tokens(); ++t) {
    sum += text.weights[t];
    for (size_t i = 0; i < text.width; ++i)
      out[i] += text.weights[t] * static_cast<double>(text.values[t * text.width + i]);
  }
  for (double& one : out) one /= std::max(sum, 1e-12);
  return out;
}

// X^T X and X^T y over the rows that `use` selects, divided by their number.
struct NormalEquations {
  std::vector<double> a, b;
  NormalEquations(const FeatureRows& x, const std::vector<double>& y,
                  const std::function<bool(size_t)>& use) {
    const size_t n = x[0].size();
    a.assign(n * n, 0), b.assign(n, 0);
    double count = 0;
    for (size_t r = 0; r < x.size(); ++r) {
      if (!use(r)) continue;
      ++count;
      for (size_t i = 0; i < n; ++i) {
        b[i] += x[r][i] * y[r];
        for (size_t j = 0; j <= i; ++j) a[i * n + j] += x[r][i] * x[r][j];
      }
    }
    for (size_t i = 0; i < n; ++i) {
      b[i] /= count;
      for (size_t j = 0; j <= i; ++j) a[i * n + j] /= count, a[j * n + i] = a[i * n + j];
    }
  }
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double out = 0;
  for (size_t i = 0; i < a.size(); ++i) out += a[i] * b[i];
  return out;
}

Status check_rows(const FeatureRows& rows, size_t targets) {
  if (rows.size() < kMinPairs || rows.size() != targets)
    return error_at("pairs", "a head needs at least {} pairs, each with a value; got {} pairs and {} values",
                    kMinPairs, rows.size(), targets);
  return Done{};
}

}  // namespace

Result<std::vector<SyntheticPair>> synthetic_pairs(const std::vector<std::string>& sentences, int64_t copies,
                                                   uint64_t seed) {
  WordList pool;
  for (const std::string& sentence : sentences)
    for (const std::string& word : split_words(sentence))
      if (pool.size() < kMaxPoolWords) pool.push_back(word);
  if (pool.empty()) return error_at("texts", "have no words");
  std::vector<SyntheticPair> out;
  BleuOptions bleu;
  bleu.effective_order = true;
  for (size_t s = 0; s < sentences.size(); ++s) {
    const WordList words = split_words(sentences[s]);
    if (words.size() < 2 || words.size() > kMaxSentenceWords) continue;
    const Rng rng(seed, Purpose::kSynthetic, s);
    uint64_t draw = 0;
    for (int64_t c = 0; c < copies; ++c) {
      SyntheticPair pair;
      pair.reference = sentences[s];
      pair.hypothesis = corrupt(words, pool, rng, draw);
      const Segments segment = {{pair.hypothesis, {pair.reference}}};
      MAKAR_TRY(const Evaluation b, evaluate_bleu(segment, bleu));
      MAKAR_TRY(const Evaluation r, evaluate_rouge(segment, {"rougeL"}, {}));
      MAKAR_TRY(const Evaluation f, evaluate_chrf(segment, {}));
      pair.signals = {b.score / 100, r.score, f.score / 100};
      out.push_back(std::move(pair));
    }
  }
  return out;
}

std::vector<double> pair_features(const TokenVectors& hypothesis, const TokenVectors& reference) {
  const BertScore match = bert_score(hypothesis, reference);
  const auto u = mean_vector(hypothesis), v = mean_vector(reference);
  const double lengths = std::sqrt(dot(u, u) * dot(v, v));
  const double ratio = std::log((static_cast<double>(hypothesis.tokens()) + 1) /
                                (static_cast<double>(reference.tokens()) + 1));
  std::vector<double> out = {match.precision, match.recall, match.f1, lengths > 0 ? dot(u, v) / lengths : 0,
                             ratio};
  for (size_t i = 0; i < u.size(); ++i) out.push_back(std::abs(u[i] - v[i]));
  for (size_t i = 0; i < u.size(); ++i) out.push_back(u[i] * v[i]);
  return out;
}

std::vector<double> solve_ridge(std::vector<double> a, std::vector<double> b, double penalty) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) a[i * n + i] += penalty;
  // a = L L^T, L in the lower triangle.
  for (size_t j = 0; j < n; ++j) {
    for (size_t k = 0; k < j; ++k) a[j * n + j] -= a[j * n + k] * a[j * n + k];
    a[j * n + j] = std::sqrt(std::max(a[j * n + j], 1e-300));
    for (size_t i = j + 1; i < n; ++i) {
      double sum = a[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = sum / a[j * n + j];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

Result<LearnedHead> LearnedHead::pretrain(const FeatureRows& features,
                                          const std::vector<std::vector<double>>& signals) {
  MAKAR_RETURN_IF_ERROR(check_rows(features, signals.size()));
  LearnedHead out;
  const size_t n = features[0].size();
  const auto count = static_cast<double>(features.size());
  out.mean_.assign(n, 0), out.scale_.assign(n, 0);
  for (const auto& row : features)
    for (size_t i = 0; i < n; ++i) out.mean_[i] += row[i] / count;
  for (const auto& row : features)
    for (size_t i = 0; i < n; ++i) out.scale_[i] += (row[i] - out.mean_[i]) * (row[i] - out.mean_[i]) / count;
  for (double& one : out.scale_) one = one > 1e-20 ? 1 / std::sqrt(one) : 0;
  std::vector<double> y;
  double mean_signal = 0;
  for (const auto& one : signals) {
    double sum = 0;
    for (const double signal : one) sum += signal;
    y.push_back(sum / static_cast<double>(one.size()));
    mean_signal += y.back() / count;
  }
  FeatureRows x = features;
  for (size_t r = 0; r < x.size(); ++r) {
    for (size_t i = 0; i < n; ++i) x[r][i] = (x[r][i] - out.mean_[i]) * out.scale_[i];
    y[r] -= mean_signal;
  }
  NormalEquations equations(x, y, [](size_t) { return true; });
  out.weights_ = solve_ridge(std::move(equations.a), std::move(equations.b), kPretrainPenalty);
  out.bias_ = mean_signal;
  return out;
}

Result<LearnedHead::Fit> LearnedHead::tune(const FeatureRows& features, const std::vector<double>& ratings) {
  MAKAR_RETURN_IF_ERROR(check_rows(features, ratings.size()));
  if (features[0].size() != width())
    return error_at("pairs", "have {} features; the head has {}", features[0].size(), width());
  const auto is_held_out = [](size_t r) { return r % 5 == 4; };
  FeatureRows x = features;
  std::vector<double> pretrained(x.size());
  for (size_t r = 0; r < x.size(); ++r) {
    for (size_t i = 0; i < width(); ++i) x[r][i] = (x[r][i] - mean_[i]) * scale_[i];
    pretrained[r] = dot(x[r], weights_);
  }
  struct Candidate {
    std::vector<double> weights;
    double bias;
  };
  // Fits the rows that `use` selects.
  const auto fit = [&](const std::function<bool(size_t)>& use, double penalty) {
    double count = 0, mx = 0, my = 0, xx = 0, xy = 0;
    for (size_t r = 0; r < x.size(); ++r)
      if (use(r)) ++count, mx += pretrained[r], my += ratings[r];
    mx /= count, my /= count;
    for (size_t r = 0; r < x.size(); ++r)
      if (use(r))
        xx += (pretrained[r] - mx) * (pretrained[r] - mx), xy += (pretrained[r] - mx) * (ratings[r] - my);
    const double a = xx > 0 ? xy / xx : 0, b = my - a * mx;
    std::vector<double> residuals(x.size());
    for (size_t r = 0; r < x.size(); ++r) residuals[r] = ratings[r] - a * pretrained[r] - b;
    NormalEquations equations(x, residuals, use);
    Candidate out{solve_ridge(std::move(equations.a), std::move(equations.b), penalty), b};
    for (size_t i = 0; i < width(); ++i) out.weights[i] += a * weights_[i];
    return out;
  };
  Fit out;
  double min_error = 0;
  for (const double penalty : {0.01, 0.1, 1.0, 10.0}) {
    const Candidate one = fit([&](size_t r) { return !is_held_out(r); }, penalty);
    std::vector<double> predicted, expected;
    double error = 0;
    for (size_t r = 0; r < x.size(); ++r) {
      if (!is_held_out(r)) continue;
      predicted.push_back(dot(x[r], one.weights) + one.bias), expected.push_back(ratings[r]);
      error += (predicted.back() - expected.back()) * (predicted.back() - expected.back());
    }
    if (out.penalty != 0 && error >= min_error) continue;
    min_error = error;
    out = {pearson(predicted, expected), spearman(predicted, expected), penalty};
  }
  Candidate all = fit([](size_t) { return true; }, out.penalty);
  weights_ = std::move(all.weights), bias_ = all.bias;
  return out;
}

double LearnedHead::score(const std::vector<double>& features) const {
  double out = bias_;
  for (size_t i = 0; i < weights_.size(); ++i) out += (features[i] - mean_[i]) * scale_[i] * weights_[i];
  return out;
}

Json LearnedHead::json() const {
  return {{"kind", "makar learned metric"},
          {"encoder", encoder},
          {"bias", bias_},
          {"mean", mean_},
          {"scale", scale_},
          {"weights", weights_}};
}

Result<LearnedHead> LearnedHead::from_json(const Json& json, const std::string& place) {
  if (!json.is_object() || json.value("kind", Json()) != "makar learned metric")
    return error_at(place, "is not the head of a learned metric, as makar metrics bleurt train writes it");
  LearnedHead out;
  const auto read = [&](const char* key, std::vector<double>& to) -> Status {
    if (!json.contains(key) || !json[key].is_array() || json[key].empty() || json[key].size() > kMaxFeatures)
      return error_at(place, "'{}': expected a list of numbers", key);
    for (const Json& one : json[key]) {
      if (!one.is_number() || !std::isfinite(one.get<double>()))
        return error_at(place, "'{}': expected a list of numbers", key);
      to.push_back(one);
    }
    return Done{};
  };
  MAKAR_RETURN_IF_ERROR(read("mean", out.mean_));
  MAKAR_RETURN_IF_ERROR(read("scale", out.scale_));
  MAKAR_RETURN_IF_ERROR(read("weights", out.weights_));
  if (out.mean_.size() != out.weights_.size() || out.scale_.size() != out.weights_.size())
    return error_at(place, "'mean', 'scale' and 'weights' have different lengths");
  if (!json.contains("bias") || !json["bias"].is_number() || !json.contains("encoder") ||
      !json["encoder"].is_string())
    return error_at(place, "expected a number 'bias' and a text 'encoder'");
  out.bias_ = json["bias"], out.encoder = json["encoder"];
  return out;
}

std::string LearnedHead::version() const { return sha256_of(json().dump()).substr(0, 12); }

}  // namespace makar
