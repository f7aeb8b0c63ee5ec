// Shared by the attention kernels on tensor cores: tiles of rows in shared memory, and the keys that a row attends to.
#pragma once
#include "kernels/cuda/bf16.cuh"

namespace makar::kernels::cuda {

constexpr int kKeys = 64;  // keys per tile, at fixed positions from the start of the sequence

// Row i of a sequence attends to keys [first(i), last(i)); both bounds increase with i.
struct VisibleKeys {
  int rows, keys, past, window;
  bool causal;
  __device__ VisibleKeys(const AttentionShape& shape, const SequenceRows& s)
      : rows(static_cast<int>(s.q_rows)),
        keys(static_cast<int>(s.kv_rows)),
        past(static_cast<int>(s.past)),
        window(static_cast<int>(shape.window)),
        causal(shape.causal) {}
  __device__ int first(int i) const { return window > 0 ? max(0, past + i - window + 1) : 0; }
  __device__ int last(int i) const { return min(keys, causal ? past + i + 1 : window > 0 ? past + i + window : keys); }
  __device__ bool contains(int i, int j) const { return i < rows && j >= first(i) && j < last(i); }
  // Whether every row of [i0, i0 + n) attends to all keys of [j0, j0 + m), or no row to any of them.
  __device__ bool contains_all(int i0, int n, int j0, int m) const {
    return i0 + n <= rows && j0 + m <= last(i0) && j0 >= first(i0 + n - 1);
  }
  __device__ bool contains_none(int i0, int n, int j0, int m) const {
    return i0 >= rows || j0 >= last(i0 + n - 1) || j0 + m <= first(i0);
  }
};

// A tile of rows of kDim bf16 values in shared memory. The 16-byte chunks of a row are permuted so that eight rows
// at one column lie in different banks.
template <int kDim>
struct Tile {
  static constexpr int kChunks = kDim / 8, kRowBytes = kDim * 2;
  uint32_t base;  // shared address

  // Starts copying rows [row0, row0 + kRows) of a matrix with `stride` values per row; rows from `rows` on and columns
  // from `dim` on are zero.
  template <int kRows, int kThreads>
  __device__ void copy(const Bf16* from, int64_t stride, int row0, int rows, int dim) const {
    constexpr int kStep = kThreads / kChunks;  // rows per round
    static_assert(kStep % 8 == 0 && kRows % kStep == 0);
    const int c = threadIdx.x % kChunks, r = threadIdx.x / kChunks;
    uint32_t to = base + r * kRowBytes + ((c ^ (r & 7)) << 4);
    const Bf16* at = from + (row0 + r) * stride + c * 8;
    const int left = c * 8 < dim ? rows - row0 - r : 0;
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i, to += kStep * kRowBytes, at += kStep * stride)
      copy16(to, i * kStep < left ? at : from, i * kStep < left);
  }
  // Operand A of mma: 16 rows from `row`, 16 columns from 16 * step. `row` is a multiple of 8 here and below.
  __device__ void load_a(uint32_t (&r)[4], int row, int step, int lane) const { load_matrices(r, address(row, step, lane)); }
  // Operand B for two blocks of eight outputs: 16 rows from `row` are outputs, 16 columns are k.
  __device__ void load_b(uint32_t (&r)[4], int row, int step, int lane) const {
    const int x = ((lane >> 3 & 1) ^ (lane & 7)) << 4;
    load_matrices(r, base + row * kRowBytes + ((lane >> 4) * 8 + (lane & 7)) * kRowBytes + ((step << 5) ^ x));
  }
  // Operand B for two blocks of eight outputs: 16 rows from `row` are k, 16 columns from 16 * block are outputs.
  __device__ void load_b_transposed(uint32_t (&r)[4], int row, int block, int lane) const {
    load_matrices_transposed(r, address(row, block, lane));
  }

 private:
  // Lanes 0 to 15 read rows from `row` on at 16 * step, the others at 8 columns more.
  __device__ uint32_t address(int row, int step, int lane) const {
    const int x = ((lane >> 4) ^ (lane & 7)) << 4;
    return base + row * kRowBytes + (lane & 15) * kRowBytes + ((step << 5) ^ x);
  }
};

// d[kM * 16 rows, 8 * kBlocks] += A[rows of `a` from `row`, kDim] B[8 * kBlocks rows of `b` from `b_row`, kDim]^T
template <int kDim, int kM, int kBlocks>
__device__ inline void multiply_rows(float (&d)[kM][kBlocks][4], const Tile<kDim>& a, int row, const Tile<kDim>& b, int b_row,
                                     int lane) {
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
    uint32_t left[kM][4], right[kBlocks / 2][4];
#pragma unroll
    for (int i = 0; i < kM; ++i) a.load_a(left[i], row + i * 16, step, lane);
#pragma unroll
    for (int n = 0; n < kBlocks / 2; ++n) b.load_b(right[n], b_row + n * 16, step, lane);
#pragma unroll
    for (int n = 0; n < kBlocks; ++n)
#pragma unroll
      for (int i = 0; i < kM; ++i) mma(d[i][n], left[i], right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]);
  }
}

// d[kM * 16 rows, kDim] += W[rows, 8 * kBlocks] B[8 * kBlocks rows of `b` from `b_row`, kDim]; W is rounded to bf16.
template <int kDim, int kM, int kBlocks>
__device__ inline void multiply_weights(float (&d)[kM][kDim / 8][4], const float (&w)[kM][kBlocks][4], const Tile<kDim>& b,
                                        int b_row, int lane) {
#pragma unroll
  for (int step = 0; step < kBlocks / 2; ++step) {
    uint32_t left[kM][4], right[kDim / 16][4];
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) b.load_b_transposed(right[n], b_row + step * 16, n, lane);
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      const auto& w0 = w[i][2 * step];
      const auto& w1 = w[i][2 * step + 1];
      left[i][0] = pack_pair(w0[0], w0[1]), left[i][1] = pack_pair(w0[2], w0[3]);
      left[i][2] = pack_pair(w1[0], w1[1]), left[i][3] = pack_pair(w1[2], w1[3]);
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
      for (int i = 0; i < kM; ++i) mma(d[i][n], left[i], right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]);
  }
}

// Writes factor[half] * d to rows `row` + lane / 4 + 8 * half for half = 0 and 1, if they are below `rows`.
template <int kDim>
__device__ inline void store_rows(const float (&d)[kDim / 8][4], const float (&factor)[2], Bf16* to, int64_t stride, int row,
                                  int rows, int dim, int lane) {
  for (int half = 0; half < 2; ++half) {
    const int r = row + lane / 4 + half * 8;
    if (r >= rows) continue;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
      if (n * 8 < dim)
        *reinterpret_cast<uint32_t*>(to + r * stride + n * 8 + lane % 4 * 2) =
            pack_pair(d[n][2 * half] * factor[half], d[n][2 * half + 1] * factor[half]);
  }
}

}  // namespace makar::kernels::cuda
