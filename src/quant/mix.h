// Mixes: which tensor of a model gets which type, by llama.cpp's rules, so that Q4_K_M means the same as in
// llama.cpp.
#pragma once
#include <string>
#include <vector>

#include "formats/gguf_writer.h"

namespace makar {

// "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m",
// "q6_k", "q8_24"
const std::vector<std::string>& mix_names();

// Whether a tensor may be stored in fewer than 32 bits: matrices, except routers, positions and token types.
bool may_be_quantized(const GgufTensorSource& tensor);

// The type for rows of `columns` values: if that is not a multiple of the block size of `type`, the nearest
// type with blocks of 32; if it is not a multiple of 32 either, f16.
DType type_that_fits(DType type, int64_t columns);

class Mix {
 public:
  // `name` in upper or lower case; "q4_k" means "q4_k_m". The error names the nearest known mix.
  static Result<Mix> find(const std::string& name, const GgufFields& fields,
                          const std::vector<GgufTensorSource>& tensors);
  const std::string& name() const { return name_; }
  DType operator()(const GgufTensorSource& tensor) const;

 private:
  DType preferred_type(const GgufTensorSource& tensor) const;
  std::string name_;
  DType base_ = DType::kF32;
  bool more_ = false;  // the _m mixes: some tensors get more bits
  bool has_output_ = false, falcon_ = false;
  int64_t layers_ = 0, experts_ = 0;
};

}  // namespace makar
