// Kernels on bf16 activations with one warp per row.
#pragma once
#include <type_traits>

#include "kernels/cuda/bf16.cuh"

namespace makar::kernels::cuda {

constexpr int kWarps = 8;

// Runs body(row, lane) on a warp for every row.
template <class F>
__global__ void warp_rows_kernel(int64_t rows, F body) {
  let_next_kernel_start();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row < rows) body(row, static_cast<int>(threadIdx.x % 32));
}
template <class F>
void each_warp_row(cudaStream_t stream, int64_t rows, F body) {
  if (rows <= 0) return;
  launch(stream, static_cast<unsigned>((rows + kWarps - 1) / kWarps), 32 * kWarps, 0, warp_rows_kernel<F>, rows, body);
}

// Calls body(column, left) for the groups of eight columns of a lane.
template <class F>
__device__ inline void each_group(int lane, int64_t cols, F&& body) {
  for (int64_t c = lane * 8; c < cols; c += 256) body(c, cols - c);
}

constexpr int64_t kShortRow = 1024;  // longest row that is kept in registers
// Calls body with a constant number of parts of 256 values.
template <class F>
void with_parts(int64_t cols, F&& body) {
  switch ((cols + 255) / 256) {
    case 1:
      return body(std::integral_constant<int, 1>());
    case 2:
      return body(std::integral_constant<int, 2>());
    case 3:
      return body(std::integral_constant<int, 3>());
    default:
      return body(std::integral_constant<int, 4>());
  }
}

}  // namespace makar::kernels::cuda
