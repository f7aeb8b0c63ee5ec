// Activation checkpointing: runs without a tape, keeps only the inputs, and recomputes in the backward pass.
#pragma once
#include <functional>
#include <vector>

#include "ops/context.h"

namespace makar::ops {

// `body` runs once now and once in the backward pass; it must be a pure function of its inputs, the
// parameters and ctx. Dropout is such a function: it depends on ctx's counters, which are restored.
Tensor checkpoint(Context& ctx, const std::vector<Tensor>& inputs,
                  const std::function<Tensor(Context&, const std::vector<Tensor>&)>& body);

}  // namespace makar::ops
