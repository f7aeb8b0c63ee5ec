// Retrieval: scores of ranked lists of documents with judgements.
#pragma once
#include <unordered_map>

#include "metrics/evaluation.h"

namespace makar {

struct RankedDocument {
  std::string id;
  double score = 0;
};
// Relevance of the judged documents of a query, by id; above 0 if relevant.
using Judgements = std::unordered_map<std::string, double>;

enum class Gain { kLinear, kExponential };  // of nDCG: the relevance, or 2^relevance - 1

struct RankedQuery {
  std::vector<double> relevance;  // of the returned documents, best first
  std::vector<double> ideal;      // of all relevant documents, highest first
};
// Sorts by score; equal scores by document id, descending, as trec_eval does.
RankedQuery rank_query(std::vector<RankedDocument> documents, const Judgements& judgements);

// k 0: the whole list.
double precision_at(const RankedQuery& query, size_t k);
double recall_at(const RankedQuery& query, size_t k);
double hit_at(const RankedQuery& query, size_t k);
double reciprocal_rank(const RankedQuery& query, size_t k);
double average_precision(const RankedQuery& query, size_t k);
double ndcg(const RankedQuery& query, size_t k, Gain gain);

// By query id. Queries with judgements but without a list count as 0; queries without a relevant document are
// left out.
using RankedRun = std::unordered_map<std::string, std::vector<RankedDocument>>;
using Qrels = std::vector<std::pair<std::string, Judgements>>;  // in the order of the file
// `main` is the metric of the score: "ndcg@10", "map", "mrr", "precision@5", "recall@100", "hit_rate@1".
Result<Evaluation> evaluate_ranking(const RankedRun& run, const Qrels& qrels, const std::string& main,
                                    const std::vector<int64_t>& cutoffs, Gain gain);

}  // namespace makar
