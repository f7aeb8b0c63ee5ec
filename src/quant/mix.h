// Mixes: which tensor of a model gets which type, by llama.cpp's rules, so that a file named Q4_K_M means the
// same here and there.
#pragma once
#include <string>
#include <vector>

#include "quant/gguf_model.h"

namespace makar {

// "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m",
// "q6_k"
const std::vector<std::string>& mix_names();

// Rows that are no whole super-blocks get the nearest type of small blocks; rows that are none of either,
// f16.
DType fitting(DType type, int64_t columns);

class Mix {
 public:
  // `name` in any case, also "q4_k" for "q4_k_m"; the error names the nearest.
  static Result<Mix> find(const std::string& name, const GgufModel& model);
  const std::string& name() const { return name_; }
  DType operator()(const GgufSource& tensor) const;

 private:
  DType wanted(const GgufSource& tensor) const;
  std::string name_;
  DType base_ = DType::kF32;
  bool more_ = false;  // the _m kinds: some tensors get more bits
  bool has_output_ = false, falcon_ = false;
  int64_t layers_ = 0, experts_ = 0;
};

}  // namespace makar
