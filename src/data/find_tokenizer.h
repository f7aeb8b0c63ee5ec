// The tokenizer of a pretraining run: an existing one, or one trained on the run's datasets.
#pragma once
#include "data/train_tokenizer.h"

namespace makar {

struct FoundTokenizer {
  Tokenizer tokenizer;
  std::string folder;    // the folder with its other files; empty if it has none
  bool trained = false;  // trained by this call
};

// The tokenizer at `path`, or if that is empty: the tokenizer of prepared data, or one trained as
// `new_tokenizer` says and stored in new_tokenizer.folder. Calls with the same files and settings train once.
Result<FoundTokenizer> find_tokenizer(const std::string& path, const std::vector<std::string>& datasets,
                                      const NewTokenizer& new_tokenizer, ThreadPool& pool);

}  // namespace makar
