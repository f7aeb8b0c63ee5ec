// Configurations of new models from a few numbers: config.json as transformers writes it.
#pragma once
#include <string>

#include "base/json.h"

namespace makar {

struct ShapeOptions {
  std::string type = "gpt2";  // gpt2, llama, bert, t5, bart
  int64_t layers = 4, width = 128, heads = 4, kv_heads = 0,
          ffn = 0;  // 0: as many, and the family's usual ratio
  int64_t context = 256, vocab = 0;
  double dropout = 0.0;
  bool tied = true;
  bool next_sentence = false;  // bert: a second head, for whether one text follows another
  int64_t bos = -1, eos = -1, pad = -1;
};

Result<Json> shape_config(const ShapeOptions& options);

// One dial for a sensible GPT: `depth` layers, 64 times as wide, heads of 64.
void set_depth(ShapeOptions& options, int64_t depth);
// Tokens by the compute-optimal rule (Hoffmann et al., 2022): 20 for each parameter.
int64_t optimal_tokens(int64_t parameters);

}  // namespace makar
