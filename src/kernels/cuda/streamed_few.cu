// Products of up to 8 rows: every warp but one sums tiles of 16 weight rows of its own, which the last warp copies to a ring of
// its own, so a warp waits for others only when its ring is empty. All of A is in shared memory, as it is or after its norm. The first stages of the
// weights are copied while the kernel before this one still runs. What a sum waits for is one tensor-core instruction after the
// other, so the loop over k has little else.
#include "kernels/cuda/streamed.cuh"
#include "kernels/cuda/tensor_map.cuh"

namespace makar::kernels::cuda {
namespace {

constexpr int kDepth = 256, kHalf = kDepth / 2;  // k per stage, and per set of registers
constexpr int kBoxes = kDepth / kBoxDepth, kBoxBytes = kTileRows * kBoxRowBytes, kTileBytes = kBoxes * kBoxBytes;
constexpr int kWarps = 4, kThreads = 32 * (kWarps + 1);  // more would leave no registers to the next kernel
constexpr int kPiece = 1024, kMaxPieces = 32;            // k of A that arrives together; up to 32,768
constexpr int kMaxStages = 24, kAlignment = 1024;
constexpr int kRingBytes = 100 * 1024;  // of all warps; the rest is for the next kernel's ring
constexpr int kFull = 0, kEmpty = kFull + kWarps * kMaxStages * 8, kArrived = kEmpty + kWarps * kMaxStages * 8,
              kBarrierBytes = kArrived + kMaxPieces * 8;
static_assert(kBarrierBytes % 16 == 0);

template <bool kPair>
constexpr int kStageBytes = kPair ? 2 * kTileBytes : kTileBytes;

int a_pitch(int k) { return k * 2 + 16; }

struct Ring {
  CUtensorMap maps[kMaxStreamed];
  int computing, stages, steps;  // warps with tiles, stages of each, stages per tile
};

// The operands of eight steps of 16 k: weights, the second product's weights, A.
template <bool kPair>
struct Fragments {
  uint32_t w[8][4], up[kPair ? 8 : 1][4], x[4][4];

  // `weights`: the address of a half of a stage for this lane, with its chunks' places in the bits 4 to 6 of `swizzle`.
  __device__ void load(int i, uint32_t weights, uint32_t swizzle, uint32_t a) {
    const uint32_t from = weights + i / 4 * kBoxBytes + ((i % 4 * 32) ^ swizzle);
    load_matrices(w[i], from);
    if constexpr (kPair) load_matrices(up[i], from + kTileBytes);
    if (i % 2) load_matrices(x[i / 2], a + i / 2 * 64);
  }
  __device__ void multiply(int i, float (&d)[4], float (&u)[4]) const {
    mma(d, w[i], x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]);
    if constexpr (kPair) mma(u, up[i], x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]);
  }
  __device__ void multiply_all(float (&d)[4], float (&u)[4]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) multiply(i, d, u);
  }
  // Multiplies, and loads `next` while the first instructions wait for each other.
  __device__ void multiply_and_load(Fragments& next, uint32_t weights, uint32_t swizzle, uint32_t a, float (&d)[4], float (&u)[4]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      multiply(i, d, u);
      if (i < 4) next.load(2 * i, weights, swizzle, a), next.load(2 * i + 1, weights, swizzle, a);
    }
  }
};

// norm_row for k up to 256 * kParts, with all loads of a row under way at once.
template <int kParts>
__device__ inline void norm_short_row(const Streamed& p, const float* x, uint32_t to, int lane) {
  float sum = 0.0f, v[kParts][8], w[kParts][8];
#pragma unroll
  for (int i = 0; i < kParts; ++i)
    if (i * 256 < p.k) load8(x + i * 256 + lane * 8, 8, true, v[i]), load8(p.norm_w + i * 256 + lane * 8, 8, true, w[i]);
#pragma unroll
  for (int i = 0; i < kParts; ++i)
    if (i * 256 < p.k)
#pragma unroll
      for (int j = 0; j < 8; ++j) sum = fmaf(v[i][j], v[i][j], sum);
  const float rstd = rsqrtf(fmaf(warp_sum(sum), 1.0f / static_cast<float>(p.k), p.eps));
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    if (i * 256 >= p.k) continue;
#pragma unroll
    for (int j = 0; j < 8; ++j) v[i][j] = v[i][j] * rstd * (w[i][j] + p.offset);
    store_shared(to + (i * 256 + lane * 8) * 2, pack_eight(v[i]));
  }
}
constexpr int kShortParts = 8;

