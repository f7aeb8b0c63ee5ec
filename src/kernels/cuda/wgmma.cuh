// wgmma.m64n64k16: a warpgroup (four warps) multiplies 64 rows of A by 64 columns. The bits are those of
// mma.sync: both add 16 products per step (docs/decisions/0010-cuda-products.md). Thread t of warp w holds
// rows 16 w + t / 4 and 8 more, columns 8 n + 2 (t % 4) + {0, 1} of d[n], as with mma.sync.
#pragma once
#include "kernels/cuda/bf16.cuh"

namespace makar::kernels::cuda {

// Describes rows of 128 bytes in shared memory whose 16-byte chunks are permuted as in Tile<64>. The address
// is a multiple of 1,024; an operand may begin at a multiple of 8 rows, or at 16 values (32 bytes) within the
// rows.
__device__ inline uint64_t rows_descriptor(uint32_t address) {
  constexpr uint64_t kEightRows = 1024 >> 4, kSwizzle128 = 1;
  return (address & 0x3FFFF) >> 4 | uint64_t{1} << 16 | kEightRows << 32 | kSwizzle128 << 62;
}
// Makes writes of this thread to shared memory visible to wgmma of the block's threads; a barrier must
// follow.
__device__ inline void shared_writes_to_wgmma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most kPending groups of products are still running.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// The compiler may not move uses of these registers across this point: products write them asynchronously.
template <int kN>
__device__ inline void keep_in_order(float (&d)[kN][4]) {
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(d[n][e])::"memory");
}
template <int kN>
__device__ inline void keep_in_order(uint32_t (&a)[kN][4]) {
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(a[n][e])::"memory");
}

// The accumulators of an instruction. A result that starts from zero is a new value for the compiler.
#define MAKAR_WGMMA_64                                                                                    \
  "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "                                                 \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
#define MAKAR_WGMMA_NEW                                                                                                       \
  "=f"(d[0][0]), "=f"(d[0][1]), "=f"(d[0][2]), "=f"(d[0][3]), "=f"(d[1][0]), "=f"(d[1][1]), "=f"(d[1][2]), "=f"(d[1][3]),     \
      "=f"(d[2][0]), "=f"(d[2][1]), "=f"(d[2][2]), "=f"(d[2][3]), "=f"(d[3][0]), "=f"(d[3][1]), "=f"(d[3][2]), "=f"(d[3][3]), \
      "=f"(d[4][0]), "=f"(d[4][1]), "=f"(d[4][2]), "=f"(d[4][3]), "=f"(d[5][0]), "=f"(d[5][1]), "=f"(d[5][2]), "=f"(d[5][3]), \
      "=f"(d[6][0]), "=f"(d[6][1]), "=f"(d[6][2]), "=f"(d[6][3]), "=f"(d[7][0]), "=f"(d[7][1]), "=f"(d[7][2]), "=f"(d[7][3])
#define MAKAR_WGMMA_ADD                                                                                                       \
  "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]),     \
      "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), \
      "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), \
      "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3])

// d = A B, or with kAdd d += A B, for 16 k. kColumns: the rows of B in memory are k, and their 64 values are
// columns of d; else its rows are columns of d. A is in shared memory (rows of d) or in registers (as operand
// A of mma.sync).
template <bool kColumns, bool kAdd>
__device__ inline void wgmma_64(float (&d)[8][4], uint64_t a, uint64_t b) {
  if constexpr (kAdd)
    asm volatile(MAKAR_WGMMA_64 "%32, %33, 1, 1, 1, 0, %34;" : MAKAR_WGMMA_ADD : "l"(a), "l"(b), "n"(kColumns ? 1 : 0));
  else
    asm volatile(MAKAR_WGMMA_64 "%32, %33, 0, 1, 1, 0, %34;" : MAKAR_WGMMA_NEW : "l"(a), "l"(b), "n"(kColumns ? 1 : 0));
}
template <bool kColumns, bool kAdd>
__device__ inline void wgmma_64(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kAdd)
    asm volatile(MAKAR_WGMMA_64 "{%32, %33, %34, %35}, %36, 1, 1, 1, %37;"
                 : MAKAR_WGMMA_ADD
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kColumns ? 1 : 0));
  else
    asm volatile(MAKAR_WGMMA_64 "{%32, %33, %34, %35}, %36, 0, 1, 1, %37;"
                 : MAKAR_WGMMA_NEW
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kColumns ? 1 : 0));
}
#undef MAKAR_WGMMA_64
#undef MAKAR_WGMMA_NEW
#undef MAKAR_WGMMA_ADD

// d = A B^T: 64 k from registers or shared memory, by the 64 rows of a tile at `b`.
__device__ inline void wgmma_rows(float (&d)[8][4], uint64_t a, uint64_t b) {
  wgmma_64<false, false>(d, a, b);
#pragma unroll
  for (int step = 1; step < 4; ++step) wgmma_64<false, true>(d, a + 2 * step, b + 2 * step);
}
__device__ inline void wgmma_rows(float (&d)[8][4], const uint32_t (&a)[4][4], uint64_t b) {
  wgmma_64<false, false>(d, a[0], b);
#pragma unroll
  for (int step = 1; step < 4; ++step) wgmma_64<false, true>(d, a[step], b + 2 * step);
}
// d += W B: W is [64, 64] in registers, the 64 rows of a tile at `b` are k.
__device__ inline void wgmma_add_weighted(float (&d)[8][4], const uint32_t (&w)[4][4], uint64_t b) {
  constexpr int kSixteenRows = 16 * 128 >> 4;
#pragma unroll
  for (int step = 0; step < 4; ++step) wgmma_64<true, true>(d, w[step], b + step * kSixteenRows);
}
// Weights as operand A, rounded to bf16.
__device__ inline void round_weights(uint32_t (&to)[4][4], const float (&w)[8][4]) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    to[step][0] = pack_pair(w[2 * step][0], w[2 * step][1]), to[step][1] = pack_pair(w[2 * step][2], w[2 * step][3]);
    to[step][2] = pack_pair(w[2 * step + 1][0], w[2 * step + 1][1]),
    to[step][3] = pack_pair(w[2 * step + 1][2], w[2 * step + 1][3]);
  }
}

}  // namespace makar::kernels::cuda
