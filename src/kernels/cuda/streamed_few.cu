// Products of up to 8 rows: every warp sums tiles of 16 weight rows of its own and copies them through a ring of its own, so
// no warp waits for another. All of A is in shared memory, as it is or after its norm. The first stages of the weights are
// copied while the kernel before this one still runs.
#include "kernels/cuda/streamed.cuh"

namespace makar::kernels::cuda {
namespace {

constexpr int kDepth = 256, kHalf = kDepth / 2;       // k per stage, and per set of registers
constexpr int kPitch = kDepth * 2 + 16;               // bytes between rows of a stage: eight rows are in different banks
constexpr int kWarps = 4, kMaxComputing = 4;          // all warps write A; more would leave no registers to the next kernel
constexpr int kMaxStages = 12, kBarrierBytes = 1024;
constexpr int kRingBytes = 100 * 1024;                // of all warps; the rest is for the next kernel's ring
constexpr int kMaxShared = 227 * 1024;
static_assert(8 * kMaxComputing * kMaxStages <= kBarrierBytes);

template <bool kPair>
constexpr int kStageRows = kPair ? 2 * kTileRows : kTileRows;
template <bool kPair>
constexpr int kStageBytes = kStageRows<kPair> * kPitch;

int a_pitch(int k) { return k * 2 + 16; }

// Operands of eight steps of 16 k: weights, the second product's weights, A.
template <bool kPair>
struct Fragments {
  uint32_t w[8][4], up[kPair ? 8 : 1][4], x[4][4];

  __device__ void load(uint32_t weights, uint32_t a, int lane) {
    const uint32_t from = weights + lane % 16 * kPitch + lane / 16 * 16;
#pragma unroll
    for (int i = 0; i < 8; ++i) load_matrices(w[i], from + i * 32);
    if constexpr (kPair)
#pragma unroll
      for (int i = 0; i < 8; ++i) load_matrices(up[i], from + kTileRows * kPitch + i * 32);
#pragma unroll
    for (int i = 0; i < 4; ++i) load_matrices(x[i], a + lane / 8 * 16 + i * 64);
  }
  __device__ void multiply(float (&d)[4], float (&u)[4]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      mma(d, w[i], x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]);
      if constexpr (kPair) mma(u, up[i], x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]);
    }
  }
};