// One thread starts all copies: of the weights, stage after stage for all warps, and of A once the kernel before has ended.
template <bool kPair, bool kNorm>
__device__ inline void copy_all(const Streamed& p, const Ring& r, uint32_t rings, uint32_t barriers, uint32_t a) {
  const uint64_t once = streamed_once();
  const int grid = static_cast<int>(gridDim.x), pitch = p.k * 2 + 16;
  int first = static_cast<int>(blockIdx.x), step = 0, slot = 0, s = 0;  // first: the first warp's tile
  uint32_t parity = 1;                                                  // the first pass over the ring waits for nothing
  const auto put = [&] {
    const int k0 = step * kDepth, boxes = min(kBoxes, (p.k - k0) / kBoxDepth);
    for (int w = 0; w < r.computing; ++w) {
      int tile = first + w * grid;
      if (tile >= p.tiles) break;
      const int at = w * r.stages + slot, i = kPair ? 0 : product_of(p, tile);
      barrier_wait(barriers + kEmpty + at * 8, parity);
      const uint32_t to = rings + at * kStageBytes<kPair>, full = barriers + kFull + at * 8;
      barrier_expect(full, boxes * (kPair ? 2 : 1) * kBoxBytes);
      for (int b = 0; b < boxes; ++b) copy_box(to + b * kBoxBytes, &r.maps[i], full, k0 + b * kBoxDepth, tile * kTileRows, once);
      if constexpr (kPair)
        for (int b = 0; b < boxes; ++b)
          copy_box(to + kTileBytes + b * kBoxBytes, &r.maps[1], full, k0 + b * kBoxDepth, tile * kTileRows, once);
    }
    ++s;
    if (++step == r.steps) step = 0, first += r.computing * grid;
    if (++slot == r.stages) slot = 0, parity ^= 1;
  };
  while (s < r.stages && first < p.tiles) put();  // weights do not depend on the kernel before this one
  if constexpr (!kNorm) {
    wait_for_previous_kernel();
    for (int k0 = 0, piece = 0; k0 < p.k; k0 += kPiece, ++piece) {
      const int bytes = min(kPiece, p.k - k0) * 2;
      barrier_expect(barriers + kArrived + piece * 8, p.m * bytes);
      for (int row = 0; row < p.m; ++row)
        copy_bytes(a + row * pitch + k0 * 2, p.a + static_cast<int64_t>(row) * p.k + k0, bytes, barriers + kArrived + piece * 8);
    }
  }
  while (first < p.tiles) put();
}

