#include "serve/api/ranking.h"

#include <algorithm>
#include <numeric>

#include "lexical/toxicity.h"
#include "llm/classify.h"
#include "serve/api/fields.h"
#include "serve/api/messages.h"

namespace makar {
namespace {

constexpr size_t kMaxTexts = 2048;
constexpr double kFlagThreshold = 0.5;

bool is_harmless(const std::string& label, size_t index, bool multi_label) {
  // Unnamed classes: by convention the first is the benign one.
  return is_benign_label(label) || (!multi_label && index == 0 && label == "LABEL_0");
}

}  // namespace

Result<RerankRequest> read_rerank(const Json& body) {
  RerankRequest request;
  MAKAR_TRY(request.query, text_field(body, "query"));
  if (request.query.empty())
    return error_at("query", "is missing; expected the text that documents are compared with");
  if (!body.contains("documents") || !body["documents"].is_array() || body["documents"].empty())
    return error_at("documents", "expected a list of at least one text");
  const Json& documents = body["documents"];
  if (documents.size() > kMaxTexts)
    return error_at("documents", "has {} entries; the limit is {}", documents.size(), kMaxTexts);
  for (size_t i = 0; i < documents.size(); ++i) {
    const bool object = documents[i].is_object() && documents[i].contains("text");
    const Json& text = object ? documents[i]["text"] : documents[i];
    if (!text.is_string())
      return error_at(fmt::format("documents[{}]", i), "expected a string or {{\"text\"}}, found {}",
                      kind_of(documents[i]));
    request.documents.push_back(text.get<std::string>());
  }
  const auto document_count = static_cast<int64_t>(request.documents.size());
  MAKAR_TRY(request.top_n, integer_field(body, "top_n", 1, 1 << 20, document_count));
  request.top_n = std::min(request.top_n, document_count);
  MAKAR_TRY(request.return_documents, flag_field(body, "return_documents"));
  return request;
}

Json rerank_json(const RerankRequest& request, const std::vector<double>& scores, const std::string& model,
                 const std::string& id, int64_t tokens) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), static_cast<size_t>(request.top_n)));
  Json results = Json::array();
  for (const size_t i : order) {
    results.push_back({{"index", i}, {"relevance_score", scores[i]}});
    if (request.return_documents) results.back()["document"] = {{"text", request.documents[i]}};
  }
  return {{"id", "rerank-" + id},
          {"object", "list"},
          {"model", model},
          {"results", std::move(results)},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

Result<double> relevance(const std::vector<float>& logits) {
  if (logits.size() != 1 && logits.size() != 2)
    return error_of(Error::Kind::kUnsupported, "model",
                    "has {} labels; a reranker has one (relevance) or two (no, yes)", logits.size());
  return class_probabilities(logits, false).back();
}

Result<std::vector<std::string>> read_moderation(const Json& body) {
  if (!body.contains("input")) return error_at("input", "is missing; expected a string or a list of strings");
  const Json& input = body["input"];
  if (input.is_array() && !input.empty() && input[0].is_object()) {  // parts of one text
    MAKAR_TRY(std::string text, read_content(input, "input"));
    return std::vector<std::string>{std::move(text)};
  }
  MAKAR_TRY(auto texts, texts_field(body, "input", kMaxTexts));
  if (texts.empty()) return error_at("input", "expected 1 to {} texts, got none", kMaxTexts);
  return texts;
}

Json moderation_json(const std::vector<std::vector<double>>& probabilities,
                     const std::vector<std::string>& labels, bool multi_label, const std::string& model,
                     const std::string& id) {
  Json results = Json::array();
  for (const std::vector<double>& row : probabilities) {
    const size_t best = static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    Json categories = Json::object(), scores = Json::object(), types = Json::object();
    bool flagged = false;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool applies = multi_label || row.size() == 1 ? row[i] >= kFlagThreshold : i == best;
      categories[labels[i]] = applies, scores[labels[i]] = row[i], types[labels[i]] = Json::array({"text"});
      flagged = flagged || (applies && !is_harmless(labels[i], i, multi_label));
    }
    results.push_back({{"flagged", flagged},
                       {"categories", std::move(categories)},
                       {"category_scores", std::move(scores)},
                       {"category_applied_input_types", std::move(types)}});
  }
  return {{"id", "modr-" + id}, {"model", model}, {"results", std::move(results)}};
}

}  // namespace makar
