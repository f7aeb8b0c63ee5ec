// The backward pass of norms on gradients in f32 or bf16.
#pragma once
#include "base/thread_pool.h"
#include "kernels/device.h"

namespace makar::kernels {

// `dy_bf16`, if it is not null, replaces a.dy.
void norm_backward_rows(ThreadPool& pool, const NormBackward& a, const Bf16* dy_bf16);

}  // namespace makar::kernels
