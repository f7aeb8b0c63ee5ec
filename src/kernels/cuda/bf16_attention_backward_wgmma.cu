// The backward pass of attention on wgmma for heads of at most 64, without atomics: dq by query tile, dk and
// dv by key tile. A block has two warpgroups of 64 rows.
#include "kernels/cuda/bf16_attention_wgmma.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace makar::kernels::cuda {
namespace {

constexpr int kDim = 64, kGroupRows = 64, kTileRows = kKeys;
constexpr uint32_t kTileBytes = kTileRows * kDim * 2;
constexpr uint32_t kGroupOffset = kGroupRows * kDim * 2;

__device__ inline uint32_t aligned_shared(const void* shared) { return (shared_address(shared) + 1023) & ~1023u; }

// --- dq, and the row values that dk and dv need ---

constexpr int kDqGroups = 2, kDqThreads = 128 * kDqGroups, kDqRows = kGroupRows * kDqGroups, kDqStages = 3;
constexpr uint32_t kDqBlockBytes = kDqRows * kDim * 2;
constexpr size_t kDqShared = 2 * kDqBlockBytes + kDqStages * 2 * kTileBytes + 1024;

__global__ void __launch_bounds__(kDqThreads, 4 / kDqGroups) dq_kernel(AttentionBackwardBf16 a, float2* row_values) {
  extern __shared__ std::byte shared[];
  const SequenceRows s = a.shape.sequences[blockIdx.z];
  const VisibleKeys visible(a.shape, s);
  const int i0 = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kDqRows;  // rows with the most keys first
  if (i0 >= visible.rows) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = warp / 4, warp_row = warp * 16;
  const int head = blockIdx.y, dim = static_cast<int>(a.shape.head_dim);
  const HeadRows at(a.shape, s, head, head / (a.shape.heads / a.shape.kv_heads));
  const Tile<kDim> queries{aligned_shared(shared)}, gradients{queries.base + kDqBlockBytes};
  const auto keys_in = [&](int t) {
    return gradients.base + kDqBlockBytes + static_cast<uint32_t>(t % kDqStages) * 2 * kTileBytes;
  };
  const int last_row = min(i0 + kDqRows, visible.rows) - 1;
  const int begin = visible.first(i0) / kKeys, end = (visible.last(last_row) + kKeys - 1) / kKeys;
  const auto fetch = [&](int t) {
    if (t < end) {
      Tile<kDim>{keys_in(t)}.template copy<kKeys, kDqThreads>(a.k + at.kv_at, at.kv_stride, t * kKeys, visible.keys, dim);
      Tile<kDim>{keys_in(t) + kTileBytes}.template copy<kKeys, kDqThreads>(a.v + at.kv_at, at.kv_stride, t * kKeys, visible.keys,
                                                                           dim);
    }
    copies_commit();
  };
  queries.template copy<kDqRows, kDqThreads>(a.q + at.q_at, at.q_stride, i0, visible.rows, dim);
  gradients.template copy<kDqRows, kDqThreads>(a.dy + at.q_at, at.q_stride, i0, visible.rows, dim);
  fetch(begin);
  fetch(begin + 1);

  const float scale = a.shape.scale * kLog2e;
  const int row = i0 + warp_row + lane / 4;  // the thread's rows: row + 8 half
  float2 values[2];                          // (log-sum-exp * log2 e, dy . out): four threads share a row
  for (int half = 0; half < 2; ++half) {
    const int64_t r = min(row + half * 8, visible.rows - 1), row_at = at.row_at + r * a.shape.heads;
    float sum = 0.0f, x[8], y[8];
    for (int c = lane % 4 * 16; c < lane % 4 * 16 + 16 && c < dim; c += 8) {
      load8(a.dy + at.q_at + r * at.q_stride + c, 8, true, x);
      load8(a.out + at.q_at + r * at.q_stride + c, 8, true, y);
      for (int j = 0; j < 8; ++j) sum = fmaf(x[j], y[j], sum);
    }
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    values[half] = {a.lse[row_at] * kLog2e, sum};
    if (lane % 4 == 0 && row + half * 8 < visible.rows) row_values[row_at] = values[half];
  }
  const uint64_t q = rows_descriptor(queries.base + group * kGroupOffset),
                 dy = rows_descriptor(gradients.base + group * kGroupOffset);
  float dq[kDim / 8][4] = {}, w[kKeys / 8][4], d[kKeys / 8][4];
  uint32_t rounded[4][4];
  for (int t = begin; t < end; ++t) {
    copies_wait<1>();
    shared_writes_to_wgmma();
    __syncthreads();
    fetch(t + 2);  // over the tile before this one
    const int j0 = t * kKeys;
    if (visible.contains_none(i0 + group * kGroupRows, kGroupRows, j0, kKeys)) continue;
    wgmma_begin();
    wgmma_rows(w, q, rows_descriptor(keys_in(t)));
    wgmma_commit();
    wgmma_rows(d, dy, rows_descriptor(keys_in(t) + kTileBytes));
    wgmma_commit();
    wgmma_wait<1>();
    keep_in_order(w);
    if (!visible.contains_all(i0 + group * kGroupRows, kGroupRows, j0, kKeys)) {
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (!visible.contains(row + e / 2 * 8, j0 + n * 8 + lane % 4 * 2 + e % 2)) w[n][e] = -INFINITY;
    }
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) w[n][e] = exp2_of(fmaf(w[n][e], scale, -values[e / 2].x));
    wgmma_wait<0>();
    keep_in_order(d);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) d[n][e] = w[n][e] * (d[n][e] - values[e / 2].y);
    round_weights(rounded, d);
    keep_in_order(rounded);
    keep_in_order(dq);
    wgmma_begin();
    wgmma_add_weighted(dq, rounded, rows_descriptor(keys_in(t)));
    wgmma_commit();
    wgmma_wait<0>();
    keep_in_order(dq);
  }
  const float factor[2] = {a.shape.scale, a.shape.scale};
  store_rows<kDim>(dq, factor, a.dq + at.q_at, at.q_stride, i0 + warp_row, visible.rows, dim, lane);
}

