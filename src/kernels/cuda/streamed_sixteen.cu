// Products of up to 16 rows: a block processes 32 or 64 weight rows with all rows of A; some warps copy stages of both to a
// ring in shared memory, the others multiply, each 16 weight rows. The first stages of the weights are copied while the kernel
// before this one still runs.
#include "kernels/cuda/streamed.cuh"

namespace makar::kernels::cuda {
namespace {

constexpr int kDepth = 128, kPitch = kDepth * 2 + 16;  // k per stage, and bytes between its rows
constexpr int kCopyWarps = 4, kMaxStages = 8, kBarrierBytes = 128;

// What finish() and residual_of() do, with an ending that is known at run time only.
__device__ inline float residual_at(const Streamed& p, const Streamed::Product& to, int row, int column) {
  return p.ending == Ending::kAdd ? residual_of<Ending::kAdd>(p, to, row, column) : 0.0f;
}
__device__ inline void end_sum(const Streamed& p, const Streamed::Product& to, int row, int column, float sum, float up, float residual) {
  if (p.ending == Ending::kStore) return finish<Ending::kStore>(p, to, row, column, sum, up, residual);
  if (p.ending == Ending::kAdd) return finish<Ending::kAdd>(p, to, row, column, sum, up, residual);
  finish<Ending::kGated>(p, to, row, column, sum, up, residual);
}

// kGroups: groups of 16 weight rows; kBlocks: blocks of 8 rows of A per warp; kParts: warps over the rows of A.
template <bool kPair, int kGroups, int kBlocks, int kParts>
struct Config {
  static constexpr int kWeightRows = 16 * kGroups, kRows = 8 * kBlocks * kParts;
  static constexpr int kStageRows = (kPair ? 2 : 1) * kWeightRows + kRows, kStageBytes = kStageRows * kPitch;
  static constexpr int kConsumers = kGroups * kParts, kThreads = 32 * (kConsumers + kCopyWarps);
};

template <bool kPair, int kGroups, int kBlocks, int kParts>
__global__ void __launch_bounds__(Config<kPair, kGroups, kBlocks, kParts>::kThreads)
    sixteen_kernel(const __grid_constant__ Streamed p, int stages) {
  using C = Config<kPair, kGroups, kBlocks, kParts>;
  let_next_kernel_start();
  std::byte* const shared = dynamic_shared();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t base = shared_address(shared), ring = base + kBarrierBytes;
  const auto full = [&](int slot) { return base + slot * 8; };
  const auto empty = [&](int slot) { return base + (kMaxStages + slot) * 8; };
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) barrier_init(full(i), 32 * kCopyWarps), barrier_init(empty(i), C::kConsumers);
    barriers_ready();
  }
  __syncthreads();
  int tile = static_cast<int>(blockIdx.x);
  const int product = product_of(p, tile), steps = (p.k + kDepth - 1) / kDepth, row0 = tile * C::kWeightRows;
  const Streamed::Product& to = p.products[product];

  if (warp >= C::kConsumers) {
    const int rows = min(C::kWeightRows, to.n - row0);
    constexpr int kChunks = kDepth / 8, kStep = 32 * kCopyWarps / kChunks;  // 16 bytes per thread, rows at a time
    const int thread = static_cast<int>(threadIdx.x) - 32 * C::kConsumers, chunk = thread % kChunks, row = thread / kChunks;
    // Copies `count` rows of the matrix at `from` to row `at` of the stage.
    const auto put = [&](int s, int at, const Bf16* from, int count) {
      if (s * kDepth + chunk * 8 >= p.k) return;
      const uint32_t to = ring + s % stages * C::kStageBytes + at * kPitch + chunk * 16;
      from += s * kDepth + chunk * 8;
#pragma unroll 4
      for (int r = row; r < count; r += kStep) copy16(to + r * kPitch, from + static_cast<int64_t>(r) * p.k, true);
    };
    const auto put_weights = [&](int s) {
      put(s, 0, to.b + static_cast<int64_t>(row0) * p.k, rows);
      if constexpr (kPair) put(s, C::kWeightRows, p.products[1].b + static_cast<int64_t>(row0) * p.k, rows);
    };
    const auto put_rows = [&](int s) {
      put(s, C::kStageRows - C::kRows, p.a, p.m);
      barrier_arrive_after_copies(full(s % stages));
    };
    for (int s = 0; s < stages && s < steps; ++s) put_weights(s);  // they do not depend on the kernel before this one
    wait_for_previous_kernel();
    for (int s = 0; s < stages && s < steps; ++s) put_rows(s);
    for (int s = stages; s < steps; ++s) {
      barrier_wait(empty(s % stages), (s / stages - 1) & 1);
      put_weights(s);
      put_rows(s);
    }
    return;
  }

