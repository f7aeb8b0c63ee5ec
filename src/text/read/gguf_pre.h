// The pre-tokenizers of llama.cpp's `tokenizer.ggml.pre` kinds.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

struct GgufPre {
  Json pre_tokenizer;
  bool ignore_merges = false;
};
// kUnsupported for an unknown kind.
Result<GgufPre> gguf_pre(const std::string& kind);
// One name per kind, the most common first.
std::vector<std::string> gguf_pre_kinds();

}  // namespace makar
