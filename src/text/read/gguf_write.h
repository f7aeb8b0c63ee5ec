// A tokenizer in the form of llama.cpp's files: the values of tokenizer.ggml.*.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace makar {

struct GgufVocabulary {
  std::string model, pre;  // "llama", "gpt2", "bert", "t5"; the pre-tokenizer of gpt2 kinds
  std::vector<std::string> tokens, merges;
  std::vector<float> scores;   // llama and t5
  std::vector<int32_t> types;  // SentencePieceModel::Type
  bool add_bos = false, add_eos = false;
  std::optional<uint32_t> bos, eos, unknown;  // from the template of special tokens and the model
  std::optional<bool> add_space_prefix, remove_extra_whitespaces;
  std::string character_map;

  // Gives ids without a token the text [PADn], and adds such tokens up to `size`. False if there are more
  // tokens already.
  bool pad_to(size_t size);
};

// kUnsupported for pipelines that llama.cpp has no name for.
Result<GgufVocabulary> gguf_vocabulary(const Tokenizer& tokenizer);
// The tokens alone (model "none"), for a file that stores the pipeline as tokenizer.huggingface.json.
GgufVocabulary gguf_tokens_only(const Tokenizer& tokenizer);

}  // namespace makar
