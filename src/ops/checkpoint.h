// Activation checkpointing: run without a tape, keep the inputs only, run again when gradients are asked for.
#pragma once
#include <functional>
#include <vector>

#include "ops/context.h"

namespace makar::ops {

// body is called once now and once more in the backward pass; it must be a pure function of its inputs, the
// parameters and ctx (dropout draws are: they depend on ctx's counters, which are restored).
Tensor checkpoint(Context& ctx, const std::vector<Tensor>& inputs,
                  const std::function<Tensor(Context&, const std::vector<Tensor>&)>& body);

}  // namespace makar::ops
