// Any model in the form of a GGUF file: metadata and tensors, each computed when it is written. The source is
// a Hugging Face folder, a GGUF file or a llama2.c checkpoint (.bin).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "quant/calibration.h"

namespace makar {

struct GgufModel {
  GgufFields fields;
  std::vector<GgufTensorSource> tensors;
  std::vector<std::string> warnings;
};

struct OpenOptions {
  std::string tokenizer;  // a folder or file; "" uses the tokenizer next to the model
};

Result<GgufModel> open_as_gguf(const std::string& path, const OpenOptions& options = {});
// Opens a llama2.c checkpoint with its tokenizer ("" for none) as a GGUF file.
Result<Gguf::File> open_checkpoint(const std::string& path, const std::string& tokenizer);
bool is_checkpoint(const std::string& path);  // NAME.bin

// Changes the types of the tensors; `type` chooses one per tensor. A tensor of another type is dequantized to
// f32 and encoded. A calibration weights the errors; where it has x^T x, block types are rounded by
// encode_gptq. `pool` and `calibration` must live until the file is written.
void retype(GgufModel& model, const std::function<DType(const GgufTensorSource&)>& type, ThreadPool& pool,
            const Calibration* calibration = nullptr);

// "general.file_type" of a mix: "f16" is 1, "q4_k_m" 15; -1 for an unknown mix.
int file_type(const std::string& mix);

}  // namespace makar
