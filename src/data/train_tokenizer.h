// Trains a new tokenizer on the texts of datasets.
#pragma once
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "data/record_reader.h"
#include "text/tokenizer.h"

namespace makar {

struct NewTokenizer {
  std::string kind = "bpe";  // char, bpe, wordpiece or unigram
  int64_t vocab_size = 8192;
  std::vector<std::string> special;
  // Folder for the extracted texts during training; find_tokenizer() keeps its result there.
  std::string folder;
  // Not empty: find_tokenizer() adds a post-processor that puts this token after every text.
  std::string end_token = "";
};

Result<Json> train_tokenizer_on(const std::vector<DataPath>& paths, const NewTokenizer& new_tokenizer,
                                ThreadPool& pool);

}  // namespace makar
