// Products of up to 8 rows with quantized weights, as in decoding. A block of eight warps multiplies a tile of 16 weight rows: each
// warp takes every eighth group of k, and its weights are on their way before the kernel before this one has ended. The sums of
// the blocks of 64 k meet in shared memory and are added in order there.
#include "kernels/cuda/quant_product.cuh"
#include "kernels/cuda/streamed.cuh"

namespace makar::kernels::cuda {
namespace {

constexpr int kFewWarps = 8, kFewThreads = 32 * kFewWarps, kMaxFewRows = kActivationRows;

template <int kForm>
struct Group {
  BlockValues<kForm> values[kGroupBlocks];
  GroupScales<kForm> scales;

  __device__ void load(const std::byte* group, int lane) {
#pragma unroll
    for (int b = 0; b < kGroupBlocks; ++b) values[b].load(group, b, lane);
    scales.load(group, lane / 4);
  }
};

// Floats of shared memory: the sums of the blocks [products][blocks][rows][16], the scales of the activations [blocks][rows].
inline size_t few_bytes(const QuantProducts& p) {
  const size_t products = p.ending == QuantEnding::kGated ? 2 : 1;
  return sizeof(float) * p.blocks * p.m * (products * kQuantTileRows + 1);
}

template <int kForm>
__global__ void __launch_bounds__(kFewThreads) quant_few_kernel(const __grid_constant__ QuantProducts p) {
  using F = FormOf<kForm>;
  constexpr int kBytes = activation_bytes(F::kParts, F::F.mins);
  let_next_kernel_start();
  auto* const few_shared = reinterpret_cast<float*>(dynamic_shared());
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pairs = p.ending == QuantEnding::kGated ? 2 : 1;
  int tile = static_cast<int>(blockIdx.x), first = 0;
  if (pairs == 1)
    while (first + 1 < p.count && tile >= p.products[first].tiles) tile -= p.products[first++].tiles;
  float *sums = few_shared, *scales = few_shared + static_cast<size_t>(pairs) * p.blocks * p.m * kQuantTileRows;

  int expert = 0;
  if (p.experts) {
    wait_for_previous_kernel();
    expert = p.experts[blockIdx.y];
    if (expert < 0) return;
  }
  const int row0 = static_cast<int>(blockIdx.y) * kActivationRows;
  const std::byte* const a_rows = p.a + static_cast<int64_t>(blockIdx.y) * p.groups * kGroupBlocks * kBytes;
  const int row = lane % 4 * 2;  // the first of this lane's rows of activations
  const int units = pairs * p.groups;  // a unit: a group of one of the products
  const auto group_at = [&](int unit) {
    const QuantProducts::Product& product = p.products[first + unit / p.groups];
    return product.b + expert * product.expert_bytes + (static_cast<int64_t>(tile) * p.groups + unit % p.groups) * F::kGroupBytes;
  };
  Group<kForm> now, next;
  if (warp < units) now.load(group_at(warp), lane);
  wait_for_previous_kernel();
  for (int i = threadIdx.x; i < p.blocks * p.m; i += kFewThreads) {
    const int b = i / p.m, r = i % p.m;
    scales[i] = reinterpret_cast<const float*>(a_rows + static_cast<int64_t>(b) * kBytes + kActivationValues)[r];
  }
  for (int unit = warp; unit < units; unit += kFewWarps) {
    const int group = unit % p.groups;
    const std::byte* records = a_rows + static_cast<int64_t>(group) * kGroupBlocks * kBytes;
    uint4 a[kGroupBlocks];
#pragma unroll
    for (int b = 0; b < kGroupBlocks; ++b) {
      a[b] = make_uint4(0, 0, 0, 0);
      if (lane / 4 < p.m && group * kGroupBlocks + b < p.blocks) a[b] = *reinterpret_cast<const uint4*>(records + b * kBytes + lane * 16);
    }
    if (unit + kFewWarps < units) next.load(group_at(unit + kFewWarps), lane);
#pragma unroll
    for (int b = 0; b < kGroupBlocks; ++b) {
      const int block = group * kGroupBlocks + b;
      if (block >= p.blocks) break;
      const BlockScales<kForm> s(now.scales.of(b));
      float2 part[F::kParts] = {};
      if constexpr (F::F.mins)
        if (row < p.m)
#pragma unroll
          for (int q = 0; q < F::kParts; ++q)
            part[q] = *reinterpret_cast<const float2*>(records + b * kBytes + kActivationValues + 32 * (1 + q) + lane % 4 * 8);
      float t[4];
      block_sums<kForm>(now.values[b], s, a[b], part, t);
      float* to = sums + (static_cast<int64_t>(unit / p.groups * p.blocks + block) * p.m + row) * kQuantTileRows + lane / 4;
      if (row < p.m) to[0] = t[0], to[8] = t[2];
      if (row + 1 < p.m) to[kQuantTileRows] = t[1], to[kQuantTileRows + 8] = t[3];
    }
    now = next;
  }
  __syncthreads();

  // One thread per row and weight row adds the blocks in order; gate and up are one after another.
  const int outputs = p.m * kQuantTileRows, index = static_cast<int>(threadIdx.x);
  if (index >= outputs) return;
  const int out_row = index / kQuantTileRows, column = tile * kQuantTileRows + index % kQuantTileRows;
  const auto add_blocks = [&](const float* t, float y) {
#pragma unroll 8
    for (int b = 0; b < p.blocks; ++b) y = fmaf(t[static_cast<int64_t>(b) * outputs + index], scales[b * p.m + out_row], y);
    return y;
  };
  QuantProducts::Product to = of_expert(p.products[first], expert);
  if (row0 > 0) to.c += row0 * to.ldc;
  const float sum = add_blocks(sums, start_of(p, to, out_row, column));
  if (pairs == 1) return finish(p, to, out_row, column, sum);
  finish_gated(p, out_row, column, sum, add_blocks(sums + static_cast<int64_t>(p.blocks) * outputs, 0.0f));
}

template <int kForm>
void run(cudaStream_t stream, const QuantProducts& p) {
  const auto kernel = quant_few_kernel<kForm>;
  static const cudaError_t ready = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes);
  cuda_check(ready, "products of few rows with quantized weights");
  int tiles = 0;
  for (int i = 0; i < (p.ending == QuantEnding::kGated ? 1 : p.count); ++i) tiles += p.products[i].tiles;
  launch_early(stream, dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(p.row_tiles)), kFewThreads, few_bytes(p), kernel, p);
}

}  // namespace

bool fits_quant_few(const QuantProducts& p) {
  const size_t most = p.experts ? kMaxSharedBytes : 100 * 1024;  // dense products of long rows are faster in tiles
  return p.m <= kMaxFewRows && few_bytes(p) <= most;
}

void run_quant_few(cudaStream_t stream, int form, const QuantProducts& p) {
  with_form(form, [&](auto f) { run<decltype(f)::value>(stream, p); });
}

}  // namespace makar::kernels::cuda
