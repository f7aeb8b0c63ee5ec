// Mixtures of experts: the choice of each row's experts, the places of rows by expert, and the sum of the experts' results.
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/cuda_device.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int kRouteWarps = 4, kTileThreads = 1024, kAddThreads = 128;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

struct Best {
  float value;
  int index;
  __device__ bool before(const Best& other) const { return value != other.value ? value > other.value : index < other.index; }
};
__device__ inline Best best_of_warp(Best best) {
  for (int width = 16; width > 0; width /= 2) {
    const Best other{__shfl_xor_sync(kAllLanes, best.value, width), __shfl_xor_sync(kAllLanes, best.index, width)};
    if (other.before(best)) best = other;
  }
  return best;
}
// The best of values [0, n) that are not taken; bit i of a lane's `taken` is that of value 32 i + lane.
__device__ inline Best best_left(const float* values, int n, uint32_t taken) {
  const int lane = threadIdx.x % 32;
  Best best{-INFINITY, INT32_MAX};
  for (int i = lane; i < n; i += 32) {
    const Best one{values[i], i};
    if (!(taken >> (i / 32) & 1) && one.before(best)) best = one;
  }
  return best_of_warp(best);
}
__device__ inline void take(uint32_t& taken, int index) {
  if (index % 32 == static_cast<int>(threadIdx.x % 32)) taken |= 1u << (index / 32);
}

// One warp per row; its scores are in shared memory.
__global__ void __launch_bounds__(32 * kRouteWarps) route_kernel(const __grid_constant__ RouteRows a) {
  static_assert(kMaxExperts == 32 * 32);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, experts = static_cast<int>(a.experts);
  auto* const scores = reinterpret_cast<float*>(dynamic_shared()) + warp * 2 * experts;
  float* const totals = scores + experts;  // of the groups
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRouteWarps + warp;
  if (row >= a.rows) return;
  const float* p = a.probabilities + row * a.experts;
  for (int e = lane; e < experts; e += 32) {
    const float score = a.correction ? p[e] + a.correction[e] : p[e];
    scores[e] = isnan(score) ? -INFINITY : score;
  }
  __syncwarp();
  if (a.groups > 1) {
    const int groups = static_cast<int>(a.groups), size = experts / groups;
    for (int g = 0; g < groups; ++g) {
      uint32_t taken = 0;
      float total = 0.0f;
      for (int i = 0; i < (a.best_two ? 2 : 1) && i < size; ++i) {
        const Best best = best_left(scores + g * size, size, taken);
        total += best.value, take(taken, best.index);
      }
      if (lane == 0) totals[g] = total;
    }
    __syncwarp();
    uint32_t kept = 0;
    for (int i = 0; i < a.groups_per_row; ++i) take(kept, best_left(totals, groups, kept).index);
    for (int g = 0; g < groups; ++g) {
      const uint32_t of_group = __shfl_sync(kAllLanes, kept, g % 32);
      for (int e = lane; e < size && !(of_group >> (g / 32) & 1); e += 32) scores[g * size + e] = 0.0f;
    }
    __syncwarp();
  }
  uint32_t taken = 0;
  float total = 0.0f;
  for (int64_t s = 0; s < a.per_row; ++s) {
    const int choice = best_left(scores, experts, taken).index;
    take(taken, choice);
    total = s == 0 ? p[choice] : total + p[choice];
    if (lane == 0) a.choices[row * a.per_row + s] = choice;
  }
  if (!a.weights || lane != 0) return;
  for (int64_t s = 0; s < a.per_row; ++s) {
    const int64_t at = row * a.per_row + s;
    float weight = p[a.choices[at]];
    if (a.normalized) weight /= total;
    a.weights[at] = a.scale != 1.0f ? weight * a.scale : weight;
  }
}

