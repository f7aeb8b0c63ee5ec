// Products of up to 64 rows with few weight rows per block: a warp multiplies 16 weight rows with 16 rows of A by mma.sync, whose
// chains of sums are shorter than those of wgmma.
#include "kernels/cuda/streamed_ring.cuh"

namespace makar::kernels::cuda {
namespace {

constexpr int kBoxes = 2, kSteps16 = kBoxes * kBoxDepth / 16;  // steps of 16 k in a step of the ring
constexpr int kParts = kRingRows / 16;                         // warps over the rows of A
constexpr int kRowSlots = 4, kBudget = 110 * 1024;  // two blocks of 16 weight rows share a multiprocessor

// The operands of one step of the ring.
struct Fragments {
  uint32_t w[kSteps16][4], x[kSteps16][4];

  // The addresses are those of this lane's row; its chunks are at places that the bits of `swizzle` tell.
  __device__ void load(int i, uint32_t weights, int weight_box, uint32_t w_swizzle, uint32_t rows, int row_box, uint32_t x_swizzle) {
    load_matrices(w[i], weights + i / 4 * weight_box + ((i % 4 * 32) ^ w_swizzle));
    load_matrices(x[i], rows + i / 4 * row_box + ((i % 4 * 32) ^ x_swizzle));
  }
  __device__ void multiply(int i, float (&d)[2][4]) const {
    mma(d[0], w[i], x[i][0], x[i][1]);
    mma(d[1], w[i], x[i][2], x[i][3]);
  }
};

template <int kGroups, Ending kEnding>
__global__ void __launch_bounds__(32 * (kGroups * kParts + 1), 1)
    mid_kernel(const __grid_constant__ Streamed p, const __grid_constant__ StreamPlan plan) {
  using Ring = StreamRing<16 * kGroups, false, kBoxes>;
  let_next_kernel_start();
  std::byte* const shared = dynamic_shared();
  const Ring ring(shared_address(shared), plan);
  if (threadIdx.x == 0) ring.init(plan, kGroups * kParts);
  __syncthreads();
  // By shuffles, so that the compiler keeps them in registers.
  const int lane = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x % 32), static_cast<int>(threadIdx.x % 32));
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / 32), 0);
  int tile = static_cast<int>(blockIdx.x);
  const int product = product_of(p, tile), row0 = tile * Ring::kColumns;
  if (warp == kGroups * kParts) {
    if (lane == 0) ring.copy(plan, product, row0);
    return;
  }
  wait_for_previous_kernel();  // before anything is written
  const Streamed::Product& to = p.products[product];
  const int group = warp / kParts, part = warp % kParts;
  const int out_row = part * 16 + lane % 4 * 2, column = row0 + group * 16 + lane / 4;
  float d[2][4] = {}, residual[2][4];
#pragma unroll
  for (int j = 0; j < 2; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) residual[j][e] = residual_of<kEnding>(p, to, out_row + j * 8 + e % 2, column + e / 2 * 8);
  const int steps = plan.steps, weight_slots = plan.weight_slots, row_slots = plan.row_slots;
  const uint32_t weights = ring.weights + (group * 16 + lane % 16) * kBoxRowBytes, w_swizzle = (lane / 16 ^ lane % 8) * 16;
  const uint32_t rows = ring.rows + (part * 16 + lane / 16 * 8 + lane % 8) * kBoxRowBytes, x_swizzle = (lane / 8 % 2 ^ lane % 8) * 16;
  Place weight, row;
  Fragments low, high;
  int used = 0;
  const auto load = [&](Fragments& f, int i) {
    f.load(i, weights + weight.slot * Ring::kWeightSlot, Ring::kWeightBox, w_swizzle, rows + row.slot * Ring::kRowSlot, Ring::kRowBox, x_swizzle);
  };
  const auto wait = [&] {
    barrier_wait(ring.full_weights + weight.slot * 8, weight.parity);
    barrier_wait(ring.full_rows + row.slot * 8, row.parity);
  };
  // Multiplies a step and loads the one after it; then its slots are free.
  const auto multiply = [&](const Fragments& f, Fragments& next, bool last) {
    used = row.slot;
    if (!last) {
      weight.advance(weight_slots), row.advance(row_slots);
      wait();
#pragma unroll
      for (int i = 0; i < kSteps16; ++i) {
        f.multiply(i, d);
        if (i < kSteps16 / 2) load(next, 2 * i), load(next, 2 * i + 1);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kSteps16; ++i) f.multiply(i, d);
    }
    __syncwarp();
    if (lane == 0) ring.free(used);
  };
  wait();
#pragma unroll
  for (int i = 0; i < kSteps16; ++i) load(low, i);
  for (int s = 0; s < steps; s += 2) {
    multiply(low, high, s + 1 == steps);
    if (s + 1 < steps) multiply(high, low, s + 2 == steps);
  }
#pragma unroll
  for (int j = 0; j < 2; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      finish<kEnding>(p, to, out_row + j * 8 + e % 2, column + e / 2 * 8, d[j][e], 0.0f, residual[j][e]);
}

template <int kGroups, Ending kEnding>
void run(cudaStream_t stream, const Streamed& p) {
  const auto kernel = mid_kernel<kGroups, kEnding>;
  static const cudaError_t ready = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes);
  cuda_check(ready, "products of many rows");
  run_ring<16 * kGroups, false, kBoxes>(stream, p, kernel, 32 * (kGroups * kParts + 1), kRowSlots, kBudget);
}

}  // namespace

bool fits_mid(const Streamed& p) {
  int rows = 0;
  for (int i = 0; i < p.count; ++i) rows += (p.products[i].n + 31) / 32 * 32;
  return p.ending != Ending::kGated && rows <= 32 * kMultiprocessors;
}

// 16 weight rows per block where all blocks then run at once.
void run_mid(cudaStream_t stream, const Streamed& p) {
  int tiles = 0;
  for (int i = 0; i < p.count; ++i) tiles += (p.products[i].n + 15) / 16;
  const bool narrow = tiles <= kMultiprocessors;
  if (p.ending == Ending::kAdd) return narrow ? run<1, Ending::kAdd>(stream, p) : run<2, Ending::kAdd>(stream, p);
  narrow ? run<1, Ending::kStore>(stream, p) : run<2, Ending::kStore>(stream, p);
}

}  // namespace makar::kernels::cuda
