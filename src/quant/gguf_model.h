// Any model as a GGUF file to be: its metadata and its tensors, each made when it is written. The source is a
// Hugging Face folder, a GGUF file, or a llama2.c checkpoint (.bin).
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"

namespace makar {

struct GgufModel {
  GgufFields fields;
  std::vector<GgufSource> tensors;
  std::vector<std::string> warnings;
};

struct OpenOptions {
  std::string tokenizer;  // a folder or file; "" takes what lies with the model
};

Result<GgufModel> open_as_gguf(const std::string& path, const OpenOptions& options = {});
// A llama2.c checkpoint with its tokenizer ("" for none) as an open GGUF file.
Result<Gguf::File> open_checkpoint(const std::string& path, const std::string& tokenizer);
bool is_checkpoint(const std::string& path);  // NAME.bin

// A weight for each column of a tensor, by the tensor's name.
using Importance = std::map<std::string, std::vector<float>>;

// The same tensors in other types: `type` chooses by what a tensor is; f32, f16, bf16 and block types alike
// are decoded first unless they have the type already. `pool` and `importance` must outlive the writing.
void retype(GgufModel& model, const std::function<DType(const GgufSource&)>& type, ThreadPool& pool,
            const Importance* importance = nullptr);

// "general.file_type" of a mix: "f16" is 1, "q4_k_m" 15; -1 for an unknown one.
int file_type(const std::string& mix);

}  // namespace makar
