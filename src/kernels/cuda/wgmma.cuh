// wgmma.m64nNk16: d[64, N] += a[64, 16] b[N, 16]^T for a warpgroup, with both operands in shared memory as boxes of tensor_map.cuh.
// Thread t of warp w holds rows 16 w + t / 4 + {0, 8}, columns 8 j + 2 (t % 4) + {0, 1} in d[4 j + {0, 1}] and, 8 rows on, d[4 j + {2, 3}].
#pragma once
#include "kernels/cuda/bf16.cuh"

namespace makar::kernels::cuda {

// Of rows of 128 bytes; 16 values of k further: + 2.
__device__ inline uint64_t box_descriptor(uint32_t shared) {
  uint64_t d = (shared & 0x3FFFF) >> 4;
  d |= uint64_t{1} << 16;          // leading offset: not used with this swizzle
  d |= uint64_t{1024 >> 4} << 32;  // from 8 rows to the next 8
  return d | uint64_t{1} << 62;    // 128-byte swizzle
}
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

template <int kColumns>
__device__ inline void wgmma(float (&d)[kColumns / 2], uint64_t a, uint64_t b);

#define MAKAR_D8(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define MAKAR_D32(i) MAKAR_D8(i), MAKAR_D8(i + 8), MAKAR_D8(i + 16), MAKAR_D8(i + 24)
template <>
__device__ inline void wgmma<64>(float (&d)[32], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, 1, 1, 1, 0, 0;"
      : MAKAR_D32(0)
      : "l"(a), "l"(b));
}
#undef MAKAR_D8
#undef MAKAR_D32

}  // namespace makar::kernels::cuda
