// Products of few rows with packed weights, as in decoding: a block processes tiles of 16 weight rows with all rows of A, and
// copies stages of k into a ring in shared memory. Sums run along k in steps of 16 from zero, as in bf16_product.cu, so the
// bits do not depend on the number of rows.
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/cuda_weight.cuh"
#include "kernels/cuda/streamed.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int kMaxProducts = 4, kMaxRows = 16;
constexpr int kDepth = 256, kRowBytes = kDepth * 2;  // a stage has 16 weight rows by 256 k
constexpr int kThreadsPerBlock = 128, kChunks = kDepth / 8;          // chunks of 16 bytes per row

struct FewRows {
  int m, k, count, tiles;
  const Bf16* a;
  struct Product {
    const Bf16* b;
    Bf16* c;
    const float* bias;
    int n, tiles;
  } products[kMaxProducts];
};

// kRows: 8 or 16 rows of A.
template <int kRows>
struct Ring {
  static constexpr int kStageBytes = (kTileRows + kRows) * kRowBytes;
  static constexpr int kStages = 104 * 1024 / kStageBytes;  // two blocks share a multiprocessor
  static constexpr int kShared = kStages * kStageBytes;
};

// The address of 16 bytes in a stage: eight rows at one column are in different banks.
__device__ inline uint32_t chunk_address(uint32_t base, int row, int chunk) { return base + row * kRowBytes + ((chunk ^ (row & 7)) << 4); }

// Starts copying k0 to k0 + kDepth of rows [row0, row0 + kRows); rows from `rows` on and k from `k` on are zero.
template <int kRows>
__device__ inline void copy_rows(uint32_t to, const Bf16* from, int row0, int rows, int k0, int k) {
  const int chunk = threadIdx.x % kChunks;
  const bool inside = k0 + chunk * 8 < k;
#pragma unroll
  for (int r = threadIdx.x / kChunks; r < kRows; r += kThreadsPerBlock / kChunks) {
    const bool valid = inside && row0 + r < rows;
    copy16(chunk_address(to, r, chunk), valid ? from + static_cast<int64_t>(row0 + r) * k + k0 + chunk * 8 : from, valid);
  }
}

template <int kRows>
__global__ void __launch_bounds__(kThreadsPerBlock) few_rows_kernel(const __grid_constant__ FewRows p) {
  using R = Ring<kRows>;
  std::byte* const shared = dynamic_shared();
  const uint32_t base = shared_address(shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int steps = (p.k + kDepth - 1) / kDepth;
  const int block_tiles = (p.tiles - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  const int total = block_tiles * steps;
  const auto product_of = [&](int& tile) {
    int i = 0;
    while (i + 1 < p.count && tile >= p.products[i].tiles) tile -= p.products[i++].tiles;
    return i;
  };
  const auto stage = [&](int s) { return base + s % R::kStages * R::kStageBytes; };
  const auto copy_weights = [&](int s) {
    int tile = static_cast<int>(blockIdx.x) + s / steps * static_cast<int>(gridDim.x);
    const int i = product_of(tile);
    copy_rows<kTileRows>(stage(s), p.products[i].b, tile * kTileRows, p.products[i].n, s % steps * kDepth, p.k);
  };
  const auto copy_a = [&](int s) {
    copy_rows<kRows>(stage(s) + kTileRows * kRowBytes, p.a, 0, p.m, s % steps * kDepth, p.k);
  };
  // The weights do not depend on the kernel before this one: their copies start while it is still running.
  for (int s = 0; s < R::kStages - 1 && s < total; ++s) copy_weights(s);
  wait_for_previous_kernel();
  for (int s = 0; s < R::kStages - 1; ++s) {
    if (s < total) copy_a(s);
    copies_commit();
  }
  float d[4] = {};
  for (int s = 0; s < total; ++s) {
    copies_wait<R::kStages - 2>();
    __syncthreads();
    if (s + R::kStages - 1 < total) copy_weights(s + R::kStages - 1), copy_a(s + R::kStages - 1);
    copies_commit();
    if (warp >= kRows / 8) continue;
    const uint32_t weights = stage(s), rows = weights + kTileRows * kRowBytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t w[8][4], x[4][4];  // fragments of the weights and of A
#pragma unroll
      for (int i = 0; i < 8; ++i) load_matrices(w[i], chunk_address(weights, lane % 16, half * 16 + 2 * i + lane / 16));
#pragma unroll
      for (int i = 0; i < 4; ++i) load_matrices(x[i], chunk_address(rows, warp * 8 + lane % 8, half * 16 + 4 * i + lane / 8));
#pragma unroll
      for (int i = 0; i < 8; ++i) mma(d, w[i], x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]);
    }
    if ((s + 1) % steps != 0) continue;
    int tile = static_cast<int>(blockIdx.x) + s / steps * static_cast<int>(gridDim.x);
    const FewRows::Product& to = p.products[product_of(tile)];
    for (int e = 0; e < 4; ++e) {
      const int column = tile * kTileRows + lane / 4 + e / 2 * 8, row = warp * 8 + lane % 4 * 2 + e % 2;
      if (row < p.m && column < to.n) {
        const float sum = to.bias ? d[e] + widen(narrow(to.bias[column])) : d[e];
        to.c[static_cast<int64_t>(row) * to.n + column] = narrow(sum);
      }
      d[e] = 0.0f;
    }
  }
}

