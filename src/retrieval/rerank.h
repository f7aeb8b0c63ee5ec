// Reranking of the best chunks: a cross-encoder reads query and passage together, or a decoder computes the
// likelihood of the query after the passage.
#pragma once
#include <cstdint>
#include <memory>

#include "infer/engine.h"
#include "llm/language_model.h"
#include "retrieval/searcher.h"

namespace makar {

struct RerankOptions {
  size_t top = SIZE_MAX;  // only this many hits are scored; the others follow in their order
  // Of the reranker's score. Below 1, the search score has the remaining weight, and both are scaled to 0..1.
  double weight = 1;
};

class Reranker {
 public:
  // A model with a classification head of one or two labels, or a decoder-only language model.
  static Result<std::unique_ptr<Reranker>> open(const std::string& path, Device& device,
                                                const MemoryBudget& budget = {});
  // One score per passage, larger is better. Cross-encoder: the logit (of two labels, second minus first).
  // Decoder: the mean log-probability of the query's tokens after the passage.
  Result<std::vector<double>> scores(const std::string& query, const std::vector<std::string>& passages);
  // Reorders the hits by score; equal scores keep their order. Hits that are not scored follow, with lower
  // scores.
  Status rerank(const std::string& query, std::vector<SearchHit>& hits, const RerankOptions& options = {});

 private:
  Reranker(LanguageModel language, Device& device, const EngineOptions& options)
      : language_(std::move(language)), device_(device), engine_(language_.model(), device, options) {}
  Result<std::vector<double>> pair_scores(const std::string& query, const std::vector<std::string>& passages);
  Result<std::vector<double>> likelihoods(const std::string& query, const std::vector<std::string>& passages);

  LanguageModel language_;
  Device& device_;
  Engine engine_;
};

// The reordering itself, from the scores of the first hits.
void reorder_hits(std::vector<SearchHit>& hits, const std::vector<double>& scores, double weight);

}  // namespace makar