// One block; each warp counts and places the rows of every 32nd expert, in the order of rows.
__global__ void __launch_bounds__(kTileThreads) tiles_kernel(const __grid_constant__ RouteRows a) {
  __shared__ int counts[kMaxExperts], firsts[kMaxExperts + 1];  // rows of each expert; its first tile
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, experts = static_cast<int>(a.experts);
  const int routed = static_cast<int>(a.rows * a.per_row), per_tile = static_cast<int>(a.tiles.rows_per_tile);
  for (int e = warp; e < experts; e += kTileThreads / 32) {
    int count = 0;
    for (int i0 = 0; i0 < routed; i0 += 32) count += __popc(__ballot_sync(kAllLanes, i0 + lane < routed && a.choices[i0 + lane] == e));
    if (lane == 0) counts[e] = count;
  }
  __syncthreads();
  if (warp == 0) {
    int tile = 0;
    for (int e0 = 0; e0 < experts; e0 += 32) {
      const int tiles = e0 + lane < experts ? (counts[e0 + lane] + per_tile - 1) / per_tile : 0;
      int sum = tiles;  // of this lane's expert and those before it
      for (int width = 1; width < 32; width *= 2) {
        const int before = __shfl_up_sync(kAllLanes, sum, width);
        if (lane >= width) sum += before;
      }
      if (e0 + lane < experts) firsts[e0 + lane] = tile + sum - tiles;
      tile += __shfl_sync(kAllLanes, sum, 31);
    }
    if (lane == 0) firsts[experts] = tile;
  }
  __syncthreads();
  for (int e = warp; e < experts; e += kTileThreads / 32) {
    int place = firsts[e] * per_tile;
    for (int i0 = 0; i0 < routed; i0 += 32) {
      const int i = i0 + lane;
      const bool mine = i < routed && a.choices[i] == e;
      const unsigned all = __ballot_sync(kAllLanes, mine);
      if (mine) {
        const int at = place + __popc(all & ((1u << lane) - 1));
        a.tiles.rows[at] = static_cast<int>(i / a.per_row), a.places[i] = at;
      }
      place += __popc(all);
    }
    const int next = e + 1 < experts ? firsts[e + 1] : firsts[experts];
    for (int at = place + lane; at < next * per_tile; at += 32) a.tiles.rows[at] = -1;
    for (int tile = firsts[e] + lane; tile < next; tile += 32) a.tiles.experts[tile] = e;
  }
  for (int64_t tile = firsts[experts] + static_cast<int>(threadIdx.x); tile < a.tiles.count; tile += kTileThreads) {
    a.tiles.experts[tile] = -1;
    for (int i = 0; i < per_tile; ++i) a.tiles.rows[tile * per_tile + i] = -1;
  }
}

// A block adds up to 8 * kAddThreads columns of a row.
template <class T>
__global__ void __launch_bounds__(kAddThreads) add_kernel(const __grid_constant__ AddExperts a, bool vector) {
  const int64_t row = blockIdx.x, first = row * a.per_row;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kAddThreads + threadIdx.x) * 8, left = a.width - column;
  if (left <= 0) return;
  const T* x = static_cast<const T*>(a.x) + column;
  float sum[8] = {}, v[8];
  int last = -1;
  for (int64_t i = 0; i < a.per_row; ++i) {  // the experts of a row differ: the next larger index each time
    int next = INT32_MAX;
    int64_t slot = first;
    for (int64_t s = first; s < first + a.per_row; ++s)
      if (a.choices[s] > last && a.choices[s] < next) next = a.choices[s], slot = s;
    last = next;
    load8(x + a.places[slot] * a.width, left, vector, v);
    const float weight = a.weights[slot];
    for (int j = 0; j < 8; ++j) sum[j] += weight * v[j];
  }
  store8(a.y + row * a.width + column, left, vector, sum);
}

}  // namespace

void CudaDevice::route_rows(const RouteRows& a) {
  if (a.rows <= 0) return;
  check(a.rows * a.per_row <= INT32_MAX && a.tiles.places() <= INT32_MAX, "too many rows to route at once");
  const auto blocks = static_cast<unsigned>((a.rows + kRouteWarps - 1) / kRouteWarps);
  launch(stream_, blocks, 32 * kRouteWarps, static_cast<size_t>(2 * kRouteWarps * a.experts) * sizeof(float), route_kernel, a);
  if (a.places) launch(stream_, 1, kTileThreads, 0, tiles_kernel, a);
}

void CudaDevice::add_experts(const AddExperts& a) {
  if (a.rows <= 0) return;
  const dim3 grid(static_cast<unsigned>(a.rows), static_cast<unsigned>((a.width + 8 * kAddThreads - 1) / (8 * kAddThreads)));
  const bool vector = a.width % 8 == 0 && all_aligned(a.x, a.y);
  const auto run = [&](auto kernel) { launch(stream_, grid, kAddThreads, 0, kernel, a, vector); };
  a.type == DType::kBF16 ? run(add_kernel<Bf16>) : run(add_kernel<float>);
}

}  // namespace makar
