// See cuda_runtime.h.
#pragma once
#include <numeric>
#include <vector>

#include "cuda_runtime.h"

namespace cub {
struct DeviceRadixSort {
  template <class Key, class Value>
  static cudaError_t SortPairs(void* work, size_t& bytes, const Key* keys, Key* sorted_keys, const Value* values, Value* sorted_values, int count,
                               int, int, cudaStream_t stream) {
    if (!work) {
      bytes = 1;
      return cudaSuccess;
    }
    return makar::simulated_gpu::enqueue(stream, [=] {
      std::vector<int> order(static_cast<size_t>(count));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [=](int a, int b) { return keys[a] < keys[b]; });
      for (int i = 0; i < count; ++i) {
        sorted_keys[i] = keys[order[static_cast<size_t>(i)]];
        sorted_values[i] = values[order[static_cast<size_t>(i)]];
      }
    });
  }
};
}  // namespace cub
