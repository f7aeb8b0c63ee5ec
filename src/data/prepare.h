// Text to token shards: read, tokenise, split into training and validation, write with a manifest.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "data/record_reader.h"
#include "data/schema.h"
#include "data/token_store.h"
#include "text/tokenizer.h"

namespace makar {

struct PrepareOptions {
  std::vector<std::string> paths;
  std::string folder;              // written to
  double validation = 0.0;         // share of documents, or of tokens at the end
  bool validation_at_end = false;  // the last part of the tokens instead of a hash of each document
  int64_t end_of_document = -1;    // an id put after each document; -1: none
  uint64_t seed = 0;               // of the split by hash
  std::function<void(uint64_t documents, uint64_t tokens)> progress;
};

struct Prepared {
  uint64_t documents = 0, tokens = 0, validation_documents = 0, validation_tokens = 0, bytes = 0;
  BadRecords bad;
  std::string schema;  // as it was found
};

// Records of any schema that holds text: {"text"} and its kin as they are, other records as their texts, one
// after another. The tokenizer is written beside the shards.
Result<Prepared> prepare_tokens(const Tokenizer& tokenizer, ThreadPool& pool, const PrepareOptions& options);

// True for the validation part, by the content alone.
bool in_validation(std::string_view document, double share, uint64_t seed);

}  // namespace makar
