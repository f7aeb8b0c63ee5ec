// A tokenizer as llama.cpp's files hold it: the values of tokenizer.ggml.*.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace makar {

struct GgufVocabulary {
  std::string model, pre;  // "llama", "gpt2", "bert", "t5"; how gpt2 kinds cut text
  std::vector<std::string> tokens, merges;
  std::vector<float> scores;   // llama and t5
  std::vector<int32_t> types;  // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  bool add_bos = false, add_eos = false;
  std::optional<uint32_t> bos, eos, unknown;  // as the template of special tokens and the model say
  std::optional<bool> add_space_prefix, remove_extra_whitespaces;
  std::string character_map;

  // Tokens without a text up to `size`; false when there are more tokens than that.
  bool pad_to(size_t size);
};

// kUnsupported for pipelines that llama.cpp has no name for.
Result<GgufVocabulary> gguf_vocabulary(const Tokenizer& tokenizer);

}  // namespace makar