template <bool kPair, bool kNorm>
__global__ void __launch_bounds__(kWarps * 32, 1) few_kernel(const __grid_constant__ Streamed p, int computing, int stages) {
  let_next_kernel_start();
  extern __shared__ __align__(128) std::byte shared[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pitch = p.k * 2 + 16;
  const uint32_t base = shared_address(shared), rings = base + kBarrierBytes;
  const uint32_t a = rings + computing * stages * kStageBytes<kPair>;
  const uint32_t ring = rings + warp * stages * kStageBytes<kPair>, barriers = base + warp * stages * 8;
  if (threadIdx.x == 0) {
    for (int i = 0; i < computing * stages; ++i) barrier_init(base + 8 * i, 32);
    barriers_ready();
  }
  __syncthreads();

  // The warp's tiles are first, first + stride, ...
  const int first = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const int stride = computing * static_cast<int>(gridDim.x), steps = (p.k + kDepth - 1) / kDepth;
  const int total = warp < computing && first < p.tiles ? (p.tiles - first + stride - 1) / stride * steps : 0;
  int put_tile = first, put_step = 0;
  const auto put = [&](int slot) {
    int tile = put_tile;
    const int i = product_of(p, tile), k0 = put_step * kDepth, rows = min(kTileRows, p.products[i].n - tile * kTileRows);
    if (lane * 8 < p.k - k0) {  // one row per instruction
      const int64_t from = static_cast<int64_t>(tile * kTileRows) * p.k + k0 + lane * 8;
      const uint32_t to = ring + slot * kStageBytes<kPair> + lane * 16;
      const Bf16* b = p.products[i].b + from;
#pragma unroll
      for (int r = 0; r < kTileRows; ++r, b += p.k)
        if (r < rows) copy16(to + r * kPitch, b, true);
      if constexpr (kPair) {
        const Bf16* up = p.products[1].b + from;
#pragma unroll
        for (int r = 0; r < kTileRows; ++r, up += p.k)
          if (r < rows) copy16(to + (kTileRows + r) * kPitch, up, true);
      }
    }
    barrier_arrive_after_copies(barriers + slot * 8);
    if (++put_step == steps) put_step = 0, put_tile += stride;
  };
  for (int s = 0; s < stages && s < total; ++s) put(s);  // weights do not depend on the kernel before this one
  wait_for_previous_kernel();

  if constexpr (kNorm) {
    for (int r = warp; r < p.m; r += kWarps) norm_row(p, p.x + static_cast<int64_t>(r) * p.k, a + r * pitch, lane);
  } else {
    const int chunks = p.k / 8;
    for (int i = threadIdx.x; i < p.m * chunks; i += kWarps * 32) {
      const int r = i / chunks, c = i - r * chunks;
      copy16(a + r * pitch + c * 16, p.a + static_cast<int64_t>(r) * p.k + c * 8, true);
    }
    copies_commit();
    copies_wait<0>();
  }
  __syncthreads();
  if (total == 0) return;

  const uint32_t a_row = a + min(lane % 8, p.m - 1) * pitch;  // rows from m on repeat the last one and are not stored
  Fragments<kPair> low, high;
  float d[4] = {}, u[4] = {};
  int tile = first, step = 0, slot = 0;
  uint32_t parity = 0;
  barrier_wait(barriers, 0);
  low.load(ring, a_row, lane);
  for (int s = 0; s < total; ++s) {
    const int k0 = step * kDepth;
    const bool has_high = k0 + kHalf < p.k, ends = step + 1 == steps;
    if (has_high) high.load(ring + slot * kStageBytes<kPair> + kHalf * 2, a_row + (k0 + kHalf) * 2, lane);
    low.multiply(d, u);
    const int done = slot;
    if (++slot == stages) slot = 0, parity ^= 1;
    if (s + 1 < total) {  // the next stage's operands are loaded while these are multiplied
      barrier_wait(barriers + slot * 8, parity);
      low.load(ring + slot * kStageBytes<kPair>, a_row + (ends ? 0 : (k0 + kDepth) * 2), lane);
    }
    if (has_high) high.multiply(d, u);
    __syncwarp();
    if (s + stages < total) put(done);
    ++step;
    if (!ends) continue;
    int at = tile;
    const Streamed::Product& to = p.products[product_of(p, at)];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      finish(p, to, lane % 4 * 2 + e % 2, at * kTileRows + lane / 4 + e / 2 * 8, d[e], u[e]);
      d[e] = u[e] = 0.0f;
    }
    step = 0, tile += stride;
  }
}

template <bool kPair, bool kNorm>
void run(cudaStream_t stream, const Streamed& p) {
  static const cudaError_t ready =
      cudaFuncSetAttribute(few_kernel<kPair, kNorm>, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxShared);
  cuda_check(ready, "products of few rows");
  const int grid = std::min(p.tiles, kMultiprocessors), steps = (p.k + kDepth - 1) / kDepth;
  const int computing = std::min({(p.tiles + grid - 1) / grid, kMaxComputing, kRingBytes / (2 * kStageBytes<kPair>)});
  const int rounds = (p.tiles + grid * computing - 1) / (grid * computing);
  const int stages = std::min({kRingBytes / (computing * kStageBytes<kPair>), kMaxStages, steps * rounds});
  const size_t shared = kBarrierBytes + static_cast<size_t>(computing) * stages * kStageBytes<kPair> + p.m * a_pitch(p.k);
  launch_early(stream, dim3(static_cast<unsigned>(grid)), kWarps * 32, shared, few_kernel<kPair, kNorm>, p, computing, stages);
}

}  // namespace

bool fits_few(const Streamed& p) {
  return p.m <= 8 && kBarrierBytes + kRingBytes + p.m * a_pitch(p.k) <= kMaxShared && (!p.x || p.k % 256 == 0);
}

void run_few(cudaStream_t stream, const Streamed& p) {
  if (p.ending == Ending::kGated) return p.x ? run<true, true>(stream, p) : run<true, false>(stream, p);
  p.x ? run<false, true>(stream, p) : run<false, false>(stream, p);
}

}  // namespace makar::kernels::cuda