// --- dk and dv ---

constexpr int kDkvGroups = 2, kDkvThreads = 128 * kDkvGroups, kDkvRows = kGroupRows * kDkvGroups, kDkvStages = 4;
constexpr uint32_t kDkvBlockBytes = kDkvRows * kDim * 2;
constexpr uint32_t kRowValueBytes = kTileRows * sizeof(float2);
constexpr size_t kDkvShared = 2 * kDkvBlockBytes + kDkvStages * (2 * kTileBytes + kRowValueBytes) + 1024;

__device__ inline void copy8(uint32_t shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared), "l"(global) : "memory");
}

// Weights and their gradients are transposed here: rows are keys, columns are queries.
__global__ void __launch_bounds__(kDkvThreads, 2 / kDkvGroups) dkv_kernel(AttentionBackwardBf16 a, const float2* row_values) {
  extern __shared__ std::byte shared[];
  const SequenceRows s = a.shape.sequences[blockIdx.z];
  const VisibleKeys visible(a.shape, s);
  const int j0 = static_cast<int>(blockIdx.x) * kDkvRows;
  if (j0 >= visible.keys) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, dim = static_cast<int>(a.shape.head_dim);
  const int group_key = j0 + warp / 4 * kGroupRows, warp_key = warp * 16;
  const int heads_per_key = static_cast<int>(a.shape.heads / a.shape.kv_heads), kv_head = blockIdx.y;
  const Tile<kDim> keys{aligned_shared(shared)}, values{keys.base + kDkvBlockBytes};
  const auto slot = [](int t) { return static_cast<uint32_t>(t % kDkvStages); };
  const auto queries_in = [&](int t) { return values.base + kDkvBlockBytes + slot(t) * 2 * kTileBytes; };
  const uint32_t row_values_base = values.base + kDkvBlockBytes + kDkvStages * 2 * kTileBytes;
  const RowRange rows = rows_of_keys(visible, j0, kDkvRows);
  const int begin = rows.begin / kTileRows, per_head = max(0, (rows.end + kTileRows - 1) / kTileRows - begin);
  const int steps = per_head * heads_per_key;
  const auto fetch = [&](int t) {  // step t: query tile begin + t % per_head of head t / per_head
    if (t < steps) {
      const HeadRows at(a.shape, s, kv_head * heads_per_key + t / per_head, kv_head);
      const int i0 = (begin + t % per_head) * kTileRows;
      Tile<kDim>{queries_in(t)}.template copy<kTileRows, kDkvThreads>(a.q + at.q_at, at.q_stride, i0, visible.rows, dim);
      Tile<kDim>{queries_in(t) + kTileBytes}.template copy<kTileRows, kDkvThreads>(a.dy + at.q_at, at.q_stride, i0, visible.rows,
                                                                                   dim);
      if (threadIdx.x < kTileRows)
        copy8(row_values_base + slot(t) * kRowValueBytes + threadIdx.x * static_cast<uint32_t>(sizeof(float2)),
              row_values + at.row_at + min(i0 + static_cast<int>(threadIdx.x), visible.rows - 1) * a.shape.heads);
    }
    copies_commit();
  };
  const HeadRows head_rows(a.shape, s, 0, kv_head);
  keys.template copy<kDkvRows, kDkvThreads>(a.k + head_rows.kv_at, head_rows.kv_stride, j0, visible.keys, dim);
  values.template copy<kDkvRows, kDkvThreads>(a.v + head_rows.kv_at, head_rows.kv_stride, j0, visible.keys, dim);
  fetch(0);
  fetch(1);

  const float scale = a.shape.scale * kLog2e;
  const int key = j0 + warp_key + lane / 4;  // the thread's keys: key + 8 half
  float dk[kDim / 8][4] = {}, dv[kDim / 8][4] = {}, w[kTileRows / 8][4], d[kTileRows / 8][4];
  uint32_t k[4][4], v[4][4], weights[4][4], slopes[4][4];
  copies_wait<1>();
  shared_writes_to_wgmma();
  __syncthreads();
#pragma unroll
  for (int step = 0; step < 4; ++step) keys.load_a(k[step], warp_key, step, lane), values.load_a(v[step], warp_key, step, lane);
  keep_in_order(k);
  keep_in_order(v);
  keep_in_order(dk);
  keep_in_order(dv);
#pragma unroll 1
  for (int t = 0; t < steps; ++t) {
    copies_wait<0>();  // tile t + 1
    shared_writes_to_wgmma();
    __syncthreads();
    fetch(t + 2);  // over tile t - 2
    wgmma_begin();
    wgmma_rows(w, k, rows_descriptor(queries_in(t)));
    wgmma_commit();
    wgmma_rows(d, v, rows_descriptor(queries_in(t) + kTileBytes));
    wgmma_commit();
    wgmma_wait<1>();  // all but d
    keep_in_order(w);
    keep_in_order(dk);
    keep_in_order(dv);
    const int i0 = (begin + t % per_head) * kTileRows;
    const bool all_visible = visible.contains_all(i0, kTileRows, group_key, kGroupRows);
    const uint32_t row_value = row_values_base + slot(t) * kRowValueBytes + lane % 4 * 16;
    float4 pair[kTileRows / 8];  // (log-sum-exp, delta) of two queries
    float p[kTileRows / 8][4];
#pragma unroll
    for (int n = 0; n < kTileRows / 8; ++n) {
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(pair[n].x), "=f"(pair[n].y), "=f"(pair[n].z), "=f"(pair[n].w)
                   : "r"(row_value + n * 64));
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float weight = exp2_of(fmaf(w[n][e], scale, e % 2 ? -pair[n].z : -pair[n].x));
        p[n][e] = all_visible || visible.contains(i0 + n * 8 + lane % 4 * 2 + e % 2, key + e / 2 * 8) ? weight : 0.0f;
      }
    }
    round_weights(weights, p);
    keep_in_order(weights);
    wgmma_begin();
    wgmma_add_weighted(dv, weights, rows_descriptor(queries_in(t) + kTileBytes));
    wgmma_commit();
    wgmma_wait<1>();  // all but dv
    keep_in_order(d);
