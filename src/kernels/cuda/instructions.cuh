// The instructions that C++ has no name for, as functions. No other file has inline assembly: tests/simulated_gpu has the same
// functions for the CPU.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace makar::kernels::cuda {

// --- programmatic dependent launch (launch.cuh) ---

__device__ inline void let_next_kernel_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ inline void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Brings a line to the L2 cache, where kernels that still run may change it: for what is read after the wait.
__device__ inline void fetch_to_cache(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// --- numbers ---

// Two values as bf16 in one register, `low` first in memory.
__device__ inline uint32_t pack_pair(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
__device__ inline float exp2_of(float x) {  // 2^x; 0 for -infinity
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// --- shared memory ---

// What a launch asked for.
__device__ inline std::byte* dynamic_shared() {
  extern __shared__ __align__(128) std::byte shared[];
  return shared;
}
// The 32-bit address that instructions use.
__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ inline void store_shared(uint32_t at, uint16_t x) { asm volatile("st.shared.b16 [%0], %1;" ::"r"(at), "h"(x) : "memory"); }
__device__ inline void store_shared(uint32_t at, uint32_t x) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(x) : "memory"); }
__device__ inline void store_shared(uint32_t at, uint4 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}

// A barrier of `kCount` threads of the block, whole warps; 0 is that of __syncthreads().
template <int kBarrier, int kCount>
__device__ inline void sync_threads() {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kCount) : "memory");
}

// --- tensor cores, one warp ---
// Thread t holds rows t / 4 and t / 4 + 8, columns 2 (t % 4) + {0, 1} of d.

// d[16, 8] += a[16, 16] b[8, 16]^T in bf16.
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// d[16, 8] = c + a[16, 32] b[8, 32]^T in int8; c is the same number everywhere.
__device__ inline void mma_int8(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1, int c) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(c));
}
// The same with 16 k.
__device__ inline void mma_int8(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, int c) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a0), "r"(a1), "r"(b), "r"(c));
}
// Four matrices of 8 x 8 values of 16 bits; lane 8 i + r has the address of row r of matrix i.
__device__ inline void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ inline void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

// --- copies of threads ---

// Copies 16 bytes to shared memory, or writes zeros if `valid` is false.
__device__ inline void copy16(uint32_t shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(valid ? 16 : 0) : "memory");
}
__device__ inline void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// --- barriers in shared memory (mbarrier) that wait for copies ---

__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible; a barrier of the threads must follow.
__device__ inline void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Waits for the end of a phase; phases have parity 0, 1, 0, ...
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// Arrives when all copies that this thread has started (copy16) are done.
__device__ inline void barrier_arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
// Arrives once; the phase ends when `bytes` more have been copied.
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// --- the copy engine (tensor_map.cuh) ---

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

// --- tensor cores, four warps ---
// wgmma.m64nNk16: d[64, N] += a[64, 16] b[N, 16]^T with both operands in shared memory as boxes of tensor_map.cuh.
// Thread t of warp w holds rows 16 w + t / 4 + {0, 8}, columns 8 j + 2 (t % 4) + {0, 1} in d[4 j + {0, 1}] and, 8 rows on, d[4 j + {2, 3}].

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
