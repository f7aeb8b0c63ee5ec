// Converts text to token shards: reads, tokenizes, splits into training and validation, writes shards and a
// manifest.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "data/record_reader.h"
#include "data/schema.h"
#include "data/token_store.h"
#include "text/tokenizer.h"

namespace makar {

struct PrepareOptions {
  std::vector<DataPath> paths;
  std::string folder;              // output folder
  double validation = 0.0;         // share of documents, or of tokens if validation_at_end
  bool validation_at_end = false;  // split off the last tokens instead of hashing each document
  int64_t end_of_document = -1;    // id appended to each document; -1: none
  uint64_t seed = 0;               // seed of the hash split
  std::function<void(uint64_t documents, uint64_t tokens)> progress;
};

struct Prepared {
  uint64_t documents = 0, tokens = 0, validation_documents = 0, validation_tokens = 0, bytes = 0;
  BadRecords bad;
  std::string schema;         // of the first record
  bool split_at_end = false;  // the split by hash left one part empty: the last tokens are for validation
};

// Reads records of any schema that contains text: {"text"} and similar fields directly, other records as
// their texts concatenated. Writes the tokenizer next to the shards. If the hash puts all documents into one
// part, splits off the last tokens instead.
Result<Prepared> prepare_tokens(const Tokenizer& tokenizer, ThreadPool& pool, const PrepareOptions& options);

// Whether a document belongs to validation; depends only on its content, the share and the seed.
bool in_validation(std::string_view document, double share, uint64_t seed);

// Selects validation examples while reading: a share by content hash, or all from a given index on.
class ValidationSplit {
 public:
  explicit ValidationSplit(double share, uint64_t first_selected = kNever)
      : share_(share), first_selected_(first_selected) {}
  bool selects(std::string_view content);
  // If no example was selected, or all were: a split that selects the last ones. nullopt if no validation is
  // requested or there is only one example.
  std::optional<ValidationSplit> tail() const;

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};
  double share_;
  uint64_t first_selected_, seen_ = 0, selected_ = 0;
};

}  // namespace makar
