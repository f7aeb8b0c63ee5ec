// The global norm of all gradients, and clipping by it.
#pragma once
#include <span>

#include "kernels/device.h"
#include "nn/parameter.h"

namespace makar {

// L2 norm over the gradients of all trainable parameters, summed in double over fixed chunks in parameter
// order: the same bits for any number of threads.
double gradient_norm(Device& device, const ParameterSet& parameters);
// The norm of these gradients.
double gradient_norm(Device& device, std::span<const Tensor> gradients);

// The factor that reduces a gradient of this norm to `max` (PyTorch's clip_grad_norm_); 1 when the norm is
// smaller or `max` is 0. Pass it to Optimizer::step, which scales gradients as it reads them.
double clip_factor(double norm, double max);

}  // namespace makar
