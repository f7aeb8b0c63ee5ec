#include "retrieval/rerank.h"

#include <algorithm>
#include <numeric>

#include "infer/read_job.h"
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
  return std::unique_ptr<Reranker>(
      new Reranker(std::move(language), device, pairs ? Embedder::engine_options() : EngineOptions()));
}

Result<std::vector<double>> Reranker::pair_scores(const std::string& query,
                                                  const std::vector<std::string>& passages) {
  MAKAR_TRY(const ClassifierPairs pairs, ClassifierPairs::of(language_, query));
  std::vector<TypedTokens> texts;
  std::vector<std::shared_ptr<ReadJob>> jobs;
  for (const std::string& passage : passages) {
    MAKAR_TRY(TypedTokens tokens, pairs.with(passage));
    jobs.push_back(std::make_shared<ReadJob>(tokens.ids, tokens.types));
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

Status Reranker::rerank(const std::string& query, std::vector<SearchHit>& hits) {
  std::vector<std::string> passages;
  for (const SearchHit& hit : hits) passages.push_back(hit.chunk.text);
  MAKAR_TRY(const auto found, scores(query, passages));
  for (size_t i = 0; i < hits.size(); ++i) hits[i].score = found[i];
  std::stable_sort(hits.begin(), hits.end(),
                   [](const SearchHit& a, const SearchHit& b) { return a.score > b.score; });
  return Done{};
}

}  // namespace makar
