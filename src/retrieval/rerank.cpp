#include "retrieval/rerank.h"

#include <algorithm>

#include "infer/encode_job.h"
#include "infer/memory_plan.h"
#include "llm/classify.h"
#include "llm/embed.h"
#include "llm/loglikelihood.h"

namespace makar {

Result<std::unique_ptr<Reranker>> Reranker::open(const std::string& path, Device& device,
                                                 const MemoryBudget& budget) {
  MAKAR_TRY(LanguageModel language, LanguageModel::open(path, device, {{}, budget}));
  if (!language.has_tokenizer()) return error_of(Error::Kind::kNotFound, path, "has no tokenizer");
  const ModelSpec& spec = language.spec();
  const bool pairs = spec.head.kind == HeadKind::kSequenceClass;
  if (!pairs && (!spec.decoder || spec.encoder))
    return error_of(
        Error::Kind::kUnsupported, path,
        "reranking needs a cross-encoder (a classification head) or a decoder-only language model");
  EngineOptions options = Embedder::engine_options();
  if (!pairs) {
    MAKAR_TRY(options, fit_engine(language.model(), budget, {}));
  }
  return std::unique_ptr<Reranker>(new Reranker(std::move(language), device, options));
}

Result<std::vector<double>> Reranker::pair_scores(const std::string& query,
                                                  const std::vector<std::string>& passages) {
  MAKAR_TRY(const ClassifierPairs pairs, ClassifierPairs::of(language_, query));
  std::vector<TypedTokens> texts;
  std::vector<std::shared_ptr<EncodeJob>> jobs;
  for (const std::string& passage : passages) {
    MAKAR_TRY(TypedTokens tokens, pairs.with(passage));
    jobs.push_back(std::make_shared<EncodeJob>(tokens.ids, tokens.types));
    texts.push_back(std::move(tokens));
  }
  for (const auto& job : jobs) engine_.submit(job);
  engine_.run();
  std::vector<double> out;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i]->error) return *jobs[i]->error;
    const auto logits = class_logits(language_.model(), device_, jobs[i]->states(), texts[i]);
    if (logits.empty() || logits.size() > 2)
      return error_of(Error::Kind::kUnsupported, "--rerank",
                      "a cross-encoder has one or two labels, this model has {}", logits.size());
    out.push_back(logits.size() == 1 ? static_cast<double>(logits[0])
                                     : static_cast<double>(logits[1]) - static_cast<double>(logits[0]));
  }
  return out;
}

Result<std::vector<double>> Reranker::likelihoods(const std::string& query,
                                                  const std::vector<std::string>& passages) {
  std::vector<ContextAndContinuation> texts;
  for (const std::string& passage : passages) texts.push_back({passage + "\nQuestion:", " " + query});
  std::vector<double> out;
  for (auto& score : loglikelihood(engine_, language_, texts)) {
    if (!score.ok()) return score.error();
    out.push_back(score->logprob / static_cast<double>(std::max<int64_t>(1, score->tokens)));
  }
  return out;
}

Result<std::vector<double>> Reranker::scores(const std::string& query,
                                             const std::vector<std::string>& passages) {
  return language_.spec().head.kind == HeadKind::kSequenceClass ? pair_scores(query, passages)
                                                                : likelihoods(query, passages);
}

void reorder_hits(std::vector<SearchHit>& hits, const std::vector<double>& scores, double weight) {
  if (scores.empty()) return;
  const auto scaled = [](double value, double low, double high) {
    return high > low ? (value - low) / (high - low) : 1;
  };
  const auto [low, high] = std::minmax_element(scores.begin(), scores.end());
  const double first_high = hits.front().score, first_low = hits[scores.size() - 1].score;
  for (size_t i = 0; i < scores.size(); ++i)
    hits[i].score = weight == 1 ? scores[i]
                                : weight * scaled(scores[i], *low, *high) +
                                      (1 - weight) * scaled(hits[i].score, first_low, first_high);
  std::stable_sort(hits.begin(), hits.begin() + static_cast<std::ptrdiff_t>(scores.size()),
                   [](const SearchHit& a, const SearchHit& b) { return a.score > b.score; });
  for (size_t i = scores.size(); i < hits.size(); ++i) hits[i].score = hits[i - 1].score - 1;
}

Status Reranker::rerank(const std::string& query, std::vector<SearchHit>& hits,
                        const RerankOptions& options) {
  std::vector<std::string> passages;
  for (size_t i = 0; i < std::min(hits.size(), options.top); ++i) passages.push_back(hits[i].chunk.text);
  MAKAR_TRY(const auto passage_scores, scores(query, passages));
  reorder_hits(hits, passage_scores, options.weight);
  return Done{};
}

}  // namespace makar
