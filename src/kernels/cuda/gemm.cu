// Matrix products in f32: every output adds k = 0, 1, 2, ... in sequence with fused multiply-add, as on the CPU.
#include <cuda_fp16.h>

#include <vector>

#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/decode_blocks.h"

namespace makar {

using namespace kernels;
using cuda::madd;

namespace {

constexpr int kTile = 64, kDepth = 16, kEach = 4;  // 16 x 16 threads per block, 4 x 4 outputs per thread

__device__ inline float read(const Operand& x, int64_t row, int64_t k) {
  const int64_t at = row * x.row_stride + k * x.k_stride;
  if (x.type == DType::kF32) return static_cast<const float*>(x.data)[at];
  if (x.type == DType::kF16) return __half2float(static_cast<const __half*>(x.data)[at]);
  return __uint_as_float(static_cast<uint32_t>(static_cast<const uint16_t*>(x.data)[at]) << 16);  // bf16
}

// Loads 64 rows by 16 k of an operand into shared memory; neighbouring threads read along stride 1.
__device__ inline void load_tile(float (&to)[kDepth][kTile + 1], const Operand& x, int64_t row0, int64_t rows, int64_t k0,
                                 int64_t k) {
  for (int i = threadIdx.x; i < kTile * kDepth; i += 256) {
    const int r = x.k_stride == 1 ? i / kDepth : i % kTile, p = x.k_stride == 1 ? i % kDepth : i / kTile;
    to[p][r] = row0 + r < rows && k0 + p < k ? read(x, row0 + r, k0 + p) : 0.0f;
  }
}

__global__ void gemm_kernel(int64_t m, int64_t n, int64_t k, Operand a, Operand b, GemmOutput out) {
  __shared__ float as[kDepth][kTile + 1], bs[kDepth][kTile + 1];
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTile, col0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  float c[kEach][kEach] = {};
  const auto each_output = [&](auto&& body) {
    for (int i = 0; i < kEach; ++i)
      for (int j = 0; j < kEach; ++j) {
        const int64_t row = row0 + ty + 16 * i, col = col0 + tx + 16 * j;
        if (row < m && col < n) body(c[i][j], out.c[row * out.ldc + col], col);
      }
  };
  if (out.accumulate) each_output([](float& sum, float& to, int64_t) { sum = to; });
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    load_tile(as, a, row0, m, k0, k);
    load_tile(bs, b, col0, n, k0, k);
    __syncthreads();
    const int depth = k - k0 < kDepth ? static_cast<int>(k - k0) : kDepth;
    for (int p = 0; p < depth; ++p)
      for (int i = 0; i < kEach; ++i)
        for (int j = 0; j < kEach; ++j) c[i][j] = madd(as[p][ty + 16 * i], bs[p][tx + 16 * j], c[i][j]);
    __syncthreads();
  }
  each_output([&](float& sum, float& to, int64_t col) { to = out.bias ? sum + out.bias[col] : sum; });
}

// Weights in their original type and layout; block types are decoded to f32.
class CudaWeight : public PackedWeight {
 public:
  CudaWeight(Memory& memory, DType type, int64_t n, int64_t k)
      : memory_(memory), type_(type), n_(n), k_(k), data_(memory.take(bytes())) {}
  ~CudaWeight() override { memory_.give(data_, bytes()); }
  CudaWeight(const CudaWeight&) = delete;
  CudaWeight& operator=(const CudaWeight&) = delete;

  int64_t n() const override { return n_; }
  int64_t k() const override { return k_; }
  DType type() const override { return type_; }
  size_t bytes() const override { return bytes_of(type_, n_ * k_); }
  std::byte* data() const { return data_; }
  Operand operand() const { return {data_, type_, k_, 1}; }

 private:
  Memory& memory_;
  DType type_;
  int64_t n_, k_;
  std::byte* data_;
};

template <class T>
void copy_strided(cudaStream_t stream, const T* from, int64_t row_stride, int64_t k_stride, T* to, int64_t n, int64_t k) {
  cuda::each(stream, n * k,
             [=] __device__(int64_t i) { to[i] = from[i / k * row_stride + i % k * k_stride]; });
}

}  // namespace

void CudaDevice::gemm(const Gemm& a) {
  if (a.m <= 0 || a.n <= 0) return;
  const dim3 grid(static_cast<unsigned>((a.n + kTile - 1) / kTile), static_cast<unsigned>((a.m + kTile - 1) / kTile));
  gemm_kernel<<<grid, 256, 0, stream_>>>(a.m, a.n, a.k, a.a, a.b, a.out);
  cuda_check(cudaGetLastError(), "gemm");
}

std::shared_ptr<const PackedWeight> CudaDevice::pack(const Operand& b, int64_t n, int64_t k) {
  const bool plain = b.type == DType::kF32 || b.type == DType::kF16 || b.type == DType::kBF16;
  auto packed = std::make_shared<CudaWeight>(memory_, plain ? b.type : DType::kF32, n, k);
  if (!plain) {
    decode({b.data, b.type, reinterpret_cast<float*>(packed->data()), n, k});
    return packed;
  }
  const auto copy = [&](auto* to) {
    const auto* from = static_cast<const std::remove_reference_t<decltype(*to)>*>(b.data);
    copy_strided(stream_, from, b.row_stride, b.k_stride, to, n, k);
  };
  if (size_of(b.type) == 4)
    copy(reinterpret_cast<uint32_t*>(packed->data()));
  else
    copy(reinterpret_cast<uint16_t*>(packed->data()));
  return packed;
}

void CudaDevice::gemm_packed(const PackedGemm& a) {
  for (int64_t i = 0; i < a.count; ++i) {
    const auto& b = static_cast<const CudaWeight&>(*a.products[i].b);
    gemm({a.m, b.n(), b.k(), a.a, b.operand(), a.products[i].out});
  }
}

}  // namespace makar
