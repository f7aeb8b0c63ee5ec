// Shared by the kernels on bf16 activations: loads of eight values, and the tensor-core instructions.
#pragma once
#include <cuda_bf16.h>

#include "kernels/bf16_args.h"
#include "kernels/cuda/launch.cuh"

namespace makar::kernels::cuda {

__device__ inline float widen(Bf16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }
__device__ inline Bf16 narrow(float x) { return {__bfloat16_as_ushort(__float2bfloat16_rn(x))}; }
// Two values in one register, `low` first in memory.
__device__ inline uint32_t pack_pair(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
__device__ inline float low_of(uint32_t two) { return __uint_as_float(two << 16); }
__device__ inline float high_of(uint32_t two) { return __uint_as_float(two & 0xFFFF0000u); }

// --- eight values per thread ---

inline bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }
template <class... P>
bool all_aligned(const P*... p) {
  return (aligned(p) && ...);
}

// `left`: values from p to the end; those beyond are neither read nor written, and are 0 in v. `vector`: the
// address is a multiple of 16.
__device__ inline void load8(const Bf16* p, int64_t left, bool vector, float (&v)[8]) {
  if (vector && left >= 8) {
    const uint4 u = *reinterpret_cast<const uint4*>(p);
    v[0] = low_of(u.x), v[1] = high_of(u.x), v[2] = low_of(u.y), v[3] = high_of(u.y);
    v[4] = low_of(u.z), v[5] = high_of(u.z), v[6] = low_of(u.w), v[7] = high_of(u.w);
    return;
  }
  for (int i = 0; i < 8; ++i) v[i] = i < left ? widen(p[i]) : 0.0f;
}
__device__ inline void load8(const float* p, int64_t left, bool vector, float (&v)[8]) {
  if (vector && left >= 8) {
    const float4 a = reinterpret_cast<const float4*>(p)[0], b = reinterpret_cast<const float4*>(p)[1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    return;
  }
  for (int i = 0; i < 8; ++i) v[i] = i < left ? p[i] : 0.0f;
}
__device__ inline void store8(Bf16* p, int64_t left, bool vector, const float (&v)[8]) {
  if (vector && left >= 8) {
    *reinterpret_cast<uint4*>(p) =
        make_uint4(pack_pair(v[0], v[1]), pack_pair(v[2], v[3]), pack_pair(v[4], v[5]), pack_pair(v[6], v[7]));
    return;
  }
  for (int i = 0; i < 8; ++i)
    if (i < left) p[i] = narrow(v[i]);
}
__device__ inline void store8(float* p, int64_t left, bool vector, const float (&v)[8]) {
  if (vector && left >= 8) {
    reinterpret_cast<float4*>(p)[0] = make_float4(v[0], v[1], v[2], v[3]);
    reinterpret_cast<float4*>(p)[1] = make_float4(v[4], v[5], v[6], v[7]);
    return;
  }
  for (int i = 0; i < 8; ++i)
    if (i < left) p[i] = v[i];
}

// Runs body(first, left) for every group of eight values; `left` counts the values from `first` to the end.
template <class F>
void each8(cudaStream_t stream, int64_t n, F body) {
  each(stream, (n + 7) / 8, [=] __device__(int64_t group) { body(8 * group, n - 8 * group); });
}

// --- warps ---

__device__ inline float warp_sum(float x) {
  for (int width = 16; width > 0; width /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, width);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int width = 16; width > 0; width /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, width));
  return x;
}
__device__ inline float exp2_of(float x) {  // 2^x; 0 for -infinity
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

// --- tensor cores: mma.sync.m16n8k16 ---
// Thread t of a warp holds rows t / 4 and t / 4 + 8, columns 2 (t % 4) + {0, 1} of d.

__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
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
// Copies 16 bytes to shared memory, or writes zeros if `valid` is false.
__device__ inline void copy16(uint32_t shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(valid ? 16 : 0) : "memory");
}
__device__ inline void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace makar::kernels::cuda