  wait_for_previous_kernel();  // before anything is written
  const int group = warp % kGroups, part = warp / kGroups;
  float d[kBlocks][4] = {}, u[kPair ? kBlocks : 1][4] = {};
  for (int s = 0; s < steps; ++s) {
    const int slot = s % stages;
    barrier_wait(full(slot), s / stages & 1);
    const uint32_t stage = ring + slot * C::kStageBytes;
    const uint32_t weights = stage + (group * 16 + lane % 16) * kPitch + lane / 16 * 16;
    const uint32_t rows = stage + (C::kStageRows - C::kRows + part * 8 * kBlocks + lane / 16 * 8 + lane % 8) * kPitch + (lane / 8 & 1) * 16;
#pragma unroll
    for (int i = 0; i < kDepth / 16; ++i) {
      uint32_t w[4], v[4], x[kBlocks / 2][4];
      load_matrices(w, weights + i * 32);
      if constexpr (kPair) load_matrices(v, weights + C::kWeightRows * kPitch + i * 32);
#pragma unroll
      for (int n = 0; n < kBlocks / 2; ++n) load_matrices(x[n], rows + n * 16 * kPitch + i * 32);
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        mma(d[n], w, x[n / 2][n % 2 * 2], x[n / 2][n % 2 * 2 + 1]);
        if constexpr (kPair) mma(u[n], v, x[n / 2][n % 2 * 2], x[n / 2][n % 2 * 2 + 1]);
      }
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(empty(slot));
  }
#pragma unroll
  for (int n = 0; n < kBlocks; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = (part * kBlocks + n) * 8 + lane % 4 * 2 + e % 2, column = row0 + group * 16 + lane / 4 + e / 2 * 8;
      end_sum(p, to, row, column, d[n][e], kPair ? u[kPair ? n : 0][e] : 0.0f, residual_at(p, to, row, column));
    }
}

template <bool kPair, int kGroups, int kBlocks, int kParts>
void run(cudaStream_t stream, Streamed p) {
  using C = Config<kPair, kGroups, kBlocks, kParts>;
  constexpr int kBudget = 112 * 1024;  // two blocks share a multiprocessor
  const int stages = std::clamp((kBudget - kBarrierBytes) / C::kStageBytes, 2, kMaxStages);
  const size_t shared = kBarrierBytes + static_cast<size_t>(stages) * C::kStageBytes;
  static_assert(kBarrierBytes + 2 * C::kStageBytes <= kMaxSharedBytes);
  static const cudaError_t ready = cudaFuncSetAttribute(sixteen_kernel<kPair, kGroups, kBlocks, kParts>,
                                                        cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes);
  cuda_check(ready, "products of 16 rows");
  p.tiles = 0;
  for (int i = 0; i < (kPair ? 1 : p.count); ++i)
    p.tiles += p.products[i].tiles = (p.products[i].n + C::kWeightRows - 1) / C::kWeightRows;
  launch_early(stream, dim3(static_cast<unsigned>(p.tiles)), C::kThreads, shared, sixteen_kernel<kPair, kGroups, kBlocks, kParts>, p,
               stages);
}

}  // namespace

// Fewer weight rows per block where there would be too few blocks.
void run_sixteen(cudaStream_t stream, const Streamed& p) {
  if (p.ending == Ending::kGated) return run<true, 2, 2, 1>(stream, p);
  int64_t rows = 0;
  for (int i = 0; i < p.count; ++i) rows += p.products[i].n;
  rows >= 64 * kMultiprocessors ? run<false, 4, 2, 1>(stream, p) : run<false, 2, 2, 1>(stream, p);
}

}  // namespace makar::kernels::cuda
