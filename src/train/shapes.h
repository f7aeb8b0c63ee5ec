// Creates the config of a new model from a few numbers: config.json in transformers' format.
#pragma once
#include <string>

#include "base/json.h"

namespace makar {

struct ShapeOptions {
  std::string type = "gpt2";  // gpt2, llama, bert, t5, bart, rnn, lstm, gru, elmo
  int64_t layers = 4, width = 128, heads = 4, kv_heads = 0,
          ffn = 0;  // 0: kv_heads = heads, and the family's usual ffn ratio
  int64_t context = 256, vocab = 0;
  double dropout = 0.0;
  bool tied = true;
  bool next_sentence = false;  // bert: add a next-sentence prediction head
  // rnn, lstm, gru
  bool bidirectional = false, encoder_decoder = false;
  std::string attention = "general", local_attention = "none";  // of an encoder-decoder
};

// Does not set control tokens; set_special_ids (token_roles.h) adds those of a tokenizer.
Result<Json> shape_config(const ShapeOptions& options);

// Whether the type is a recurrent network.
bool is_recurrent(const std::string& type);

// Sets a GPT of `depth` layers, width 64 * depth, and heads of size 64.
void set_depth(ShapeOptions& options, int64_t depth);
// Compute-optimal number of training tokens (Hoffmann et al., 2022): 20 per parameter.
int64_t optimal_tokens(int64_t parameters);

}  // namespace makar
