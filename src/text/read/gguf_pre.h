// How llama.cpp's `tokenizer.ggml.pre` kinds cut text.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

struct GgufPre {
  Json pre_tokenizer;
  bool ignore_merges = false;
};
// kUnsupported for a kind that is not known.
Result<GgufPre> gguf_pre(const std::string& kind);
// One name of every kind, the most usual first.
std::vector<std::string> gguf_pre_kinds();

}  // namespace makar