#pragma unroll
    for (int n = 0; n < kTileRows / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) p[n][e] *= d[n][e] - (e % 2 ? pair[n].w : pair[n].y);
    round_weights(slopes, p);
    keep_in_order(slopes);
    wgmma_begin();
    wgmma_add_weighted(dk, slopes, rows_descriptor(queries_in(t)));
    wgmma_commit();
  }
  wgmma_wait<0>();
  keep_in_order(dk);
  keep_in_order(dv);
  const float factor[2] = {a.shape.scale, a.shape.scale}, one[2] = {1.0f, 1.0f};
  store_rows<kDim>(dk, factor, a.dk + head_rows.kv_at, head_rows.kv_stride, j0 + warp_key, visible.keys, dim, lane);
  store_rows<kDim>(dv, one, a.dv + head_rows.kv_at, head_rows.kv_stride, j0 + warp_key, visible.keys, dim, lane);
}

void run_dq(cudaStream_t stream, const AttentionBackwardBf16& a, float2* row_values) {
  static const cudaError_t ready =
      cudaFuncSetAttribute(dq_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kDqShared));
  cuda_check(ready, "attention_backward_bf16");
  const dim3 grid(static_cast<unsigned>((a.shape.max_q_rows + kDqRows - 1) / kDqRows), static_cast<unsigned>(a.shape.heads),
                  static_cast<unsigned>(a.shape.count));
  dq_kernel<<<grid, kDqThreads, kDqShared, stream>>>(a, row_values);
  cuda_check(cudaGetLastError(), "attention_backward_bf16");
}
void run_dkv(cudaStream_t stream, const AttentionBackwardBf16& a, const float2* row_values) {
  static const cudaError_t ready =
      cudaFuncSetAttribute(dkv_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kDkvShared));
  cuda_check(ready, "attention_backward_bf16");
  const dim3 grid(static_cast<unsigned>((a.shape.max_kv_rows + kDkvRows - 1) / kDkvRows), static_cast<unsigned>(a.shape.kv_heads),
                  static_cast<unsigned>(a.shape.count));
  dkv_kernel<<<grid, kDkvThreads, kDkvShared, stream>>>(a, row_values);
  cuda_check(cudaGetLastError(), "attention_backward_bf16");
}

}  // namespace

void attend_backward_wgmma(cudaStream_t stream, const AttentionBackwardBf16& a, float2* row_values) {
  run_dq(stream, a, row_values);
  if (a.shape.max_kv_rows > 0) run_dkv(stream, a, row_values);
}

}  // namespace makar::kernels::cuda
