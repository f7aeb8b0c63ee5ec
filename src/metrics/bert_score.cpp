#include "metrics/bert_score.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace makar {

void normalize(TokenVectors& v) {
  for (size_t t = 0; t < v.tokens(); ++t) {
    float* row = v.values.data() + t * v.width;
    double square = 0;
    for (size_t i = 0; i < v.width; ++i) square += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    const double length = std::max(std::sqrt(square), 1e-12);
    for (size_t i = 0; i < v.width; ++i) row[i] = static_cast<float>(static_cast<double>(row[i]) / length);
  }
}

BertScore bert_score(const TokenVectors& hyp, const TokenVectors& ref, const BertScore& baseline) {
  BertScore out;
  if (hyp.tokens() > 0 && ref.tokens() > 0) {
    std::vector<double> best_hyp(hyp.tokens(), -INFINITY), best_ref(ref.tokens(), -INFINITY);
    for (size_t i = 0; i < hyp.tokens(); ++i)
      for (size_t j = 0; j < ref.tokens(); ++j) {
        double cosine = 0;
        for (size_t k = 0; k < hyp.width; ++k)
          cosine += static_cast<double>(hyp.values[i * hyp.width + k]) *
                    static_cast<double>(ref.values[j * ref.width + k]);
        best_hyp[i] = std::max(best_hyp[i], cosine), best_ref[j] = std::max(best_ref[j], cosine);
      }
    const auto mean = [](const std::vector<double>& values, const std::vector<double>& weights) {
      double sum = 0, total = 0;
      for (size_t i = 0; i < values.size(); ++i) sum += weights[i] * values[i], total += weights[i];
      return total > 0 ? sum / total : 0;
    };
    out.precision = mean(best_hyp, hyp.weights), out.recall = mean(best_ref, ref.weights);
    if (out.precision + out.recall != 0)
      out.f1 = 2 * out.precision * out.recall / (out.precision + out.recall);
  }
  const auto rescale = [](double& x, double base) { x = (x - base) / (1 - base); };
  rescale(out.precision, baseline.precision), rescale(out.recall, baseline.recall),
      rescale(out.f1, baseline.f1);
  return out;
}

InverseFrequencies::InverseFrequencies(const std::vector<std::vector<int64_t>>& references) {
  std::unordered_map<int64_t, double> documents;
  for (const auto& ids : references)
    for (const int64_t id : std::unordered_set<int64_t>(ids.begin(), ids.end())) documents[id] += 1;
  const auto count = static_cast<double>(references.size());
  unseen_ = std::log(count + 1);
  for (const auto& [id, count_with_id] : documents) values_[id] = std::log((count + 1) / (count_with_id + 1));
}

double InverseFrequencies::operator()(int64_t token) const {
  const auto found = values_.find(token);
  return found == values_.end() ? unseen_ : found->second;
}

Evaluation evaluate_bert_scores(const std::vector<BertScore>& pairs, std::string signature) {
  std::vector<Statistics> units;
  for (const BertScore& p : pairs) units.push_back({p.f1, p.precision, p.recall, 1});
  const Statistics sums = sum_of(units);
  Evaluation out = evaluation_of_sums("BERTScore", std::move(signature), std::move(units),
                                      [](std::span<const double> s) { return s[0] / s[3]; });
  if (!sums.empty())
    out.details = {
        {"precision", sums[1] / sums[3]}, {"recall", sums[2] / sums[3]}, {"f1", sums[0] / sums[3]}};
  return out;
}

}  // namespace makar
