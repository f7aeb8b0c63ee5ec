// Products of routed rows in bf16: a block multiplies the rows of a tile by 64 or 128 weight rows of the tile's expert, with a ring
// of stages of k in shared memory. Sums run along k in steps of 16 from zero, as in bf16_product.cu.
#include "kernels/cuda/expert_products.cuh"

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/streamed.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int kMaxProducts = 2, kWarps = 4, kBlockThreads = 32 * kWarps;
constexpr int kDepth = 64, kRowBytes = kDepth * 2, kChunks = kDepth / 8;  // chunks of 16 bytes

struct Routed {
  const int32_t *experts, *rows;
  const Bf16* x;
  bool gathered, aligned;  // aligned: rows begin at multiples of 16 bytes
  int k, count;
  struct Product {
    const Bf16* b;
    int64_t step;  // values from one expert to the next
    Bf16* y;
    const float* const* biases;
    int n, tiles;
  } products[kMaxProducts];
};

// kPlaces: the rows of a tile; each warp multiplies kTiles tiles of 16 weight rows.
template <int kPlaces, int kTiles, int kStages_>
struct Ring {
  static constexpr int kWeightRows = kWarps * kTiles * kTileRows, kStages = kStages_;
  static constexpr int kWeightBytes = kWeightRows * kRowBytes, kStageBytes = kWeightBytes + kPlaces * kRowBytes;
  static constexpr int kShared = kStages * kStageBytes;
};

// The address of 16 bytes in a stage: eight rows at one column are in different banks.
__device__ inline uint32_t chunk_at(uint32_t base, int row, int chunk) { return base + row * kRowBytes + ((chunk ^ (row & 7)) << 4); }

// Starts copying 8 values, of which those from `left` on are zero.
__device__ inline void copy8(uint32_t to, const Bf16* from, int left, bool aligned) {
  if (aligned) return copy16(to, from, left > 0);
  float v[8];
  load8(from, left, false, v);
  store_shared(to, pack_eight(v));
}

template <int kPlaces, int kTiles, int kStages>
__global__ void __launch_bounds__(kBlockThreads) routed_kernel(const __grid_constant__ Routed p) {
  using R = Ring<kPlaces, kTiles, kStages>;
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int expert = p.experts[blockIdx.y];
  if (expert < 0) return;
  __shared__ int sources[kPlaces];  // the row of x of each place; -1: none
  const uint32_t base = shared_address(dynamic_shared());
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int tile = static_cast<int>(blockIdx.x), product = 0;
  while (product + 1 < p.count && tile >= p.products[product].tiles) tile -= p.products[product++].tiles;
  const Routed::Product& to = p.products[product];
  const int column0 = tile * R::kWeightRows, place0 = static_cast<int>(blockIdx.y) * kPlaces;
  for (int i = threadIdx.x; i < kPlaces; i += kBlockThreads) {
    const int row = p.rows[place0 + i];
    sources[i] = row < 0 || p.gathered ? row : place0 + i;
  }
  __syncthreads();

  const Bf16* weights = to.b + expert * to.step;
  const int steps = (p.k + kDepth - 1) / kDepth, chunk = threadIdx.x % kChunks, first = threadIdx.x / kChunks;
  const auto copy_stage = [&](int s) {
    const uint32_t stage = base + s % kStages * R::kStageBytes;
    const int k0 = s * kDepth + chunk * 8;
    const auto copy = [&](uint32_t rows, int r, const Bf16* x, int64_t row, bool valid) {
      valid = valid && k0 < p.k;
      copy8(chunk_at(rows, r, chunk), valid ? x + row * p.k + k0 : x, valid ? p.k - k0 : 0, p.aligned);
    };
#pragma unroll
    for (int r = first; r < R::kWeightRows; r += kBlockThreads / kChunks) copy(stage, r, weights, column0 + r, column0 + r < to.n);
#pragma unroll
    for (int r = first; r < kPlaces; r += kBlockThreads / kChunks)
      copy(stage + R::kWeightBytes, r, p.x, sources[r], sources[r] >= 0);
  };
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < steps) copy_stage(s);
    copies_commit();
  }
  float d[kTiles][kPlaces / 8][4] = {};
  for (int s = 0; s < steps; ++s) {
    copies_wait<kStages - 2>();
    __syncthreads();
    if (s + kStages - 1 < steps) copy_stage(s + kStages - 1);
    copies_commit();
    const uint32_t stage = base + s % kStages * R::kStageBytes, rows = stage + R::kWeightBytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // 32 k
      uint32_t w[kTiles][2][4], x[kPlaces / 8][4];
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int step = 0; step < 2; ++step)
          load_matrices(w[i][step], chunk_at(stage, (warp * kTiles + i) * kTileRows + lane % 16, half * 4 + 2 * step + lane / 16));
