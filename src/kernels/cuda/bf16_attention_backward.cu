// The backward pass of attention on tensor cores, without atomics: dq by query tile, dk and dv by key tile. A block
// has four warps of 32 or 16 rows; weights are computed 32 columns at a time, to keep all sums in registers.
#include "kernels/cuda/bf16_attention.cuh"
#include "kernels/cuda/cuda_device.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps, kPart = 32;  // kPart: columns of weights at a time
template <int kDim>
constexpr int kM = kDim <= 64 ? 2 : 1;  // blocks of 16 rows per warp
template <int kDim>
constexpr int kRows = 16 * kWarps * kM<kDim>;

// Where one head's rows of a sequence begin.
struct HeadRows {
  int64_t q_stride, kv_stride, q_at, kv_at, row_at;  // row_at: in lse and delta, which have one value per row and head
  __device__ HeadRows(const AttentionShape& shape, const SequenceRows& s, int64_t head, int64_t kv_head)
      : q_stride(shape.heads * shape.head_dim),
        kv_stride(shape.kv_heads * shape.head_dim),
        q_at(s.q_start * q_stride + head * shape.head_dim),
        kv_at(s.kv_start * kv_stride + kv_head * shape.head_dim),
        row_at(s.q_start * shape.heads + head) {}
};

// delta[row, head] = dy . out
__global__ void delta_kernel(AttentionBackwardBf16 a, int64_t rows, float* delta) {
  const int64_t r = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 8, dim = a.shape.head_dim;
  if (r >= rows) return;
  float sum = 0.0f, x[8], y[8];
  for (int64_t c = threadIdx.x % 8 * 8; c < dim; c += 64) {
    load8(a.dy + r * dim + c, 8, true, x);
    load8(a.out + r * dim + c, 8, true, y);
    for (int j = 0; j < 8; ++j) sum = fmaf(x[j], y[j], sum);
  }
  const unsigned mask = 0xFFu << (threadIdx.x % 32 / 8 * 8);
  for (int width = 4; width > 0; width /= 2) sum += __shfl_xor_sync(mask, sum, width);
  if (threadIdx.x % 8 == 0) delta[r] = sum;
}

template <int kDim>
constexpr size_t dq_shared() {
  return static_cast<size_t>(2 * kRows<kDim> + 4 * kKeys) * kDim * sizeof(Bf16);
}

