// Options that the tokenizer commands share: which tokenizer, which inputs, special tokens.
#pragma once
#include <string>
#include <vector>

#include "base/options.h"
#include "text/tokenizer.h"

namespace makar {

struct TokenizerOptions {
  std::string model;               // -m
  std::vector<std::string> words;  // the tokenizer, unless -m gives it, then files
  bool special = false, parse_special = false, forbid_special = false;

  void declare(Options& options);
  void declare_special(Options& options);
  Status resolve();  // removes the tokenizer from the arguments
  EncodeOptions encode_options() const;
};

}  // namespace makar