#pragma unroll
      for (int j = 0; j < kPlaces / 8; ++j) load_matrices(x[j], chunk_at(rows, j * 8 + lane % 8, half * 4 + lane / 8));
#pragma unroll
      for (int step = 0; step < 2; ++step)
#pragma unroll
        for (int i = 0; i < kTiles; ++i)
#pragma unroll
          for (int j = 0; j < kPlaces / 8; ++j) mma(d[i][j], w[i][step], x[j][2 * step], x[j][2 * step + 1]);
    }
  }
  const float* bias = to.biases ? to.biases[expert] : nullptr;
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int j = 0; j < kPlaces / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = column0 + (warp * kTiles + i) * kTileRows + lane / 4 + e / 2 * 8, row = j * 8 + lane % 4 * 2 + e % 2;
        if (column < to.n && sources[row] >= 0)
          to.y[static_cast<int64_t>(place0 + row) * to.n + column] = with_bias(d[i][j][e], bias, column);
      }
}

template <int kPlaces, int kTiles, int kStages>
void run(cudaStream_t stream, Routed p, int64_t tiles) {
  using R = Ring<kPlaces, kTiles, kStages>;
  const auto kernel = routed_kernel<kPlaces, kTiles, kStages>;
  static const cudaError_t ready = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, R::kShared);
  cuda_check(ready, "products of experts");
  int all = 0;
  for (int i = 0; i < p.count; ++i) all += p.products[i].tiles = (p.products[i].n + R::kWeightRows - 1) / R::kWeightRows;
  launch_early(stream, dim3(static_cast<unsigned>(all), static_cast<unsigned>(tiles)), kBlockThreads, R::kShared, kernel, p);
}

constexpr int64_t kMaxTileBlocks = 65535;  // limit of a grid's y dimension, of kFewPlaces places or more each

}  // namespace

void kernels::cuda::run_routed_bf16(cudaStream_t stream, const ExpertProducts& a) {
  for (int64_t first = 0; first < a.count; first += kMaxProducts) {
    Routed p{a.tiles.experts, a.tiles.rows, static_cast<const Bf16*>(a.x), a.gathered, aligned(a.x), 0, 0, {}};
    for (int64_t i = first; i < std::min(a.count, first + kMaxProducts); ++i) {
      const CudaExperts w(a.products[i], a.experts);
      p.k = static_cast<int>(w.first->k());
      p.products[p.count++] = {reinterpret_cast<const Bf16*>(w.first->data()), w.step / 2, static_cast<Bf16*>(a.products[i].y),
                               a.products[i].biases, static_cast<int>(w.first->n()), 0};
    }
    p.aligned = p.aligned && p.k % 8 == 0;
    a.tiles.rows_per_tile == kFewPlaces ? run<kFewPlaces, 1, 6>(stream, p, a.tiles.count)
                                        : run<kManyPlaces, 2, 4>(stream, p, a.tiles.count);
  }
}

int64_t CudaDevice::rows_per_tile(int64_t routed_rows, int64_t experts) const {
  return routed_rows >= 24 * experts ? kManyPlaces : kFewPlaces;
}

void CudaDevice::expert_products(const ExpertProducts& all) {
  const ExpertTiles& tiles = all.tiles;
  const int64_t most = kMaxTileBlocks * kFewPlaces / tiles.rows_per_tile;
  for (int64_t first = 0; first < tiles.count; first += most) {
    ExpertProducts a = all;  // part of the tiles
    const int64_t places = first * tiles.rows_per_tile;
    a.tiles = {tiles.rows_per_tile, std::min(most, tiles.count - first), tiles.experts + first, tiles.rows + places};
    std::vector<ExpertProduct> products(all.products, all.products + all.count);
    const int64_t k = products[0].weights[0]->k();
    if (!a.gathered) a.x = static_cast<const std::byte*>(a.x) + bytes_of(a.type, places * k);
    for (ExpertProduct& p : products) p.y = static_cast<std::byte*>(p.y) + bytes_of(a.type, places * p.weights[0]->n());
    a.products = products.data();
    if (a.type == DType::kBF16)
      run_routed_bf16(stream_, a);
    else if (static_cast<const CudaWeight&>(*products[0].weights[0]).form() >= 0)
      run_routed_quant(stream_, memory_, a);
    else
      run_routed_f32(stream_, a);
  }
}

}  // namespace makar
