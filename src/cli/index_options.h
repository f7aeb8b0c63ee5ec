// Options shared by the commands that use an index: the file, the collection, the embedding model, the
// search.
#pragma once
#include <memory>
#include <string>

#include "base/options.h"
#include "cli/model_options.h"
#include "llm/embed.h"
#include "retrieval/rerank.h"
#include "retrieval/searcher.h"

namespace makar {

constexpr const char* kDefaultCollection = "default";

// "INDEX" and "--collection".
void declare_index(Options& options, std::string& index, std::string& collection);

// A model that embeds texts, with its device.
class EmbeddingModel {
 public:
  static Result<std::shared_ptr<EmbeddingModel>> open(const std::string& model, const std::string& device,
                                                      int64_t threads);
  // Returns a function that embeds texts, valid as long as this object. It calls `progress` with the number
  // of texts embedded so far.
  EmbedTexts function(std::function<void(size_t)> progress = {});
  const Embedder& embedder() const { return *embedder_; }

 private:
  std::unique_ptr<Device> device_;
  std::shared_ptr<Embedder> embedder_;
};

// Options of the search, for makar search, makar ask, the search tool of makar agent and the collections of
// makar serve.
struct SearchFlags {
  SearchOptions options;
  std::string mode, sparse = "bm25", fusion = "rrf";
  std::vector<std::string> where;
  int64_t k = 10, candidates = 100, rerank_top = 0;
  std::string rerank;  // path of the reranker
  RerankOptions reranking;
  std::string model;  // embeds the queries; empty: the collection's own model
  void declare(Options& options, int64_t default_k, const char* model_flag);
  // Parses names and checks bounds. Errors are bad usage.
  Status check();
  // Without --mode: hybrid if the collection has vectors, else sparse. Loads the model if it is needed.
  Result<std::unique_ptr<Searcher>> open(const std::string& index, const std::string& collection,
                                         const std::string& device, int64_t threads);
};

}  // namespace makar
