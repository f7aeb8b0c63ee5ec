// Products of up to 64 rows with many weight rows per block: wgmma, whose 64 rows are those of A.
#include "kernels/cuda/streamed_ring.cuh"

namespace makar::kernels::cuda {
namespace {

constexpr int kThreads = 160, kProducer = 4;  // four warps multiply, one copies
constexpr int kBoxes = 2, kRowSlots = 3, kBudget = 110 * 1024;

template <int kWeights, Ending kEnding>
__global__ void __launch_bounds__(kThreads, 1) many_kernel(const __grid_constant__ Streamed p, const __grid_constant__ StreamPlan plan) {
  constexpr bool kPair = kEnding == Ending::kGated;
  using Ring = StreamRing<kWeights, kPair, kBoxes>;
  let_next_kernel_start();
  std::byte* const shared = dynamic_shared();
  const Ring ring(shared_address(shared), plan);
  if (threadIdx.x == 0) ring.init(plan, 1);
  __syncthreads();
  const int lane = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x % 32), static_cast<int>(threadIdx.x % 32));
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / 32), 0);
  int tile = static_cast<int>(blockIdx.x);
  const int product = kPair ? 0 : product_of(p, tile), row0 = tile * Ring::kColumns;
  if (warp == kProducer) {
    if (lane == 0) ring.copy(plan, product, row0);
    return;
  }
  wait_for_previous_kernel();  // before anything is written
  float d[kWeights / 2] = {};
  const int steps = plan.steps, weight_slots = plan.weight_slots, row_slots = plan.row_slots;
  const bool frees = threadIdx.x == 0;
  Place weight, row;
  int used = 0;
  for (int s = 0; s < steps; ++s) {
    barrier_wait(ring.full_weights + weight.slot * 8, weight.parity);
    barrier_wait(ring.full_rows + row.slot * 8, row.parity);
    wgmma_fence();
#pragma unroll
    for (int b = 0; b < kBoxes; ++b) {
      const uint64_t left = box_descriptor(ring.rows + row.slot * Ring::kRowSlot + b * Ring::kRowBox);
      const uint64_t right = box_descriptor(ring.weights + weight.slot * Ring::kWeightSlot + b * Ring::kWeightBox);
#pragma unroll
      for (int i = 0; i < kBoxDepth / 16; ++i) wgmma<kWeights>(d, left + 2 * i, right + 2 * i);
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (frees && s > 0) ring.free(used);
    used = row.slot;
    weight.advance(weight_slots), row.advance(row_slots);
  }
  wgmma_wait<0>();
  const Streamed::Product& to = p.products[product];
  const int out_row = warp * 16 + lane / 4, column = row0 + lane % 4 * 2;
#pragma unroll
  for (int e = 0; e < Ring::kColumns / 4; ++e) {
    const int r = out_row + e % 2 * 8, c = column + e / 2 * 8;
    constexpr int kUp = kPair ? Ring::kColumns / 2 : 0;
    finish_two<kEnding>(p, to, r, c, {d[2 * e], d[2 * e + 1]}, {d[2 * e + kUp], d[2 * e + 1 + kUp]}, residuals_of<kEnding>(p, to, r, c));
  }
}

template <int kWeights, Ending kEnding>
void run(cudaStream_t stream, const Streamed& p) {
  constexpr bool kPair = kEnding == Ending::kGated;
  const auto kernel = many_kernel<kWeights, kEnding>;
  static const cudaError_t ready = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxSharedBytes);
  cuda_check(ready, "products of many rows");
  run_ring<kWeights, kPair, kBoxes>(stream, p, kernel, kThreads, kRowSlots, kBudget);
}

}  // namespace

void run_many(cudaStream_t stream, const Streamed& p) {
  if (p.ending == Ending::kGated) return run<64, Ending::kGated>(stream, p);
  p.ending == Ending::kAdd ? run<64, Ending::kAdd>(stream, p) : run<64, Ending::kStore>(stream, p);
}

}  // namespace makar::kernels::cuda
