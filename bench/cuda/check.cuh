// Error checks, device buffers, random inputs and event timing for the GPU probes.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define CUDA_CHECK(call)                                                                               \
  do {                                                                                                 \
    cudaError_t status_ = (call);                                                                      \
    if (status_ != cudaSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status_)); \
      std::exit(1);                                                                                    \
    }                                                                                                  \
  } while (0)

constexpr int kMultiprocessors = 132;  // of an H100 or H200

template <class T>
struct Buffer {
  explicit Buffer(size_t count) : count(count) { CUDA_CHECK(cudaMalloc(&data, count * sizeof(T))); }
  ~Buffer() { cudaFree(data); }
  Buffer(const Buffer&) = delete;
  std::vector<T> host() const {
    std::vector<T> out(count);
    CUDA_CHECK(cudaMemcpy(out.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }
  T* data = nullptr;
  size_t count;
};

inline __device__ float uniform(uint64_t index, uint64_t seed) {  // SplitMix64 into [-1, 1)
  uint64_t z = (index + 1) * 0x9E3779B97F4A7C15ull + seed * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return float((z ^ (z >> 31)) >> 40) * (2.0f / (1 << 24)) - 1.0f;
}
template <class T>
__global__ void fill_random(T* out, size_t count, uint64_t seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count;
       i += size_t(gridDim.x) * blockDim.x)
    out[i] = T(uniform(i, seed));
}
template <class T>
void randomize(Buffer<T>& buffer, uint64_t seed) {
  fill_random<<<1024, 256>>>(buffer.data, buffer.count, seed);
  CUDA_CHECK(cudaGetLastError());
}

// Median milliseconds of `rounds` timed calls after two warm-up calls.
inline double median_ms(const std::function<void()>& call, int rounds = 15) {
  cudaEvent_t begin, end;
  CUDA_CHECK(cudaEventCreate(&begin));
  CUDA_CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = -2; i < rounds; i++) {
    CUDA_CHECK(cudaEventRecord(begin));
    call();
    CUDA_CHECK(cudaEventRecord(end));
    CUDA_CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 0) times.push_back(ms);
  }
  CUDA_CHECK(cudaEventDestroy(begin));
  CUDA_CHECK(cudaEventDestroy(end));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Number of values whose bits differ.
inline size_t differing(const std::vector<float>& a, const std::vector<float>& b) {
  size_t count = 0;
  for (size_t i = 0; i < a.size(); i++) count += std::memcmp(&a[i], &b[i], 4) != 0;
  return count;
}
