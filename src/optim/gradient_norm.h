// The norm of all gradients together, and clipping by it.
#pragma once
#include "base/thread_pool.h"
#include "nn/parameter.h"

namespace makar {

// L2 over the gradients of all trainable parameters, summed in fixed chunks in the order of the set, in
// double: the same bits for any number of threads.
double gradient_norm(ThreadPool& pool, const ParameterSet& parameters);

// The factor that brings a gradient of this norm to `most` (PyTorch's clip_grad_norm_); 1 when it is small
// enough or `most` is 0. Hand it to Optimizer::step: gradients are scaled as they are read.
double clip_factor(double norm, double most);

}  // namespace makar
