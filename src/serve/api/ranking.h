// POST /v1/rerank (Cohere's and Jina's format) and POST /v1/moderations: parsing of requests, and answers
// from scores.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

struct RerankRequest {
  std::string query;
  std::vector<std::string> documents;
  int64_t top_n = 0;
  bool return_documents = false;
};

Result<RerankRequest> read_rerank(const Json& body);
// The `top_n` best documents, best first.
Json rerank_json(const RerankRequest& request, const std::vector<double>& scores, const std::string& model,
                 const std::string& id, int64_t tokens);
// The relevance of a document from cross-encoder logits: one value, or two (no, yes).
Result<double> relevance(const std::vector<float>& logits);

// The texts to classify.
Result<std::vector<std::string>> read_moderation(const Json& body);
// `probabilities`: per text, one value per label. Benign labels ("not-toxic", "neutral", "safe") never flag
// a text.
Json moderation_json(const std::vector<std::vector<double>>& probabilities,
                     const std::vector<std::string>& labels, bool multi_label, const std::string& model,
                     const std::string& id);

}  // namespace makar
