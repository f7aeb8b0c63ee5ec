// Attention on wgmma: each warpgroup of a block processes 64 queries of one head. The operations on a row
// and their order are those of bf16_attention.cu.
#include "kernels/cuda/bf16_attention_wgmma.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace makar::kernels::cuda {
namespace {

// Groups: warpgroups per block.
constexpr int kDim = 64, kGroupRows = 64, kGroups = 2, kBlockThreads = 128 * kGroups, kRows = kGroupRows * kGroups, kStages = 3;
constexpr uint32_t kTileBytes = kKeys * kDim * 2, kQueryBytes = kRows * kDim * 2, kStageBytes = 2 * kTileBytes;
constexpr size_t kShared = kQueryBytes + kStages * kStageBytes + 1024;  // 1,024: alignment

template <class Keys>
__global__ void __launch_bounds__(kBlockThreads, 4 / kGroups) attend_kernel(AttentionBf16 a, Keys source) {
  let_next_kernel_start();
  extern __shared__ std::byte shared[];
  const SequenceRows s = a.shape.sequences[blockIdx.z];
  const VisibleKeys visible(a.shape, s);
  const int i0 = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;  // rows with the most keys first
  if (i0 >= visible.rows) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group_row = warp / 4 * kGroupRows, warp_row = warp * 16;
  const int head = blockIdx.y, dim = static_cast<int>(a.shape.head_dim);
  const int kv_head = head / static_cast<int>(a.shape.heads / a.shape.kv_heads);
  const int64_t q_stride = a.shape.heads * dim;
  const Tile<kDim> queries{(shared_address(shared) + 1023) & ~1023u};
  const auto stage = [&](int t) { return queries.base + kQueryBytes + static_cast<uint32_t>(t % kStages) * kStageBytes; };
  const int last_row = min(i0 + kRows, visible.rows) - 1;
  const int begin = visible.first(i0) / kKeys, end = (visible.last(last_row) + kKeys - 1) / kKeys;
  const auto fetch = [&](int t) {
    if (t < end)
      source.template fetch<kDim, kBlockThreads>(a.shape, s, kv_head, t * kKeys, Tile<kDim>{stage(t)},
                                                 Tile<kDim>{stage(t) + kTileBytes});
    copies_commit();
  };
  queries.template copy<kRows, kBlockThreads>(a.q + s.q_start * q_stride + head * dim, q_stride, i0, visible.rows, dim);
  fetch(begin);
  fetch(begin + 1);

  float out[kDim / 8][4] = {}, w[kKeys / 8][4], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
  uint32_t q[4][4], rounded[4][4];
  const float scale = a.shape.scale * kLog2e;
  const int row = i0 + warp_row + lane / 4;  // the thread's rows: row + 8 half
  for (int t = begin; t < end; ++t) {
    copies_wait<1>();
    shared_writes_to_wgmma();
    __syncthreads();
    fetch(t + 2);  // over the tile before this one
    if (t == begin)
#pragma unroll
      for (int step = 0; step < 4; ++step) queries.load_a(q[step], warp_row, step, lane);
    const int j0 = t * kKeys;
    if (visible.contains_none(i0 + group_row, kGroupRows, j0, kKeys)) continue;
    keep_in_order(q);
    wgmma_begin();
    wgmma_rows(w, q, rows_descriptor(stage(t)));
    wgmma_commit();
    wgmma_wait<0>();
    keep_in_order(w);
    if (!visible.contains_all(i0 + group_row, kGroupRows, j0, kKeys)) {
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (!visible.contains(row + e / 2 * 8, j0 + n * 8 + lane % 4 * 2 + e % 2)) w[n][e] = -INFINITY;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float max = -INFINITY;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) max = fmaxf(max, fmaxf(w[n][2 * half], w[n][2 * half + 1]));
      max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 1));
      max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 2));
      const float new_top = fmaxf(top[half], max * scale), base = new_top == -INFINITY ? 0.0f : new_top;
      const float before = exp2_of(top[half] - base);  // factor for the earlier tiles
      top[half] = new_top;
      float part = 0.0f;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          w[n][e] = exp2_of(fmaf(w[n][e], scale, -base));
          part += w[n][e];
        }
      sum[half] = fmaf(sum[half], before, part);
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) out[n][2 * half] *= before, out[n][2 * half + 1] *= before;
    }
    round_weights(rounded, w);
    keep_in_order(rounded);
    keep_in_order(out);
    wgmma_begin();
    wgmma_add_weighted(out, rounded, rows_descriptor(stage(t) + kTileBytes));
    wgmma_commit();
    wgmma_wait<0>();
    keep_in_order(out);
  }
  float inverse[2];
  for (int half = 0; half < 2; ++half) {
    float& total = sum[half];
    total += __shfl_xor_sync(0xFFFFFFFFu, total, 1);
    total += __shfl_xor_sync(0xFFFFFFFFu, total, 2);
    inverse[half] = total > 0.0f ? 1.0f / total : 0.0f;
    const int r = row + half * 8;
    if (a.lse && lane % 4 == 0 && r < visible.rows)
      a.lse[(s.q_start + r) * a.shape.heads + head] = total > 0.0f ? (top[half] + log2f(total)) * kLn2 : 0.0f;
  }
  store_rows<kDim>(out, inverse, a.out + s.q_start * q_stride + head * dim, q_stride, i0 + warp_row, visible.rows, dim, lane);
}

template <class Keys>
void attend(cudaStream_t stream, const AttentionBf16& a, const Keys& keys) {
  static const cudaError_t ready =
      cudaFuncSetAttribute(attend_kernel<Keys>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kShared));
  cuda_check(ready, "attention_bf16");
  const dim3 grid(static_cast<unsigned>((a.shape.max_q_rows + kRows - 1) / kRows), static_cast<unsigned>(a.shape.heads),
                  static_cast<unsigned>(a.shape.count));
  attend_kernel<<<grid, kBlockThreads, kShared, stream>>>(a, keys);
  cuda_check(cudaGetLastError(), "attention_bf16");
}

}  // namespace

void attend_wgmma(cudaStream_t stream, const AttentionBf16& a, const MatrixKeys& keys) { attend(stream, a, keys); }
void attend_wgmma(cudaStream_t stream, const AttentionBf16& a, const PageKeys& keys) { attend(stream, a, keys); }

}  // namespace makar::kernels::cuda
