// The end of a decoding step: the token with the largest logit, and the inputs of the next step.
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/cuda_device.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int kArgMaxThreads = 1024;

struct Largest {
  float value;
  int64_t at;
};
// The larger value; of equal ones, the first.
__device__ inline Largest larger(const Largest& a, const Largest& b) {
  return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

// One block per row.
template <class T>
__global__ void __launch_bounds__(kArgMaxThreads) arg_max_kernel(const T* logits, int64_t* y, int64_t cols, bool vector) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const T* x = logits + blockIdx.x * cols;
  Largest best{-INFINITY, INT64_MAX};
  bool broken = false;
  float v[8];
  for (int64_t c = threadIdx.x * 8; c < cols; c += kArgMaxThreads * 8) {
    const int64_t left = cols - c;
    load8(x + c, left, vector, v);
    for (int j = 0; j < 8; ++j) {
      if (j >= left) continue;
      broken = broken || !(v[j] < INFINITY);
      if (v[j] > best.value) best = {v[j], c + j};
    }
  }
  for (int width = 16; width > 0; width /= 2)
    best = larger(best, {__shfl_xor_sync(0xFFFFFFFFu, best.value, width), __shfl_xor_sync(0xFFFFFFFFu, best.at, width)});
  __shared__ Largest warps[kArgMaxThreads / 32];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = best;
  broken = __syncthreads_or(broken);
  if (threadIdx.x >= 32) return;
  best = warps[threadIdx.x];
  for (int width = 16; width > 0; width /= 2)
    best = larger(best, {__shfl_xor_sync(0xFFFFFFFFu, best.value, width), __shfl_xor_sync(0xFFFFFFFFu, best.at, width)});
  if (threadIdx.x == 0) y[blockIdx.x] = broken || best.value == -INFINITY ? -1 : best.at;
}

__global__ void advance_rows_kernel(AdvanceRows a) {
  wait_for_previous_kernel();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.count) return;
  SequenceRows& s = a.sequences[i];
  const int64_t chosen = a.chosen[i];
  a.tokens[i] = s.q_rows > 0 && chosen > 0 ? chosen : 0;
  if (s.q_rows > 0) ++a.positions[i], ++s.past, ++s.kv_rows;
}

}  // namespace

void CudaDevice::arg_max(const ArgMax& a) {
  if (a.rows <= 0) return;
  const bool vector = aligned(a.x) && a.cols % 8 == 0;
  const dim3 grid(static_cast<unsigned>(a.rows));
  if (a.type == DType::kF32)
    launch_early(stream_, grid, kArgMaxThreads, 0, arg_max_kernel<float>, static_cast<const float*>(a.x), a.y, a.cols, vector);
  else
    launch_early(stream_, grid, kArgMaxThreads, 0, arg_max_kernel<Bf16>, static_cast<const Bf16*>(a.x), a.y, a.cols, vector);
}

void CudaDevice::advance_rows(const AdvanceRows& a) {
  if (a.count <= 0) return;
  launch_early(stream_, dim3(static_cast<unsigned>((a.count + 127) / 128)), 128, 0, advance_rows_kernel, a);
}

}  // namespace makar