template <Ending kEnding, bool kNorm>
__global__ void __launch_bounds__(kThreads, 1) few_kernel(const __grid_constant__ Streamed p, const __grid_constant__ Ring r) {
  constexpr bool kPair = kEnding == Ending::kGated;
  let_next_kernel_start();
  std::byte* const shared = dynamic_shared();
  // By shuffles, so that the compiler keeps them in registers.
  const int lane = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x % 32), static_cast<int>(threadIdx.x % 32));
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / 32), 0), pitch = p.k * 2 + 16;
  const uint32_t rings = (shared_address(shared) + kAlignment - 1) / kAlignment * kAlignment;
  const uint32_t barriers = rings + r.computing * r.stages * kStageBytes<kPair>, a = barriers + kBarrierBytes;
  if (threadIdx.x == 0) {
    for (int i = 0; i < r.computing * r.stages; ++i) barrier_init(barriers + kFull + 8 * i, 1), barrier_init(barriers + kEmpty + 8 * i, 1);
    for (int i = 0; i < kMaxPieces; ++i) barrier_init(barriers + kArrived + 8 * i, 1);
    barriers_ready();
  }
  __syncthreads();
  if (warp == kWarps) {
    if (lane == 0) copy_all<kPair, kNorm>(p, r, rings, barriers, a);
    return;
  }
  if constexpr (kNorm) {
    if (warp < p.m)
      for (int c = lane * 8; c < p.k; c += 256) fetch_to_cache(p.norm_w + c);
    wait_for_previous_kernel();
    for (int row = warp; row < p.m; row += kWarps) {
      const float* x = p.x + static_cast<int64_t>(row) * p.k;
      p.k <= kShortParts * 256 ? norm_short_row<kShortParts>(p, x, a + row * pitch, lane) : norm_row(p, x, a + row * pitch, lane);
    }
    sync_threads<1, 32 * kWarps>();  // of the warps that compute
  } else {
    wait_for_previous_kernel();  // before anything is written
  }
  if (warp >= r.computing) return;

  // Rows from m on repeat the last one and are not stored.
  const uint32_t a_row = a + min(lane % 8, p.m - 1) * pitch + lane / 8 * 16, swizzle = (lane / 16 ^ lane % 8) * 16;
  const uint32_t ring = rings + warp * r.stages * kStageBytes<kPair> + lane % 16 * kBoxRowBytes;
  const uint32_t ring_end = ring + r.stages * kStageBytes<kPair>;
  const uint32_t first_full = barriers + kFull + warp * r.stages * 8;
  uint32_t weights = ring, full = first_full, parity = 0;
  const int steps = r.steps, stride = r.computing * static_cast<int>(gridDim.x);
  const bool odd = p.k % kDepth != 0;
  Fragments<kPair> low, high;
  for (int tile = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x); tile < p.tiles; tile += stride) {
    int at = tile;
    const Streamed::Product& to = p.products[kEnding == Ending::kStore ? product_of(p, at) : 0];
    const int row = lane % 4 * 2, column = at * kTileRows + lane / 4;
    float d[4] = {}, u[4] = {}, residual[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) residual[e] = residual_of<kEnding>(p, to, row + e % 2, column + e / 2 * 8);
    uint32_t x = a_row;
    if constexpr (!kNorm) barrier_wait(barriers + kArrived, 0);
    barrier_wait(full, parity);
#pragma unroll
    for (int i = 0; i < 8; ++i) low.load(i, weights, swizzle, x);
    for (int step = 0; step < steps; ++step) {
      const bool last = step + 1 == steps, whole = !last || !odd;
      const uint32_t used = full + (kEmpty - kFull);
      if (whole) low.multiply_and_load(high, weights + kBoxes / 2 * kBoxBytes, swizzle, x + kHalf * 2, d, u);
      x += kDepth * 2, weights += kStageBytes<kPair>, full += 8;
      if (weights == ring_end) weights = ring, full = first_full, parity ^= 1;
      if (!last) {
        if constexpr (!kNorm)
          if ((step + 1) % (kPiece / kDepth) == 0) barrier_wait(barriers + kArrived + (step + 1) / (kPiece / kDepth) * 8, 0);
        barrier_wait(full, parity);
        high.multiply_and_load(low, weights, swizzle, x, d, u);
      } else {
        whole ? high.multiply_all(d, u) : low.multiply_all(d, u);
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(used);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) finish<kEnding>(p, to, row + e % 2, column + e / 2 * 8, d[e], u[e], residual[e]);
  }
}

template <Ending kEnding, bool kNorm>
void run(cudaStream_t stream, const Streamed& p) {
  constexpr int kStage = kStageBytes<kEnding == Ending::kGated>;
  static const cudaError_t ready =
      cudaFuncSetAttribute(few_kernel<kEnding, kNorm>, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes);
  cuda_check(ready, "products of few rows");
  Ring r;
  const int grid = std::min(p.tiles, kMultiprocessors);
  r.steps = (p.k + kDepth - 1) / kDepth;
  r.computing = std::min({(p.tiles + grid - 1) / grid, kWarps, kRingBytes / (2 * kStage)});
  const int rounds = (p.tiles + grid * r.computing - 1) / (grid * r.computing);
  r.stages = std::min({kRingBytes / (r.computing * kStage), kMaxStages, r.steps * rounds});
  for (int i = 0; i < p.count; ++i) r.maps[i] = tensor_map(p.products[i].b, p.products[i].n, p.k, kTileRows);
  const size_t shared = kAlignment + kBarrierBytes + static_cast<size_t>(r.computing) * r.stages * kStage + p.m * a_pitch(p.k);
  launch_early(stream, dim3(static_cast<unsigned>(grid)), kThreads, shared, few_kernel<kEnding, kNorm>, p, r);
}

}  // namespace

bool fits_few(const Streamed& p) {
  return p.m <= 8 && kAlignment + kBarrierBytes + kRingBytes + p.m * a_pitch(p.k) <= kMaxSharedBytes && p.k <= kPiece * kMaxPieces &&
         (!p.x || p.k % 256 == 0);
}

void run_few(cudaStream_t stream, const Streamed& p) {
  if (p.ending == Ending::kGated) return p.x ? run<Ending::kGated, true>(stream, p) : run<Ending::kGated, false>(stream, p);
  if (p.ending == Ending::kAdd) return p.x ? run<Ending::kAdd, true>(stream, p) : run<Ending::kAdd, false>(stream, p);
  p.x ? run<Ending::kStore, true>(stream, p) : run<Ending::kStore, false>(stream, p);
}

}  // namespace makar::kernels::cuda
