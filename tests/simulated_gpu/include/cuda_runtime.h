// The part of CUDA that src/kernels/cuda uses, for the simulated GPU (tests/simulated_gpu/README.md).
#pragma once
#include <math.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include "block.h"

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static  // all threads of a block run on one host thread, and blocks one after the other

// --- types ---

struct int2 {
  int x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

extern makar::simulated_gpu::Index threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// --- functions of a thread ---

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline int __ffs(int x) { return x ? std::countr_zero(static_cast<unsigned>(x)) + 1 : 0; }
inline int __popc(unsigned x) { return std::popcount(x); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = uint64_t{y} << 32 | x;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i)
    out |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
  return out;
}
template <class A, class B>
requires(std::is_integral_v<A>&& std::is_integral_v<B>) constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
requires(std::is_integral_v<A>&& std::is_integral_v<B>) constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}
inline void __threadfence() {}

// --- functions of a warp ---

namespace makar::simulated_gpu {
template <class T, class Source>
T shuffle(const char* what, unsigned mask, T value, int width, Source source) {
  static_assert(sizeof(T) <= WarpExchange::kBytes);
  Block& block = Block::current();
  unsigned parity = 0;
  const unsigned lane = block.lane();
  const WarpExchange& x = block.exchange(what, mask, &value, sizeof value, parity);
  const unsigned first = lane / static_cast<unsigned>(width) * static_cast<unsigned>(width);
  const int from = source(static_cast<int>(lane - first));
  if (from < 0 || from >= width) return value;
  const unsigned other = first + static_cast<unsigned>(from);
  if (!(mask >> other & 1)) block.fault("a shuffle reads a lane that is not in its mask");
  T out;
  std::memcpy(&out, x.values[parity][other], sizeof out);
  return out;
}
}  // namespace makar::simulated_gpu
template <class T>
T __shfl_sync(unsigned mask, T x, int lane, int width = 32) {
  return makar::simulated_gpu::shuffle("__shfl_sync", mask, x, width,
                                       [&](int) { return lane & (width - 1); });
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int bits, int width = 32) {
  return makar::simulated_gpu::shuffle("__shfl_xor_sync", mask, x, width,
                                       [&](int own) { return own ^ bits; });
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, unsigned step, int width = 32) {
  return makar::simulated_gpu::shuffle("__shfl_up_sync", mask, x, width,
                                       [&](int own) { return own - static_cast<int>(step); });
}
template <class T>
T __shfl_down_sync(unsigned mask, T x, unsigned step, int width = 32) {
  return makar::simulated_gpu::shuffle("__shfl_down_sync", mask, x, width,
                                       [&](int own) { return own + static_cast<int>(step); });
}
inline unsigned __ballot_sync(unsigned mask, bool x) {
  auto& block = makar::simulated_gpu::Block::current();
  unsigned parity = 0, out = 0;
  const auto& m = block.exchange("__ballot_sync", mask, &x, sizeof x, parity);
  for (unsigned i = 0; i < 32; ++i)
    if (mask >> i & 1)
      out |= static_cast<unsigned>(std::to_integer<uint8_t>(m.values[parity][i][0]) != 0) << i;
  return out;
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) {
  unsigned parity = 0;
  makar::simulated_gpu::Block::current().exchange("__syncwarp", mask, &mask, 0, parity);
}

// --- functions of a block ---

inline void __syncthreads() { makar::simulated_gpu::Block::current().sync(0, 0, false); }
inline int __syncthreads_or(int x) { return makar::simulated_gpu::Block::current().sync(0, 0, x != 0); }

// --- the runtime ---

enum cudaError_t {
  cudaSuccess,
  cudaErrorMemoryAllocation,
  cudaErrorInvalidValue,
  cudaErrorInvalidConfiguration
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaDeviceAttr { cudaDevAttrClockRate, cudaDevAttrMultiProcessorCount };
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
using cudaStream_t = struct SimulatedStream*;
using cudaEvent_t = struct SimulatedEvent*;
using cudaGraph_t = struct SimulatedGraph*;
using cudaGraphExec_t = struct SimulatedGraph*;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};
struct cudaDeviceProp {
  char name[256];
  int major, minor;
};

const char* cudaGetErrorString(cudaError_t);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int);
cudaError_t cudaMalloc(void**, size_t);
cudaError_t cudaFree(void*);
cudaError_t cudaMallocHost(void**, size_t);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus*);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
cudaError_t cudaEventCreate(cudaEvent_t*);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t);

namespace makar::simulated_gpu {
// Does `work` now, or when the graph that `stream` records is launched.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
void set_max_shared(const void* kernel, size_t bytes);
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> body);
}  // namespace makar::simulated_gpu

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int bytes) {
  if (bytes < 0 || static_cast<size_t>(bytes) > makar::simulated_gpu::kMaxShared)
    return cudaErrorInvalidValue;
  makar::simulated_gpu::set_max_shared(reinterpret_cast<const void*>(kernel), static_cast<size_t>(bytes));
  return cudaSuccess;
}
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return makar::simulated_gpu::launch(
      *config, reinterpret_cast<const void*>(kernel),
      [kernel, kept = std::tuple<std::remove_cv_t<Parameters>...>(static_cast<Parameters>(arguments)...)] {
        std::apply(kernel, kept);
      });
}
