// Kernel launches: one thread per element, 16 lanes per row, or a single thread. Row sums follow
// kernels/cpu/isa/math.h lane by lane, so f32 results are bit-identical to the CPU.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "base/failure.h"
#include "kernels/cpu/isa/math.h"
#include "kernels/cuda/instructions.cuh"

namespace makar {

// Throws DeviceFailure if a CUDA call failed: the device is lost, or a kernel has a bug.
inline void cuda_check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw DeviceFailure(std::string("the GPU failed: ") + what + ": " + cudaGetErrorString(status));
}

namespace kernels::cuda {

constexpr int kThreads = 256;
constexpr int kMultiprocessors = 132;  // of an H100 or H200
constexpr int kMaxBlocks = kMultiprocessors * 32;
constexpr int kRowsPerBlock = 8;

inline int blocks_for(int64_t items, int64_t per_block) {
  return static_cast<int>(std::clamp<int64_t>((items + per_block - 1) / per_block, 1, kMaxBlocks));
}

template <class... Parameters, class... Arguments>
void launch_with(cudaLaunchConfig_t config, cudaStream_t stream, dim3 grid, dim3 threads, size_t shared, void (*kernel)(Parameters...),
                 const Arguments&... arguments) {
  config.gridDim = grid, config.blockDim = threads, config.dynamicSmemBytes = shared, config.stream = stream;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (status != cudaSuccess) cudaGetLastError();  // calls of libraries would report it again
  cuda_check(status, "kernel launch");
}
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, dim3 grid, dim3 threads, size_t shared, void (*kernel)(Parameters...), const Arguments&... arguments) {
  launch_with({}, stream, grid, threads, shared, kernel, arguments...);
}
// Programmatic dependent launch: a kernel launched with launch_early() may start when all blocks of the previous kernel have called
// let_next_kernel_start() or ended. It must call wait_for_previous_kernel() before it writes anything, and before
// it reads what that kernel writes, or any kernel back to the last one that was launched plainly, that one included.
template <class... Parameters, class... Arguments>
void launch_early(cudaStream_t stream, dim3 grid, dim3 threads, size_t shared, void (*kernel)(Parameters...),
                  const Arguments&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.attrs = &early, config.numAttrs = 1;
  launch_with(config, stream, grid, threads, shared, kernel, arguments...);
}

template <class F>
__global__ void each_kernel(int64_t n, F body) {
  let_next_kernel_start();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) body(i);
}
// Runs body(i) for every i < n, in any order.
template <class F>
void each(cudaStream_t stream, int64_t n, F body) {
  if (n <= 0) return;
  launch(stream, blocks_for(n, kThreads), kThreads, 0, each_kernel<F>, n, body);
}

// A list of arguments that fits into a kernel's parameters.
template <class T>
struct Several {
  static constexpr int64_t kMax = 40;
  T items[kMax];
};
// Calls run(part, count, largest n) for parts of the list.
template <class T, class F>
void in_parts(const T* list, int64_t count, F run) {
  for (int64_t i = 0; i < count; i += Several<T>::kMax) {
    Several<T> part{};
    const int64_t n = std::min(count - i, Several<T>::kMax);
    std::copy_n(list + i, n, part.items);
    int64_t largest = 0;
    for (int64_t j = 0; j < n; ++j) largest = std::max(largest, part.items[j].n);
    if (largest > 0) run(part, static_cast<unsigned>(n), largest);
  }
}
template <class F>
__global__ void once_kernel(F body) {
  body();
}
// Runs body() on one thread: for sums with a sequential order.
template <class F>
void once(cudaStream_t stream, F body) {
  launch(stream, 1, 1, 0, once_kernel<F>, body);
}

// The 16 threads of a row; each is the lane of the same number in math.h.
struct RowLanes {
  int lane;
  unsigned mask;

  __device__ float fold(float value) const {
    for (int width = kLanes / 2; width > 0; width /= 2) value += __shfl_down_sync(mask, value, width, kLanes);
    return __shfl_sync(mask, value, 0, kLanes);
  }
  template <class F>
  __device__ float sum_of(int64_t n, F&& term) const {
    float sum = 0;
    for (int64_t i = lane; i < n; i += kLanes) sum += term(i);
    return fold(sum);
  }
  template <class A, class B>
  __device__ float dot_of(int64_t n, A&& a, B&& b) const {
    float sum = 0;
    for (int64_t i = lane; i < n; i += kLanes) sum = madd(a(i), b(i), sum);
    return fold(sum);
  }
  __device__ float max_of(const float* x, int64_t n) const {
    float top = -INFINITY;
    for (int64_t i = lane; i < n; i += kLanes) top = x[i] > top ? x[i] : top;
    for (int width = kLanes / 2; width > 0; width /= 2) {
      const float other = __shfl_xor_sync(mask, top, width, kLanes);
      top = other > top ? other : top;
    }
    return top;
  }
  template <class F>
  __device__ void each(int64_t n, F&& body) const {
    for (int64_t i = lane; i < n; i += kLanes) body(i);
  }
  __device__ void sync() const { __syncwarp(mask); }
};

// `lanes`: RowLanes or BlockLanes.
template <class Lanes>
__device__ float log_sum_exp(const Lanes& lanes, const float* x, int64_t n) {
  const float m = lanes.max_of(x, n);
  return m + log_of(lanes.sum_of(n, [=](int64_t i) { return exp_of(x[i] - m); }));
}

// Runs body(row, lanes) for the rows of this block.
template <class F>
__device__ inline void each_row_of_block(int64_t rows, F&& body) {
  const RowLanes lanes{static_cast<int>(threadIdx.x % kLanes),
                       threadIdx.x % 32 < kLanes ? 0x0000FFFFu : 0xFFFF0000u};
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kRowsPerBlock;
  for (int64_t r = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kLanes; r < rows;
       r += stride)
    body(r, lanes);
}
template <class F>
__global__ void rows_kernel(int64_t rows, F body) {
  each_row_of_block(rows, body);
}
// Runs body(row, lanes) for every row.
template <class F>
void each_row(cudaStream_t stream, int64_t rows, F body) {
  if (rows <= 0) return;
  launch(stream, blocks_for(rows, kRowsPerBlock), kRowsPerBlock * kLanes, 0, rows_kernel<F>, rows, body);
}

}  // namespace kernels::cuda
}  // namespace makar
