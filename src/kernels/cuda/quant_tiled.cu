// Products of many rows with quantized weights: int8 on tensor cores, with a ring of groups of k in shared memory.
#include "kernels/cuda/expert_products.cuh"
#include "kernels/cuda/quant_product.cuh"
#include "kernels/cuda/streamed.cuh"

namespace makar::kernels::cuda {
namespace {

// A block has kWarpsM x kWarpsN warps; a warp multiplies kTilesM tiles of 16 weight rows with kTilesN tiles of 8 rows.
template <int kWarpsM_, int kWarpsN_, int kTilesM_, int kTilesN_, int kStages_>
struct Shape {
  static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_, kTilesM = kTilesM_, kTilesN = kTilesN_, kStages = kStages_;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kWeightTiles = kWarpsM * kTilesM, kRowTiles = kWarpsN * kTilesN;
};
template <int kForm, class S>
struct Stage {
  static constexpr int kRecord = activation_bytes(FormOf<kForm>::kParts, FormOf<kForm>::F.mins);
  static constexpr int kRows = kGroupBlocks * kRecord;  // of a tile of activations
  static constexpr int kWeights = S::kWeightTiles * FormOf<kForm>::kGroupBytes;
  static constexpr int kBytes = kWeights + S::kRowTiles * kRows;
  static constexpr size_t kShared = static_cast<size_t>(S::kStages) * kBytes;
};

template <int kThreads>
__device__ inline void copy_span(uint32_t to, const std::byte* from, int bytes) {
  for (int at = static_cast<int>(threadIdx.x) * 16; at < bytes; at += kThreads * 16) copy16(to + at, from + at, true);
}

template <int kForm, class S>
__global__ void __launch_bounds__(S::kThreads) quant_tiled_kernel(const __grid_constant__ QuantProducts p) {
  using F = FormOf<kForm>;
  using Ring = Stage<kForm, S>;
  let_next_kernel_start();
  std::byte* const tiled_shared = dynamic_shared();
  const uint32_t base = shared_address(tiled_shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp % S::kWarpsM, wn = warp / S::kWarpsM;
  int place = static_cast<int>(blockIdx.y), product = 0;
  const auto places = [&](int i) { return (p.products[i].tiles + S::kWeightTiles - 1) / S::kWeightTiles; };
  while (product + 1 < p.count && place >= places(product)) place -= places(product++);
  int expert = 0;
  if (p.experts) {
    wait_for_previous_kernel();
    expert = p.experts[blockIdx.x];
    if (expert < 0) return;
  }
  const QuantProducts::Product to = of_expert(p.products[product], expert);
  const int tile0 = place * S::kWeightTiles, row_tile0 = static_cast<int>(blockIdx.x) * S::kRowTiles;
  const int row_tiles = (p.m + kActivationRows - 1) / kActivationRows;

  const auto copy_weights = [&](int group) {
    const uint32_t stage = base + group % S::kStages * Ring::kBytes;
    for (int i = 0; i < S::kWeightTiles; ++i)  // tiles behind the last one repeat it and are not stored
      copy_span<S::kThreads>(stage + i * F::kGroupBytes,
                             to.b + (static_cast<int64_t>(min(tile0 + i, to.tiles - 1)) * p.groups + group) * F::kGroupBytes,
                             F::kGroupBytes);
  };
  const auto copy_rows = [&](int group) {
    const uint32_t stage = base + group % S::kStages * Ring::kBytes + Ring::kWeights;
    for (int i = 0; i < S::kRowTiles; ++i)
      copy_span<S::kThreads>(stage + i * Ring::kRows,
                             p.a + (static_cast<int64_t>(min(row_tile0 + i, row_tiles - 1)) * p.groups + group) * Ring::kRows, Ring::kRows);
  };
  for (int g = 0; g < S::kStages - 1 && g < p.groups; ++g) copy_weights(g);  // they do not depend on the kernel before this one
  wait_for_previous_kernel();
  for (int g = 0; g < S::kStages - 1; ++g) {
    if (g < p.groups) copy_rows(g);
    copies_commit();
  }

  float y[S::kTilesM][S::kTilesN][4];
  const auto each_output = [&](auto&& body) {
#pragma unroll
    for (int i = 0; i < S::kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < S::kTilesN; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          body(y[i][j][e], (row_tile0 + wn * S::kTilesN + j) * kActivationRows + lane % 4 * 2 + e % 2,
               (tile0 + wm * S::kTilesM + i) * kQuantTileRows + lane / 4 + e / 2 * 8);
  };
  each_output([&](float& sum, int row, int column) { sum = start_of(p, to, row, column); });
  for (int group = 0; group < p.groups; ++group) {
    copies_wait<S::kStages - 2>();
    __syncthreads();
    if (group + S::kStages - 1 < p.groups) copy_weights(group + S::kStages - 1), copy_rows(group + S::kStages - 1);
    copies_commit();
    const std::byte* stage = tiled_shared + group % S::kStages * Ring::kBytes;
    const std::byte* weights = stage + wm * S::kTilesM * F::kGroupBytes;
    const std::byte* rows = stage + Ring::kWeights + wn * S::kTilesN * Ring::kRows;
    const int blocks = min(kGroupBlocks, p.blocks - group * kGroupBlocks);
#pragma unroll 1
    for (int b = 0; b < blocks; ++b) {
#pragma unroll
      for (int i = 0; i < S::kTilesM; ++i) {
        BlockValues<kForm> w;
        StoredScales<kForm> stored;
        w.load(weights + i * F::kGroupBytes, b, lane), stored.load(weights + i * F::kGroupBytes, b, lane / 4);
        const BlockScales<kForm> s(stored);
#pragma unroll
        for (int j = 0; j < S::kTilesN; ++j) {
          const std::byte* record = rows + j * Ring::kRows + b * Ring::kRecord;
          const uint4 a = *reinterpret_cast<const uint4*>(record + lane * 16);
          const float2 d = *reinterpret_cast<const float2*>(record + kActivationValues + lane % 4 * 8);
          float2 part[F::kParts] = {};
          if constexpr (F::F.mins)
#pragma unroll
            for (int q = 0; q < F::kParts; ++q)
              part[q] = *reinterpret_cast<const float2*>(record + kActivationValues + 32 * (1 + q) + lane % 4 * 8);
          float t[4];
          block_sums<kForm>(w, s, a, part, t);
#pragma unroll
          for (int e = 0; e < 4; ++e) y[i][j][e] = fmaf(t[e], e % 2 ? d.y : d.x, y[i][j][e]);
        }
      }
    }
  }
  each_output([&](float& sum, int row, int column) { finish(p, to, row, column, sum); });
}

template <int kForm, class S>
void run(cudaStream_t stream, const QuantProducts& p) {
  const auto kernel = quant_tiled_kernel<kForm, S>;
  constexpr size_t kShared = Stage<kForm, S>::kShared;
  static_assert(kShared <= kMaxSharedBytes);
  static const cudaError_t ready = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes);
  cuda_check(ready, "products with quantized weights");
  int places = 0;
  for (int i = 0; i < p.count; ++i) places += (p.products[i].tiles + S::kWeightTiles - 1) / S::kWeightTiles;
  const int rows = S::kRowTiles * kActivationRows;
  launch_early(stream, dim3(static_cast<unsigned>((p.m + rows - 1) / rows), static_cast<unsigned>(places)), S::kThreads, kShared, kernel, p);
}

using Slim = Shape<4, 1, 1, 1, 4>;    // 64 weight rows by 8 rows
using Narrow = Shape<1, 8, 1, 1, 4>;  // 16 weight rows by 64 rows
using Middle = Shape<4, 2, 1, 4, 3>;  // 64 by 64
using Large = Shape<4, 2, 2, 8, 2>;   // 128 by 128
static_assert(Middle::kRowTiles * kActivationRows == kManyPlaces && Slim::kRowTiles * kActivationRows == kFewPlaces);

}  // namespace

void run_quant_tiled(cudaStream_t stream, int form, const QuantProducts& p) {
  int tiles = 0;
  for (int i = 0; i < p.count; ++i) tiles += p.products[i].tiles;
  with_form(form, [&](auto f) {
    constexpr int kForm = decltype(f)::value;
    if (p.experts && p.m == kFewPlaces) {
      QuantProducts all = p;  // the rows of all tiles
      all.m = kFewPlaces * p.row_tiles;
      return run<kForm, Slim>(stream, all);
    }
    if (p.experts) return run<kForm, Middle>(stream, p);
    if (p.m <= 64) return tiles <= 2 * kMultiprocessors ? run<kForm, Narrow>(stream, p) : run<kForm, Middle>(stream, p);
    const int64_t large = static_cast<int64_t>((tiles + 7) / 8) * ((p.m + 127) / 128);
    large < kMultiprocessors ? run<kForm, Middle>(stream, p) : run<kForm, Large>(stream, p);
  });
}

}  // namespace makar::kernels::cuda
