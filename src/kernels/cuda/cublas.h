// Matrix products of cuBLASLt, which is loaded at run time if it is installed; without it,
// CudaDevice::product_bf16 uses its own kernel.
#pragma once
#include <cuda_runtime.h>

#include <memory>

#include "kernels/bf16_args.h"
#include "tensor/memory.h"

namespace makar {

class Cublas {
 public:
  // Null if the library is not installed or MAKAR_CUBLAS=0 is set.
  static std::unique_ptr<Cublas> open(cudaStream_t stream, Memory& memory);
  virtual ~Cublas() = default;
  // Computes `p` without splitting k, or, with chunk > 0, one product for each of `chunks` whole chunks of k
  // into consecutive f32 matrices at p.c. False if there is no such kernel: nothing was done.
  virtual bool product(const kernels::ProductBf16& p, int64_t chunk = 0, int64_t chunks = 1) = 0;
};

}  // namespace makar
