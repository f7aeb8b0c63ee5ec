// Two rings in shared memory, of weights and of rows of A, that one thread fills with boxes of 64 k.
#pragma once
#include "kernels/cuda/streamed.cuh"
#include "kernels/cuda/tensor_map.cuh"

namespace makar::kernels::cuda {

constexpr int kRingRows = 64, kRingAlignment = 1024;

// A slot of a ring, and the parity of the phase that fills or empties it.
struct Place {
  int slot = 0;
  uint32_t parity = 0;
  __device__ void advance(int slots) {
    if (++slot == slots) slot = 0, parity ^= 1;
  }
};

struct StreamPlan {
  CUtensorMap weights[kMaxStreamed], a;
  int weight_slots, row_slots, steps;
};

// kWeights: weight rows per block; with kPair, half of them of each product. A step has kBoxes boxes of 64 k.
template <int kWeights, bool kPair, int kBoxes>
struct StreamRing {
  static constexpr int kColumns = kPair ? kWeights / 2 : kWeights;
  static constexpr int kWeightBox = kWeights * kBoxRowBytes, kWeightSlot = kBoxes * kWeightBox;
  static constexpr int kRowBox = kRingRows * kBoxRowBytes, kRowSlot = kBoxes * kRowBox;

  uint32_t weights, rows, full_weights, full_rows, empty;  // empty: both, after a step

  __device__ StreamRing(uint32_t shared, const StreamPlan& plan) {
    weights = (shared + kRingAlignment - 1) / kRingAlignment * kRingAlignment;
    rows = weights + plan.weight_slots * kWeightSlot;
    full_weights = rows + plan.row_slots * kRowSlot;
    full_rows = full_weights + plan.weight_slots * 8;
    empty = full_rows + plan.row_slots * 8;
  }
  static size_t bytes(const StreamPlan& plan) {
    return kRingAlignment + static_cast<size_t>(plan.weight_slots) * (kWeightSlot + 8) +
           static_cast<size_t>(plan.row_slots) * (kRowSlot + 16);
  }
  // By one thread; a barrier of the block follows. `arrivals`: when a step has been used.
  __device__ void init(const StreamPlan& plan, int arrivals) const {
    for (int i = 0; i < plan.weight_slots; ++i) barrier_init(full_weights + i * 8, 1);
    for (int i = 0; i < plan.row_slots; ++i) barrier_init(full_rows + i * 8, 1), barrier_init(empty + i * 8, arrivals);
    barriers_ready();
  }
  // By one thread.
  __device__ void copy(const StreamPlan& plan, int product, int row0) const {
    const uint64_t once = streamed_once();
    Place weight, row, freed;
    int next = 0;  // step of weights
    const auto put_weights = [&] {
      const uint32_t full = full_weights + weight.slot * 8;
      barrier_expect(full, kWeightSlot);
#pragma unroll
      for (int b = 0; b < kBoxes; ++b) {
        const uint32_t to = weights + weight.slot * kWeightSlot + b * kWeightBox;
        const int k0 = (next * kBoxes + b) * kBoxDepth;
        copy_box(to, &plan.weights[product], full, k0, row0, once);
        if constexpr (kPair) copy_box(to + kWeightBox / 2, &plan.weights[1], full, k0, row0, once);
      }
      weight.advance(plan.weight_slots), ++next;
    };
    const auto put_rows = [&](int step) {
      const uint32_t full = full_rows + row.slot * 8;
      barrier_expect(full, kRowSlot);
#pragma unroll
      for (int b = 0; b < kBoxes; ++b) {
        const uint32_t to = rows + row.slot * kRowSlot + b * kRowBox;
        copy_box(to, &plan.a, full, (step * kBoxes + b) * kBoxDepth, 0);
      }
      row.advance(plan.row_slots);
    };
    while (next < plan.weight_slots && next < plan.steps) put_weights();  // they do not depend on the kernel before this one
    wait_for_previous_kernel();
    for (int step = 0; step < plan.steps || next < plan.steps; ++step) {
      if (step >= plan.row_slots) {
        barrier_wait(empty + freed.slot * 8, freed.parity);
        freed.advance(plan.row_slots);
      }
      if (step < plan.steps) put_rows(step);
      if (step >= plan.row_slots && next < plan.steps) put_weights();
    }
  }
  __device__ void free(int slot) const { barrier_arrive(empty + slot * 8); }
};

template <int kWeights, bool kPair, int kBoxes, class Kernel>
void run_ring(cudaStream_t stream, Streamed p, Kernel kernel, int threads, int row_slots, int budget) {
  using R = StreamRing<kWeights, kPair, kBoxes>;
  StreamPlan plan;
  plan.row_slots = row_slots, plan.steps = p.k / (kBoxes * kBoxDepth);
  plan.weight_slots = std::clamp((budget - row_slots * R::kRowSlot) / R::kWeightSlot, 2, 32);
  p.tiles = 0;
  for (int i = 0; i < (kPair ? 1 : p.count); ++i) p.tiles += p.products[i].tiles = (p.products[i].n + R::kColumns - 1) / R::kColumns;
  for (int i = 0; i < p.count; ++i) plan.weights[i] = tensor_map(p.products[i].b, p.products[i].n, p.k, R::kColumns);
  plan.a = tensor_map(p.a, p.m, p.k, kRingRows);
  launch_early(stream, dim3(static_cast<unsigned>(p.tiles)), static_cast<unsigned>(threads), R::bytes(plan), kernel, p, plan);
}

}  // namespace makar::kernels::cuda
