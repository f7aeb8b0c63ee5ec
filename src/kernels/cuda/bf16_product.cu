// Matrix products of bf16 operands: cuBLASLt where it has a kernel, else the kernel below. Both add k in steps of 16
// from zero and agree in every bit (docs/decisions/0010-cuda-products.md).
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/cublas.h"
#include "kernels/cuda/cuda_device.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int kTile = 64, kDepth = 32, kPitch = kDepth + 8;  // four warps of 32 x 32 outputs

// Loads 64 rows by 32 k of an operand; neighbouring threads read along stride 1.
__device__ inline void load_tile(Bf16 (&to)[kTile][kPitch], const Operand& x, int64_t row0, int64_t rows, int64_t k0, int64_t k) {
  const auto* data = static_cast<const Bf16*>(x.data);
  const bool along_k = x.k_stride == 1;
  for (int i = threadIdx.x; i < kTile * kDepth; i += 128) {
    const int r = along_k ? i / kDepth : i % kTile, p = along_k ? i % kDepth : i / kTile;
    const bool inside = row0 + r < rows && k0 + p < k;
    to[r][p] = inside ? data[(row0 + r) * x.row_stride + (k0 + p) * x.k_stride] : Bf16{0};
  }
}

// Blocks with blockIdx.z = z sum k in [z * chunk, (z + 1) * chunk) into the z-th of consecutive matrices at c.
__global__ void __launch_bounds__(128) product_kernel(ProductBf16 p, int64_t chunk) {
  __shared__ __align__(16) Bf16 as[kTile][kPitch], bs[kTile][kPitch];
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTile, col0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
  const int64_t begin = blockIdx.z * chunk, end = begin + chunk < p.k ? begin + chunk : p.k;
  float c[2][4][4] = {};
  for (int64_t k0 = begin; k0 < end; k0 += kDepth) {
    load_tile(as, p.a, row0, p.m, k0, end);
    load_tile(bs, p.b, col0, p.n, k0, end);
    __syncthreads();
    for (int kk = 0; kk < kDepth && k0 + kk < end; kk += 16) {
      uint32_t a[2][4], b[2][4];
      for (int i = 0; i < 2; ++i)
        load_matrices(a[i], shared_address(&as[wm + i * 16 + (lane / 8 & 1) * 8 + lane % 8][kk + lane / 16 * 8]));
      for (int j = 0; j < 2; ++j)
        load_matrices(b[j], shared_address(&bs[wn + j * 16 + lane / 16 * 8 + lane % 8][kk + (lane / 8 & 1) * 8]));
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j) mma(c[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int e = 0; e < 4; ++e) {
        const int64_t row = row0 + wm + i * 16 + lane / 4 + e / 2 * 8, col = col0 + wn + j * 8 + lane % 4 * 2 + e % 2;
        if (row >= p.m || col >= p.n) continue;
        float sum = c[i][j][e];
        const int64_t at = (blockIdx.z * p.m + row) * p.ldc + col;
        if (p.type == DType::kF32) {
          auto* to = static_cast<float*>(p.c) + at;
          *to = p.accumulate ? sum + *to : sum;
        } else {
          auto* to = static_cast<Bf16*>(p.c) + at;
          if (p.bias) sum += widen(p.bias[col]);
          *to = narrow(p.accumulate ? widen(narrow(sum)) + widen(*to) : sum);
        }
      }
}

// Weight gradients of small matrices have too few tiles for a GPU: k is summed in chunks of this size, which depends
// on the matrix only. 0: k is not split.
int64_t chunk_of(const ProductBf16& p) {
  if (p.a.k_stride == 1 || p.b.k_stride == 1 || p.type != DType::kF32) return 0;
  const int64_t tiles = (p.m + 127) / 128 * ((p.n + 127) / 128);
  return tiles < kMultiprocessors ? 4096 : tiles < 2 * kMultiprocessors ? 8192 : 0;
}

}  // namespace

void CudaDevice::product_bf16(const ProductBf16& p) {
  if (p.m <= 0 || p.n <= 0) return;
  const auto run = [&](const ProductBf16& one, int64_t chunk, int64_t chunks) {
    // One row: with k = 5632, cuBLASLt's result differs in some bits from that of many rows.
    const bool library = one.m > 1;
    if (library && !cublas_tried_) cublas_ = Cublas::open(stream_, memory_), cublas_tried_ = true;
    if (library && cublas_ && cublas_->product(one, chunk, chunks)) return;
    const dim3 grid(static_cast<unsigned>((one.n + kTile - 1) / kTile), static_cast<unsigned>((one.m + kTile - 1) / kTile),
                    static_cast<unsigned>(chunks));
    launch(stream_, grid, 128, 0, product_kernel, one, chunk > 0 ? chunk : std::max<int64_t>(one.k, 1));
  };
  const int64_t chunk = chunk_of(p), full_chunks = chunk > 0 ? p.k / chunk : 0, tail = chunk > 0 ? p.k % chunk : 0;
  const int64_t count = full_chunks + (tail > 0);
  if (count <= 1) return run(p, 0, 1);
  const int64_t size = p.m * p.n;
  const CudaScratch<float> scratch(memory_, count * size);
  float* parts = scratch.data();
  ProductBf16 part = p;
  part.c = parts, part.ldc = p.n, part.accumulate = false, part.k = full_chunks * chunk;
  run(part, chunk, full_chunks);
  if (tail > 0) {
    const auto from_tail = [&](const Operand& x) {
      Operand moved = x;
      moved.data = static_cast<const Bf16*>(x.data) + full_chunks * chunk * x.k_stride;
      return moved;
    };
    part.a = from_tail(p.a), part.b = from_tail(p.b), part.c = parts + full_chunks * size, part.k = tail;
    run(part, 0, 1);
  }
  auto* c = static_cast<float*>(p.c);
  const bool vector = p.n % 8 == 0 && p.ldc == p.n && aligned(c), accumulate = p.accumulate;
  const int64_t n = p.n, ldc = p.ldc;
  each8(stream_, size, [=] __device__(int64_t i, int64_t left) {
    float sum[8], v[8];
    if (vector && accumulate)
      load8(c + i, left, true, sum);
    else
      for (int j = 0; j < 8; ++j)
        sum[j] = accumulate && j < left ? c[(i + j) / n * ldc + (i + j) % n] : 0.0f;
    for (int64_t s = 0; s < count; ++s) {
      load8(parts + s * size + i, left, vector, v);
      for (int j = 0; j < 8; ++j) sum[j] += v[j];
    }
    if (vector) return store8(c + i, left, true, sum);
    for (int j = 0; j < 8; ++j)
      if (j < left) c[(i + j) / n * ldc + (i + j) % n] = sum[j];
  });
}

}  // namespace makar
