// Shared by the kernels on bf16 activations: loads and stores of eight values, sums of a warp.
#pragma once
#include <cuda_bf16.h>

#include "kernels/bf16_args.h"
#include "kernels/cuda/launch.cuh"

namespace makar::kernels::cuda {

__device__ inline float widen(Bf16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }
__device__ inline Bf16 narrow(float x) { return {__bfloat16_as_ushort(__float2bfloat16_rn(x))}; }
// The values of pack_pair().
__device__ inline float low_of(uint32_t two) { return __uint_as_float(two << 16); }
__device__ inline float high_of(uint32_t two) { return __uint_as_float(two & 0xFFFF0000u); }

// --- eight values per thread ---

__device__ inline uint4 pack_eight(const float (&v)[8]) {
  return make_uint4(pack_pair(v[0], v[1]), pack_pair(v[2], v[3]), pack_pair(v[4], v[5]), pack_pair(v[6], v[7]));
}

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
    *reinterpret_cast<uint4*>(p) = pack_eight(v);
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
constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

}  // namespace makar::kernels::cuda
