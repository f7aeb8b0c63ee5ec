// The values that weights have after quantization: what `makar quantize --type` stores, in f32.
#pragma once
#include <functional>
#include <string>

#include "base/thread_pool.h"
#include "models/model.h"

namespace makar {

// "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k_s", "q5_k_s", "q6_k": mixes with one type for all matrices of
// the layers. The error names the nearest known one.
Result<DType> rounding_type(const std::string& name);

// A function that encodes the current value of a parameter as `type` and decodes it. The output matrix gets
// Q6_K instead of a smaller type, as in the mix. Returns an undefined tensor for parameters that are stored
// exactly: vectors, routers, positions. `model` and `pool` must outlive the function.
std::function<Tensor(const Parameter&)> rounding_of(Model& model, DType type, ThreadPool& pool);

}  // namespace makar
