// A new tokenizer from the texts of datasets: characters, or byte-level BPE.
#pragma once
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "text/tokenizer.h"

namespace makar {

struct NewTokenizer {
  std::string kind = "bpe";  // char, bpe, wordpiece or unigram
  int64_t vocab_size = 8192;
  std::vector<std::string> special;
  std::string scratch;  // a folder for the texts while they are counted
};

Result<Json> train_tokenizer_on(const std::vector<std::string>& paths, const NewTokenizer& wanted,
                                ThreadPool& pool);

}  // namespace makar
