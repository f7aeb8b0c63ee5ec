// POST /v1/rerank (Cohere's and Jina's form) and POST /v1/moderations: what is asked, and the answers made of
// scores.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

struct RerankAsk {
  std::string query;
  std::vector<std::string> documents;
  int64_t top_n = 0;
  bool return_documents = false;
};

Result<RerankAsk> read_rerank(const Json& body);
// Best first, `top_n` of them.
Json rerank_json(const RerankAsk& ask, const std::vector<double>& scores, const std::string& model,
                 const std::string& id, int64_t tokens);
// How relevant a document is, from the logits of a cross-encoder: one number, or no and yes.
Result<double> relevance(const std::vector<float>& logits);

// The texts.
Result<std::vector<std::string>> read_moderation(const Json& body);
// `probabilities`: of each text, a number a label. A label that says of itself that nothing is wrong
// ("not-toxic", "neutral", "safe") never flags a text.
Json moderation_json(const std::vector<std::vector<double>>& probabilities,
                     const std::vector<std::string>& labels, bool multi_label, const std::string& model,
                     const std::string& id);

}  // namespace makar
