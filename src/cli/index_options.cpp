#include "cli/index_options.h"

#include "cli/model_path.h"

namespace makar {

void declare_index(Options& options, std::string& index, std::string& collection) {
  options.group("Index");
  options.positional("INDEX", &index, "the index file, or a PostgreSQL address (postgresql://...)").required =
      true;
  options.add("--collection", &collection, "the collection in the index", "NAME");
}

Result<std::shared_ptr<EmbeddingModel>> EmbeddingModel::open(const std::string& model,
                                                             const std::string& device, int64_t threads) {
  auto out = std::make_shared<EmbeddingModel>();
  MAKAR_TRY(out->device_, open_device_option(device, threads));
  MAKAR_TRY(out->embedder_, Embedder::open(resolve_model(model), *out->device_));
  return out;
}

EmbedTexts EmbeddingModel::function(std::function<void(size_t)> progress) {
  constexpr size_t kBatchTexts = 64;
  return [this, progress](const std::vector<std::string>& texts) -> Result<std::vector<std::vector<float>>> {
    std::vector<std::vector<float>> out;
    for (size_t at = 0; at < texts.size(); at += kBatchTexts) {
      const std::vector<std::string> batch(
          texts.begin() + static_cast<std::ptrdiff_t>(at),
          texts.begin() + static_cast<std::ptrdiff_t>(std::min(at + kBatchTexts, texts.size())));
      MAKAR_TRY(const Tensor vectors, (*embedder_)(batch));
      for (int64_t i = 0; i < vectors.dim(0); ++i)
        out.emplace_back(vectors.f32() + i * vectors.dim(1), vectors.f32() + (i + 1) * vectors.dim(1));
      if (progress) progress(out.size());
    }
    return out;
  };
}

void SearchFlags::declare(Options& o, int64_t default_k, const char* model_flag) {
  k = default_k;
  o.group("Retrieval");
  o.add("-k --k", &k, "number of chunks to return", "N");
  o.add("--mode", &mode,
        "search mode: sparse, dense or hybrid; if not set, hybrid if the index has vectors, else sparse",
        "NAME");
  o.add("--where", &where, "search only documents with this value in their metadata; may be repeated",
        "KEY=VALUE");
  o.add("--sparse", &sparse, "scores of sparse search: bm25 (Lucene's form), bm25-robertson, tfidf or count",
        "NAME");
  o.add("--k1", &options.sparse.k1, "BM25: saturation of the term frequency", "X");
  o.add("--b", &options.sparse.b, "BM25: normalisation by the length of a chunk, 0 to 1", "X");
  o.add("--fusion", &fusion,
        "how hybrid search combines results: rrf (reciprocal ranks) or weighted (scores)", "NAME");
  o.add("--rrf-k", &options.rrf_k, "rrf: a chunk scores the sum of 1 / (X + rank) over the rankings", "X");
  o.add("--weight", &options.weight, "weighted: the share of the dense score, 0 to 1", "X");
  o.add("--candidates", &candidates, "number of chunks per ranking that are fused or reranked", "N");
  o.add("--ef", &options.ef, "number of candidates that a search in the HNSW graph keeps", "N");
  o.add("--exact", &options.exact, "compare with every vector even if the index has a graph");
  o.add("--rerank", &rerank, "a cross-encoder or decoder that reorders the candidates", "PATH");
  o.add("--rerank-top", &rerank_top,
        "rerank only the first N chunks, the others follow in their order; 0 for all candidates", "N");
  o.add("--rerank-weight", &reranking.weight,
        "share of the reranker's score, 0 to 1; the rest is the score of the search", "X");
  o.add(model_flag, &model, "model that embeds the queries; the collection's own if not set", "PATH");
}

Status SearchFlags::check() {
  const auto bounded = [](const char* flag, double value, double low, double high) -> Status {
    if (!(value >= low && value <= high))
      return error_at(flag, "must be from {} to {}, got {}", low, high, value);
    return Done{};
  };
  MAKAR_RETURN_IF_ERROR(bounded("--k", static_cast<double>(k), 1, 100000));
  MAKAR_RETURN_IF_ERROR(bounded("--candidates", static_cast<double>(candidates), 1, 100000));
  MAKAR_RETURN_IF_ERROR(bounded("--ef", static_cast<double>(options.ef), 1, 100000));
  MAKAR_RETURN_IF_ERROR(bounded("--k1", options.sparse.k1, 0, 1000));
  MAKAR_RETURN_IF_ERROR(bounded("--b", options.sparse.b, 0, 1));
  MAKAR_RETURN_IF_ERROR(bounded("--rrf-k", options.rrf_k, 0, 1e6));
  MAKAR_RETURN_IF_ERROR(bounded("--weight", options.weight, 0, 1));
  MAKAR_RETURN_IF_ERROR(bounded("--rerank-top", static_cast<double>(rerank_top), 0, 100000));
  MAKAR_RETURN_IF_ERROR(bounded("--rerank-weight", reranking.weight, 0, 1));
  if (rerank.empty() && (rerank_top > 0 || reranking.weight != 1))
    return error_at(rerank_top > 0 ? "--rerank-top" : "--rerank-weight", "has no effect without --rerank");
  reranking.top = static_cast<size_t>(rerank_top > 0 ? rerank_top : candidates);
  options.k = static_cast<size_t>(k), options.candidates = static_cast<size_t>(candidates);
  if (!mode.empty()) {
    MAKAR_TRY(options.mode, parse_search_mode(mode, "--mode"));
  }
  MAKAR_TRY(options.sparse.form, parse_sparse_form(sparse, "--sparse"));
  MAKAR_TRY(options.fusion, parse_fusion(fusion, "--fusion"));
  for (const std::string& one : where) {
    const size_t equals = one.find('=');
    if (equals == std::string::npos || equals == 0)
      return error_at("--where", "expected KEY=VALUE, got '{}'", one);
    options.filter.emplace_back(one.substr(0, equals), one.substr(equals + 1));
  }
  return Done{};
}

Result<std::unique_ptr<Searcher>> SearchFlags::open(const std::string& index, const std::string& collection,
                                                    const std::string& device, int64_t threads) {
  MAKAR_TRY(const IndexStore store, IndexStore::open(index, false));
  MAKAR_TRY(const CollectionInfo info, store.collection(collection));
  if (mode.empty()) options.mode = info.settings.model.empty() ? SearchMode::kSparse : SearchMode::kHybrid;
  EmbedTexts embed;
  if (options.mode != SearchMode::kSparse && !info.settings.model.empty()) {
    const std::string& default_model =
        info.settings.query_model.empty() ? info.settings.model : info.settings.query_model;
    MAKAR_TRY(const auto opened,
              EmbeddingModel::open(model.empty() ? default_model : model, device, threads));
    embed = [opened, f = opened->function()](const std::vector<std::string>& texts) { return f(texts); };
  }
  return Searcher::open(index, collection, options, std::move(embed));
}

}  // namespace makar
