// Token ids of a corpus on disk, memory-mapped. NAME-00000.tokens holds the concatenated ids of all documents
// (16 or 32 bits each, little-endian), NAME-00000.index the end of each document (64 bits), NAME-00000.mask
// one byte per token if the loss covers only some of them. manifest.json lists the shards with their hashes
// and sources.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_writer.h"
#include "base/json.h"

namespace makar {

class MappedFile;

// Writes the shards of one split. `ids_32bit`: ids have 32 bits instead of 16. A document is ids and, if the
// writer is `masked`, one mask byte per id.
class TokenWriter {
 public:
  static constexpr uint64_t kShardTokens = uint64_t{1} << 28;
  TokenWriter(std::string folder, std::string split, bool ids_32bit, bool masked)
      : folder_(std::move(folder)), split_(std::move(split)), ids_32bit_(ids_32bit), masked_(masked) {}
  // Appends to the current document; `ends` closes it.
  Status add(std::span<const uint32_t> ids, bool ends, std::span<const uint8_t> mask = {});
  // Closes the last shard; returns the list of shards for the manifest.
  Result<Json> finish();
  uint64_t tokens() const { return tokens_; }
  uint64_t documents() const { return documents_; }

 private:
  Status open();
  Status close();
  std::string folder_, split_;
  bool ids_32bit_, masked_;
  std::optional<FileWriter> ids_, index_, mask_;
  uint64_t shard_tokens_ = 0, shard_documents_ = 0, tokens_ = 0, documents_ = 0;
  Json shards_ = Json::array();
};

// A half-open range of tokens.
struct TokenRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

class TokenStore {
 public:
  // `split` is "train" or "validation". A split may be a token range of another store.
  static Result<TokenStore> open(const std::string& folder, const std::string& split);
  static bool has(const std::string& folder, const std::string& split);
  // Documents in memory, for small datasets and tests. Without masks the loss covers all tokens.
  static TokenStore from_memory(const std::vector<std::vector<uint32_t>>& documents,
                                const std::vector<std::vector<uint8_t>>& masks = {});

  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return static_cast<int64_t>(ends_.size()); }
  TokenRange document(int64_t d) const {
    return {d == 0 ? 0 : ends_[static_cast<size_t>(d - 1)], ends_[static_cast<size_t>(d)]};
  }
  // The parts of documents in [begin, end), one range per document.
  std::vector<TokenRange> document_ranges(int64_t begin, int64_t end) const;
  std::vector<int64_t> read(TokenRange range) const;
  std::vector<uint8_t> mask(TokenRange range) const;  // all 1 if there is no mask
  bool masked() const;
  int64_t vocab() const { return vocab_; }  // all ids are smaller

 private:
  struct Shard {
    std::shared_ptr<const MappedFile> ids, mask;
    std::vector<uint32_t> memory_ids;  // of from_memory(), instead of the files
    std::vector<uint8_t> memory_mask;
    bool ids_32bit = false;
    int64_t begin = 0, tokens = 0;
  };
  void trim(int64_t begin, int64_t end);
  std::vector<Shard> shards_;
  std::vector<int64_t> ends_;  // document ends, across all shards
  int64_t tokens_ = 0, offset_ = 0, vocab_ = 0;
};

}  // namespace makar
