// Tensor maps: how the copy engine reads boxes of a row-major matrix, and the instructions that use them.
#pragma once
#include <cuda.h>

#include "kernels/cuda/copy_barrier.cuh"

namespace makar::kernels::cuda {

constexpr int kBoxDepth = 64;                  // k of a box: rows of 128 bytes
constexpr int kBoxRowBytes = kBoxDepth * 2;

// Of a bf16 matrix [rows, k]. A box has `box_rows` rows; in shared memory, 16 bytes c of row r are at c ^ (r % 8) of its
// 128 bytes (128-byte swizzle), so a box begins at a multiple of 1,024 bytes. What is outside of the matrix is zero.
CUtensorMap tensor_map(const Bf16* data, int64_t rows, int64_t k, int box_rows);

// Arrives once; the phase ends when `bytes` more have been copied.
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Starts the copy of a box whose first value is at [row, k]; its bytes count at the barrier.
__device__ inline void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, int k, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(k), "r"(row)
      : "memory");
}
// The same for what is read once: it leaves the L2 cache first (`policy` of streamed_once()).
__device__ inline uint64_t streamed_once() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, int k, int row, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4}], [%2], "
      "%5;" ::"r"(to),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(k), "r"(row), "l"(policy)
      : "memory");
}
// Starts the copy of `bytes` consecutive bytes, a multiple of 16.
__device__ inline void copy_bytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
               "r"(bytes), "r"(barrier)
               : "memory");
}

}  // namespace makar::kernels::cuda