template <int kDim>
__global__ void __launch_bounds__(kThreads) dq_kernel(AttentionBackwardBf16 a, const float* delta) {
  std::byte* const shared = dynamic_shared();
  constexpr int kBlocks = kM<kDim>, kWarpRows = 16 * kBlocks, kQueries = kRows<kDim>;
  const SequenceRows s = a.shape.sequences[blockIdx.z];
  const VisibleKeys visible(a.shape, s);
  const int i0 = static_cast<int>(gridDim.y - 1 - blockIdx.y) * kQueries;  // of all heads, the rows with the most keys first
  if (i0 >= visible.rows) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.x, dim = static_cast<int>(a.shape.head_dim);
  const HeadRows at(a.shape, s, head, head / (a.shape.heads / a.shape.kv_heads));
  constexpr int kTileBytes = kKeys * kDim * 2, kQueryBytes = kQueries * kDim * 2;
  const Tile<kDim> queries{shared_address(shared)}, gradients{queries.base + kQueryBytes};
  const uint32_t tiles = queries.base + 2 * kQueryBytes;
  const auto keys_in = [&](int t) { return Tile<kDim>{tiles + (t & 1) * 2 * kTileBytes}; };
  const auto values_in = [&](int t) { return Tile<kDim>{tiles + ((t & 1) * 2 + 1) * kTileBytes}; };
  const int last_row = min(i0 + kQueries, visible.rows) - 1;
  const int begin = visible.first(i0) / kKeys, end = (visible.last(last_row) + kKeys - 1) / kKeys;
  const auto fetch = [&](int t) {
    keys_in(t).template copy<kKeys, kThreads>(a.k + at.kv_at, at.kv_stride, t * kKeys, visible.keys, dim);
    values_in(t).template copy<kKeys, kThreads>(a.v + at.kv_at, at.kv_stride, t * kKeys, visible.keys, dim);
  };
  queries.template copy<kQueries, kThreads>(a.q + at.q_at, at.q_stride, i0, visible.rows, dim);
  gradients.template copy<kQueries, kThreads>(a.dy + at.q_at, at.q_stride, i0, visible.rows, dim);
  if (begin < end) fetch(begin);
  copies_commit();

  const float scale = a.shape.scale * kLog2e;
  const int warp_row = warp * kWarpRows, row = i0 + warp_row + lane / 4;  // the thread's rows: row + 8 half + 16 i
  float lse[kBlocks][2], row_delta[kBlocks][2];
  for (int i = 0; i < kBlocks; ++i)
    for (int half = 0; half < 2; ++half) {
      const int64_t r = at.row_at + min(row + 16 * i + half * 8, visible.rows - 1) * a.shape.heads;
      lse[i][half] = a.lse[r] * kLog2e, row_delta[i][half] = delta[r];
    }
  float dq[kBlocks][kDim / 8][4] = {};
  for (int t = begin; t < end; ++t) {
    if (t + 1 < end) fetch(t + 1);
    copies_commit();
    copies_wait<1>();
    __syncthreads();
#pragma unroll 1
    for (int part = 0; part < kKeys; part += kPart) {
      const int j0 = t * kKeys + part;
      if (visible.contains_none(i0 + warp_row, kWarpRows, j0, kPart)) continue;
      float w[kBlocks][kPart / 8][4] = {}, d[kBlocks][kPart / 8][4] = {};
      multiply_rows<kDim>(w, queries, warp_row, keys_in(t), part, lane);
      multiply_rows<kDim>(d, gradients, warp_row, values_in(t), part, lane);
      if (!visible.contains_all(i0 + warp_row, kWarpRows, j0, kPart)) {
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
          for (int n = 0; n < kPart / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if (!visible.contains(row + 16 * i + e / 2 * 8, j0 + n * 8 + lane % 4 * 2 + e % 2)) w[i][n][e] = -INFINITY;
      }
#pragma unroll
      for (int i = 0; i < kBlocks; ++i)
#pragma unroll
        for (int n = 0; n < kPart / 8; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            d[i][n][e] = exp2_of(fmaf(w[i][n][e], scale, -lse[i][e / 2])) * (d[i][n][e] - row_delta[i][e / 2]);
      multiply_weights<kDim>(dq, d, keys_in(t), part, lane);
    }
    __syncthreads();
  }
  const float factor[2] = {a.shape.scale, a.shape.scale};
  for (int i = 0; i < kBlocks; ++i)
    store_rows<kDim>(dq[i], factor, a.dq + at.q_at, at.q_stride, i0 + warp_row + 16 * i, visible.rows, dim, lane);
}

constexpr int kQueryTile = 64;
template <int kDim>
constexpr size_t dkv_shared() {
  return static_cast<size_t>(2 * kRows<kDim> + 4 * kQueryTile) * kDim * sizeof(Bf16) + 4 * kQueryTile * sizeof(float);
}

// Weights and their gradients are transposed here: rows are keys, columns are queries.
template <int kDim>
__global__ void __launch_bounds__(kThreads) dkv_kernel(AttentionBackwardBf16 a, const float* delta) {
  std::byte* const shared = dynamic_shared();
  constexpr int kBlocks = kM<kDim>, kWarpRows = 16 * kBlocks, kBlockKeys = kRows<kDim>;
  constexpr int kKeyBytes = kBlockKeys * kDim * 2, kQueryBytes = kQueryTile * kDim * 2;
  const SequenceRows s = a.shape.sequences[blockIdx.z];
  const VisibleKeys visible(a.shape, s);
  const int j0 = static_cast<int>(blockIdx.y) * kBlockKeys;
  if (j0 >= visible.keys) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, dim = static_cast<int>(a.shape.head_dim);
  const int group = static_cast<int>(a.shape.heads / a.shape.kv_heads), kv_head = blockIdx.x;
  const Tile<kDim> keys{shared_address(shared)}, values{keys.base + kKeyBytes};
  const uint32_t tiles = keys.base + 2 * kKeyBytes;
  const auto queries_in = [&](int t) { return Tile<kDim>{tiles + (t & 1) * 2 * kQueryBytes}; };
  const auto gradients_in = [&](int t) { return Tile<kDim>{tiles + ((t & 1) * 2 + 1) * kQueryBytes}; };
  auto* row_values = reinterpret_cast<float*>(shared + 2 * kKeyBytes + 4 * kQueryBytes);  // [2][lse, delta][kQueryTile]
  // The rows that attend to a key of this block.
  const int first_row = visible.causal ? max(0, j0 - visible.past)
                        : visible.window > 0 ? max(0, j0 - visible.window + 1 - visible.past)
                                           : 0;
  const int end_row = visible.window > 0 ? min(visible.rows, j0 + kBlockKeys - 1 + visible.window - visible.past) : visible.rows;
  const int begin = first_row / kQueryTile, per_head = max(0, (end_row + kQueryTile - 1) / kQueryTile - begin);
  const int steps = per_head * group;
  const auto fetch = [&](int t) {  // step t: query tile begin + t % per_head of head t / per_head
    const HeadRows at(a.shape, s, kv_head * group + t / per_head, kv_head);
    const int i0 = (begin + t % per_head) * kQueryTile;
    queries_in(t).template copy<kQueryTile, kThreads>(a.q + at.q_at, at.q_stride, i0, visible.rows, dim);
    gradients_in(t).template copy<kQueryTile, kThreads>(a.dy + at.q_at, at.q_stride, i0, visible.rows, dim);
    for (int c = threadIdx.x; c < kQueryTile; c += kThreads) {
      const int64_t r = at.row_at + min(i0 + c, visible.rows - 1) * a.shape.heads;
      row_values[(t & 1) * 2 * kQueryTile + c] = a.lse[r] * kLog2e;
      row_values[((t & 1) * 2 + 1) * kQueryTile + c] = delta[r];
    }
  };
  const HeadRows head_rows(a.shape, s, 0, kv_head);
  keys.template copy<kBlockKeys, kThreads>(a.k + head_rows.kv_at, head_rows.kv_stride, j0, visible.keys, dim);
  values.template copy<kBlockKeys, kThreads>(a.v + head_rows.kv_at, head_rows.kv_stride, j0, visible.keys, dim);
  if (steps > 0) fetch(0);
  copies_commit();

  const float scale = a.shape.scale * kLog2e;
  const int warp_key = warp * kWarpRows, key = j0 + warp_key + lane / 4;  // the thread's keys: key + 8 half + 16 i
  float dk[kBlocks][kDim / 8][4] = {}, dv[kBlocks][kDim / 8][4] = {};
  for (int t = 0; t < steps; ++t) {
    if (t + 1 < steps) fetch(t + 1);
    copies_commit();
    copies_wait<1>();
    __syncthreads();
#pragma unroll 1
    for (int part = 0; part < kQueryTile; part += kPart) {
      const int i0 = (begin + t % per_head) * kQueryTile + part;
      if (visible.contains_none(i0, kPart, j0 + warp_key, kWarpRows)) continue;
      const float *lse = row_values + (t & 1) * 2 * kQueryTile + part, *row_delta = lse + kQueryTile;
      float w[kBlocks][kPart / 8][4] = {}, d[kBlocks][kPart / 8][4] = {};
      multiply_rows<kDim>(w, keys, warp_key, queries_in(t), part, lane);
      if (!visible.contains_all(i0, kPart, j0 + warp_key, kWarpRows)) {
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
          for (int n = 0; n < kPart / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if (!visible.contains(i0 + n * 8 + lane % 4 * 2 + e % 2, key + 16 * i + e / 2 * 8)) w[i][n][e] = -INFINITY;
      }
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n) {
        const float2 base = *reinterpret_cast<const float2*>(lse + n * 8 + lane % 4 * 2);
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e) w[i][n][e] = exp2_of(fmaf(w[i][n][e], scale, e % 2 ? -base.y : -base.x));
      }
      multiply_weights<kDim>(dv, w, gradients_in(t), part, lane);
      multiply_rows<kDim>(d, values, warp_key, gradients_in(t), part, lane);
#pragma unroll
      for (int n = 0; n < kPart / 8; ++n) {
        const float2 deltas = *reinterpret_cast<const float2*>(row_delta + n * 8 + lane % 4 * 2);
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e) d[i][n][e] = w[i][n][e] * (d[i][n][e] - (e % 2 ? deltas.y : deltas.x));
      }
      multiply_weights<kDim>(dk, d, queries_in(t), part, lane);
    }
    __syncthreads();
  }
  const float factor[2] = {a.shape.scale, a.shape.scale}, one[2] = {1.0f, 1.0f};
  for (int i = 0; i < kBlocks; ++i) {
    store_rows<kDim>(dk[i], factor, a.dk + head_rows.kv_at, head_rows.kv_stride, j0 + warp_key + 16 * i, visible.keys, dim, lane);
    store_rows<kDim>(dv[i], one, a.dv + head_rows.kv_at, head_rows.kv_stride, j0 + warp_key + 16 * i, visible.keys, dim, lane);
  }
}