template <int kRows>
void run_few_rows(cudaStream_t stream, const FewRows& p) {
  if (p.tiles == 0) return;
  using R = Ring<kRows>;
  static const cudaError_t ready =
      cudaFuncSetAttribute(few_rows_kernel<kRows>, cudaFuncAttributeMaxDynamicSharedMemorySize, R::kShared);
  cuda_check(ready, "gemm_packed_bf16");
  launch_early(stream, dim3(static_cast<unsigned>(std::min(p.tiles, 2 * kMultiprocessors))), kThreadsPerBlock, R::kShared,
               few_rows_kernel<kRows>, p);
}

// True if few_rows_kernel supports the product.
bool fits(const PackedGemmBf16& a, int64_t k) {
  bool ok = a.m <= kMaxRows && a.count <= kMaxProducts && k % 8 == 0 && k > 0 && k <= INT32_MAX && aligned(a.a);
  for (int64_t i = 0; i < a.count; ++i) ok = ok && a.products[i].b->n() <= INT32_MAX - kTileRows;
  return ok;
}

}  // namespace

void CudaDevice::gemm_packed_bf16(const PackedGemmBf16& a) {
  if (a.m <= 0 || a.count <= 0 || run_streamed(stream_, a)) return;
  const int64_t k = a.products[0].b->k();
  if (fits(a, k)) {
    FewRows p{static_cast<int>(a.m), static_cast<int>(k), static_cast<int>(a.count), 0, a.a, {}};
    for (int64_t i = 0; i < a.count; ++i) {
      const auto& weight = static_cast<const CudaWeight&>(*a.products[i].b);
      const int n = static_cast<int>(weight.n()), tiles = (n + kTileRows - 1) / kTileRows;
      p.products[i] = {reinterpret_cast<const Bf16*>(weight.data()), a.products[i].c, a.products[i].bias, n, tiles};
      p.tiles += tiles;
    }
    return a.m <= 8 ? run_few_rows<8>(stream_, p) : run_few_rows<16>(stream_, p);
  }
  for (int64_t i = 0; i < a.count; ++i) {
    const auto& weight = static_cast<const CudaWeight&>(*a.products[i].b);
    const int64_t n = weight.n();
    const CudaScratch<Bf16> bias(memory_, a.products[i].bias ? n : 0);
    if (a.products[i].bias) convert({a.products[i].bias, DType::kF32, bias.data(), DType::kBF16, n, nullptr, false});
    product_bf16({a.m, n, k, {a.a, DType::kBF16, k, 1}, weight.operand(), a.products[i].c, DType::kBF16, n, false,
                  a.products[i].bias ? bias.data() : nullptr});
  }
}

}  // namespace makar
