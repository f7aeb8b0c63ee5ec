#include "metrics/ranking.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/nearest.h"

namespace makar {
namespace {

size_t cutoff(const RankedQuery& q, size_t k) {
  return k == 0 ? q.relevance.size() : std::min(k, q.relevance.size());
}
double relevant_in(const RankedQuery& q, size_t k) {
  return static_cast<double>(std::count_if(q.relevance.begin(),
                                           q.relevance.begin() + static_cast<ptrdiff_t>(cutoff(q, k)),
                                           [](double r) { return r > 0; }));
}
double dcg(const std::vector<double>& relevance, size_t k, Gain gain) {
  double sum = 0;
  for (size_t i = 0; i < relevance.size() && (k == 0 || i < k); ++i)
    if (relevance[i] > 0)
      sum += (gain == Gain::kLinear ? relevance[i] : std::exp2(relevance[i]) - 1) /
             std::log2(static_cast<double>(i) + 2);
  return sum;
}

struct RankingMetric {
  std::string name;
  size_t k = 0;
};

double value_of(const RankedQuery& q, const RankingMetric& m, Gain gain) {
  if (m.name == "precision") return precision_at(q, m.k);
  if (m.name == "recall") return recall_at(q, m.k);
  if (m.name == "hit_rate") return hit_at(q, m.k);
  if (m.name == "mrr") return reciprocal_rank(q, m.k);
  if (m.name == "map") return average_precision(q, m.k);
  return ndcg(q, m.k, gain);
}

// Parses "ndcg@10".
Result<RankingMetric> parse_ranking(const std::string& text) {
  const size_t at = text.find('@');
  RankingMetric out{text.substr(0, at), 0};
  const std::vector<std::string> known = {"ndcg", "map", "mrr", "precision", "recall", "hit_rate"};
  if (std::find(known.begin(), known.end(), out.name) == known.end())
    return error_at(text, "unknown retrieval metric{}", did_you_mean(out.name, known));
  if (at == std::string::npos) return out;
  const auto [end, status] = std::from_chars(text.data() + at + 1, text.data() + text.size(), out.k);
  if (status != std::errc() || end != text.data() + text.size() || out.k == 0)
    return error_at(text, "expected a number above 0 after @");
  return out;
}

}  // namespace

RankedQuery rank_query(std::vector<RankedDocument> documents, const Judgements& judgements) {
  std::sort(documents.begin(), documents.end(), [](const RankedDocument& a, const RankedDocument& b) {
    return a.score != b.score ? a.score > b.score : a.id > b.id;
  });
  RankedQuery out;
  for (const RankedDocument& d : documents) {
    const auto found = judgements.find(d.id);
    out.relevance.push_back(found == judgements.end() ? 0 : found->second);
  }
  for (const auto& [id, relevance] : judgements)
    if (relevance > 0) out.ideal.push_back(relevance);
  std::sort(out.ideal.begin(), out.ideal.end(), std::greater<>());
  return out;
}

double precision_at(const RankedQuery& q, size_t k) {
  const double retrieved = static_cast<double>(k == 0 ? q.relevance.size() : k);
  return retrieved > 0 ? relevant_in(q, k) / retrieved : 0;
}
double recall_at(const RankedQuery& q, size_t k) {
  return q.ideal.empty() ? 0 : relevant_in(q, k) / static_cast<double>(q.ideal.size());
}
double hit_at(const RankedQuery& q, size_t k) { return relevant_in(q, k) > 0 ? 1 : 0; }

double reciprocal_rank(const RankedQuery& q, size_t k) {
  for (size_t i = 0; i < cutoff(q, k); ++i)
    if (q.relevance[i] > 0) return 1 / static_cast<double>(i + 1);
  return 0;
}

double average_precision(const RankedQuery& q, size_t k) {
  if (q.ideal.empty()) return 0;
  double found = 0, sum = 0;
  for (size_t i = 0; i < cutoff(q, k); ++i)
    if (q.relevance[i] > 0) sum += ++found / static_cast<double>(i + 1);
  return sum / static_cast<double>(q.ideal.size());
}

double ndcg(const RankedQuery& q, size_t k, Gain gain) {
  const double ideal = dcg(q.ideal, k, gain);
  return ideal > 0 ? dcg(q.relevance, k, gain) / ideal : 0;
}

Result<Evaluation> evaluate_ranking(const RankedRun& run, const Qrels& qrels, const std::string& main,
                                    const std::vector<int64_t>& cutoffs, Gain gain) {
  MAKAR_TRY(const RankingMetric main_metric, parse_ranking(main));
  std::vector<RankingMetric> metrics = {{"map"}, {"mrr"}, {"ndcg"}};
  for (const int64_t k : cutoffs)
    for (const char* metric : {"precision", "recall", "hit_rate", "ndcg"})
      metrics.push_back({metric, static_cast<size_t>(k)});
  std::vector<double> sums(metrics.size()), unit_scores;
  int64_t missing = 0, without_relevant = 0;
  for (const auto& [query, judgements] : qrels) {
    const auto list = run.find(query);
    const RankedQuery q =
        rank_query(list == run.end() ? std::vector<RankedDocument>() : list->second, judgements);
    if (q.ideal.empty()) {
      ++without_relevant;
      continue;
    }
    missing += list == run.end() ? 1 : 0;
    unit_scores.push_back(value_of(q, main_metric, gain));
    for (size_t m = 0; m < metrics.size(); ++m) sums[m] += value_of(q, metrics[m], gain);
  }
  const auto queries = static_cast<double>(unit_scores.size());
  Evaluation out = evaluation_of_mean(
      main,
      fmt::format("gain:{}|ties:id|queries:{}", gain == Gain::kLinear ? "linear" : "exp", unit_scores.size()),
      std::move(unit_scores));
  for (size_t m = 0; m < metrics.size() && queries > 0; ++m)
    out.details[metrics[m].k ? fmt::format("{}@{}", metrics[m].name, metrics[m].k) : metrics[m].name] =
        sums[m] / queries;
  out.details["queries"] = out.units;
  out.details["queries_missing_in_run"] = missing;
  out.details["queries_without_relevant"] = without_relevant;
  return out;
}

}  // namespace makar