template <int kDim>
void run_backward(cudaStream_t stream, const AttentionBackwardBf16& a, const float* delta) {
  const auto allow = [](auto kernel, size_t bytes) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  };
  static const cudaError_t dq_ready = allow(dq_kernel<kDim>, dq_shared<kDim>()),
                           dkv_ready = allow(dkv_kernel<kDim>, dkv_shared<kDim>());
  cuda_check(dq_ready, "attention_backward_bf16");
  cuda_check(dkv_ready, "attention_backward_bf16");
  const auto tiles = [](int64_t rows) { return static_cast<unsigned>((rows + kRows<kDim> - 1) / kRows<kDim>); };
  const auto count = static_cast<unsigned>(a.shape.count);
  const dim3 by_query(static_cast<unsigned>(a.shape.heads), tiles(a.shape.max_q_rows), count);
  launch(stream, by_query, kThreads, dq_shared<kDim>(), dq_kernel<kDim>, a, delta);
  if (a.shape.max_kv_rows > 0) {
    const dim3 by_key(static_cast<unsigned>(a.shape.kv_heads), tiles(a.shape.max_kv_rows), count);
    launch(stream, by_key, kThreads, dkv_shared<kDim>(), dkv_kernel<kDim>, a, delta);
  }
}

}  // namespace

void CudaDevice::attention_backward_bf16(const AttentionBackwardBf16& a) {
  if (a.shape.count == 0 || a.shape.max_q_rows == 0) return;
  const int64_t rows = a.total_rows * a.shape.heads;
  const CudaScratch<float> delta(memory_, rows);
  launch(stream_, static_cast<unsigned>((rows * 8 + 255) / 256), 256, 0, delta_kernel, a, rows, delta.data());
  a.shape.head_dim <= 64 ? run_backward<64>(stream_, a, delta.data()) : run_backward<128>(stream_, a, delta.data());
}

}  // namespace makar
