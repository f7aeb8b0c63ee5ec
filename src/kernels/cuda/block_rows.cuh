// Wide rows: a block per row instead of 16 threads, with the same order of sums and so the same bits. All
// threads compute the terms of a tile, the first 16 add them.
#pragma once
#include "kernels/cuda/launch.cuh"

namespace makar::kernels::cuda {

constexpr int kRowThreads = 256,
              kRowTile = 2048;  // each thread has the terms i of a tile with i % kRowThreads == its number
constexpr int64_t kWideRow = 1024;  // rows of at least this many columns get a block

// The threads of a block that share a row; the functions are those of RowLanes.
struct BlockLanes {
  int lane;     // 0 to kRowThreads - 1
  float* tile;  // shared memory: 2 * kRowTile values

  template <class F>
  __device__ float sum_of(int64_t n, F&& term) const {
    return in_order(
        n, [&](int64_t i, int64_t at) { tile[at] = term(i); },
        [&](int64_t at, float sum) { return sum + tile[at]; });
  }
  template <class A, class B>
  __device__ float dot_of(int64_t n, A&& a, B&& b) const {
    return in_order(
        n, [&](int64_t i, int64_t at) { tile[at] = a(i), tile[kRowTile + at] = b(i); },
        [&](int64_t at, float sum) { return madd(tile[at], tile[kRowTile + at], sum); });
  }
  __device__ float max_of(const float* x, int64_t n) const {
    float top = -INFINITY;
    for (int64_t i = lane; i < n; i += kRowThreads) top = x[i] > top ? x[i] : top;
    sync();
    tile[lane] = top;
    for (int width = kRowThreads / 2; width > 0; width /= 2) {
      sync();
      if (lane < width && tile[lane + width] > tile[lane]) tile[lane] = tile[lane + width];
    }
    return shared_result();
  }
  template <class F>
  __device__ void each(int64_t n, F&& body) const {
    for (int64_t i = lane; i < n; i += kRowThreads) body(i);
  }
  __device__ void sync() const { __syncthreads(); }

 private:
  // compute(i, place in the tile) by all threads; sum = add(place, sum) by the first 16 in the order of
  // RowLanes.
  template <class C, class A>
  __device__ float in_order(int64_t n, C&& compute, A&& add) const {
    float sum = 0;
    for (int64_t first = 0; first < n; first += kRowTile) {
      const int64_t count = n - first < kRowTile ? n - first : kRowTile;
      sync();
      for (int64_t at = lane; at < count; at += kRowThreads) compute(first + at, at);
      sync();
      if (lane < kLanes)
        for (int64_t at = lane; at < count; at += kLanes) sum = add(at, sum);
    }
    sync();
    if (lane < kLanes) {
      const float total = RowLanes{lane, 0x0000FFFFu}.fold(sum);
      if (lane == 0) tile[0] = total;
    }
    return shared_result();
  }
  // tile[0], which one thread has written; the tile is free afterwards.
  __device__ float shared_result() const {
    sync();
    const float result = tile[0];
    sync();
    return result;
  }
};

template <class F>
__global__ void block_rows_kernel(int64_t rows, F body) {
  __shared__ float tile[2 * kRowTile];
  const BlockLanes lanes{static_cast<int>(threadIdx.x), tile};
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) body(r, lanes);
}

// Runs body(row, lanes) for every row; body takes RowLanes and BlockLanes.
template <class F>
void each_row_of(cudaStream_t stream, int64_t rows, int64_t columns, F body) {
  if (columns < kWideRow) return each_row(stream, rows, body);
  if (rows <= 0) return;
  launch(stream, blocks_for(rows, 1), kRowThreads, 0, block_rows_kernel<F>, rows, body);
}

// store(sum of n values) in double precision and in their order, on one thread; all threads of the block
// load.
template <class T, class F>
__global__ void add_in_order_kernel(const T* values, int64_t n, F store) {
  __shared__ T tile[kRowTile];
  double total = 0;
  for (int64_t first = 0; first < n; first += kRowTile) {
    const int64_t count = n - first < kRowTile ? n - first : kRowTile;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) tile[i] = values[first + i];
    __syncthreads();
    if (threadIdx.x == 0)
      for (int64_t i = 0; i < count; ++i) total += tile[i];
    __syncthreads();
  }
  if (threadIdx.x == 0) store(total);
}
template <class T, class F>
void add_in_order(cudaStream_t stream, const T* values, int64_t n, F store) {
  launch(stream, 1, 1024, 0, add_in_order_kernel<T, F>, values, n, store);
}

}  // namespace makar::kernels::cuda
