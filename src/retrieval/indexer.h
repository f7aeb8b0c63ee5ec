// Adds documents to a collection: chunks, terms and vectors, in transactions of many documents.
#pragma once
#include <functional>
#include <memory>

#include "retrieval/store.h"

namespace makar {

// One vector per text.
using EmbedTexts = std::function<Result<std::vector<std::vector<float>>>(const std::vector<std::string>&)>;

struct IndexerOptions {
  int64_t commit_documents = 256;         // documents per transaction
  size_t commit_bytes = size_t{8} << 20;  // or bytes of text
  EmbedTexts embed;                       // required if the collection has a model
  // Called after each transaction with the names of its documents.
  std::function<void(const std::vector<std::string>&)> on_commit;
};

struct IndexCounts {
  int64_t added = 0, updated = 0, unchanged = 0, removed = 0, chunks = 0;
};

class VectorGraph;

class Indexer {
 public:
  // The store must outlive it.
  static Result<Indexer> open(IndexStore& store, const CollectionInfo& collection, IndexerOptions options);

  Indexer(Indexer&&) noexcept;
  ~Indexer();

  // Adds a document, or replaces the one with its name; an unchanged document is skipped. It is stored by the
  // next commit.
  Status add(SourceDocument document);
  Status commit();
  // Removes documents by name, in a transaction. An unknown name is an error, and nothing is removed.
  Status remove(const std::vector<std::string>& names);
  const IndexCounts& counts() const { return counts_; }

 private:
  Indexer(IndexStore& store, CollectionInfo collection, IndexerOptions options, Analyzer analyzer);
  Result<PreparedDocument> prepare(SourceDocument document) const;
  Status embed_pending();
  // Reads the graph if it is not read yet or another process has changed the file. Called inside the
  // transaction of a change.
  Status read_graph();

  IndexStore& store_;
  CollectionInfo collection_;
  IndexerOptions options_;
  Analyzer analyzer_;
  std::optional<Tokenizer> tokenizer_;
  std::unique_ptr<VectorGraph> graph_;
  int64_t file_version_ = -1;  // data_version when graph_ was read; changes when another process commits
  std::vector<PreparedDocument> pending_;  // stored by the next commit
  size_t pending_bytes_ = 0;
  int64_t width_ = 0;
  IndexCounts counts_;
};

// The stored hash of a document: title, metadata and text.
std::string document_hash(const SourceDocument& document);

}  // namespace makar
