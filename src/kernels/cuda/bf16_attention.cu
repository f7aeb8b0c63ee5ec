// Attention on tensor cores: a block processes 128 queries of one head, 32 or 16 per warp; in decoding, one warp
// processes up to 16. Tiles of 64 keys are added to the rows by the online softmax in key order, in registers. A row's
// bits do not depend on the other rows.
#include "kernels/cuda/bf16_attention.cuh"
#include "kernels/cuda/cuda_device.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int kManyRows = 128, kFewRows = 16;  // queries per block
// Blocks of 16 rows per warp: two share the loads of keys and values; heads of 128 do not have enough registers for two.
template <int kDim, int kRows>
constexpr int kM = kDim <= 64 && kRows > kFewRows ? 2 : 1;
// With few rows, one warp computes and all of them copy.
template <int kDim, int kRows>
constexpr int kThreads = kRows > kFewRows ? 2 * kRows / kM<kDim, kRows> : 128;

template <int kDim, int kRows>
constexpr size_t forward_shared() {
  return static_cast<size_t>(kRows + 4 * kKeys) * kDim * sizeof(Bf16);
}

// Keys and values of one head as matrices.
struct MatrixKeys {
  const Bf16 *k, *v;
  template <int kDim, int kCopiers>
  __device__ void fetch(const AttentionShape& shape, const SequenceRows& s, int head, int j0, Tile<kDim> keys,
                        Tile<kDim> values) const {
    const int dim = static_cast<int>(shape.head_dim);
    const int64_t stride = shape.kv_heads * dim, at = s.kv_start * stride + head * dim;
    keys.template copy<kKeys, kCopiers>(k + at, stride, j0, static_cast<int>(s.kv_rows), dim);
    values.template copy<kKeys, kCopiers>(v + at, stride, j0, static_cast<int>(s.kv_rows), dim);
  }
};
// The same in pages of kKeyTile rows of bf16.
struct PageKeys {
  CacheLayer cache;
  template <int kDim, int kCopiers>
  __device__ void fetch(const AttentionShape& shape, const SequenceRows& s, int head, int j0, Tile<kDim> keys,
                        Tile<kDim> values) const {
    const int dim = static_cast<int>(shape.head_dim), rows = static_cast<int>(s.kv_rows);
    const auto* nowhere = reinterpret_cast<const Bf16*>(cache.pages);  // a valid address from which nothing is copied
    for (int part = 0; part < kKeys; part += kPart) {
      const int j = j0 + part;
      const std::byte* page = j < rows ? cache.pages[s.first_page + j / kKeyTile] : nullptr;
      const int left = page ? rows - j : 0;  // released pages are not read
      const int64_t at = j % kKeyTile * dim;
      const auto* k = page ? reinterpret_cast<const Bf16*>(page + cache.k_offset + head * cache.k_head) + at : nowhere;
      const auto* v = page ? reinterpret_cast<const Bf16*>(page + cache.v_offset + head * cache.v_head) + at : nowhere;
      Tile<kDim>{keys.base + part * Tile<kDim>::kRowBytes}.template copy<kPart, kCopiers>(k, dim, 0, left, dim);
      Tile<kDim>{values.base + part * Tile<kDim>::kRowBytes}.template copy<kPart, kCopiers>(v, dim, 0, left, dim);
    }
  }

 private:
  static constexpr int kPart = 32;  // keys per copy; divides tiles and pages
  static_assert(kKeys % kPart == 0 && kKeyTile % kPart == 0);
};

template <int kDim, int kRows, class Keys>
__global__ void __launch_bounds__(kThreads<kDim, kRows>) forward_kernel(AttentionBf16 a, Keys source) {
  constexpr int kBlocks = kM<kDim, kRows>, kCopiers = kThreads<kDim, kRows>;
  let_next_kernel_start();
  std::byte* const shared = dynamic_shared();
  const SequenceRows s = a.shape.sequences[blockIdx.z];
  const VisibleKeys visible(a.shape, s);
  const int i0 = static_cast<int>(gridDim.y - 1 - blockIdx.y) * kRows;  // of all heads, the rows with the most keys first
  if (i0 >= visible.rows) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.x, dim = static_cast<int>(a.shape.head_dim);
  const int kv_head = head / static_cast<int>(a.shape.heads / a.shape.kv_heads);
  const int64_t q_stride = a.shape.heads * dim;
  const Bf16* q = a.q + s.q_start * q_stride + head * dim;
  constexpr int kTileBytes = kKeys * kDim * 2;
  const Tile<kDim> queries{shared_address(shared)};
  const uint32_t tiles = queries.base + kRows * kDim * 2;
  const auto keys_in = [&](int t) { return Tile<kDim>{tiles + (t & 1) * 2 * kTileBytes}; };
  const auto values_in = [&](int t) { return Tile<kDim>{tiles + ((t & 1) * 2 + 1) * kTileBytes}; };
  const int last_row = min(i0 + kRows, visible.rows) - 1;
  const int begin = visible.first(i0) / kKeys, end = (visible.last(last_row) + kKeys - 1) / kKeys;
  const auto fetch = [&](int t) {
    source.template fetch<kDim, kCopiers>(a.shape, s, kv_head, t * kKeys, keys_in(t), values_in(t));
  };
  queries.template copy<kRows, kCopiers>(q, q_stride, i0, visible.rows, dim);
  if (begin < end) fetch(begin);
  copies_commit();

  float out[kBlocks][kDim / 8][4] = {}, top[kBlocks][2], sum[kBlocks][2];
  for (int i = 0; i < kBlocks; ++i)
    for (int half = 0; half < 2; ++half) top[i][half] = -INFINITY, sum[i][half] = 0.0f;
  const float scale = a.shape.scale * kLog2e;
  const int warp_row = warp * 16 * kBlocks, row = i0 + warp_row + lane / 4;  // the thread's rows: row + 8 half + 16 i
  for (int t = begin; t < end; ++t) {
    if (t + 1 < end) fetch(t + 1);
    copies_commit();
    copies_wait<1>();
    __syncthreads();
    const int j0 = t * kKeys;
    if (warp_row < kRows && !visible.contains_none(i0 + warp_row, 16 * kBlocks, j0, kKeys)) {
      float w[kBlocks][kKeys / 8][4] = {};
      multiply_rows<kDim>(w, queries, warp_row, keys_in(t), 0, lane);
      if (!visible.contains_all(i0 + warp_row, 16 * kBlocks, j0, kKeys)) {
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if (!visible.contains(row + 16 * i + e / 2 * 8, j0 + n * 8 + lane % 4 * 2 + e % 2)) w[i][n][e] = -INFINITY;
      }
#pragma unroll
      for (int i = 0; i < kBlocks; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float max = -INFINITY;
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n) max = fmaxf(max, fmaxf(w[i][n][2 * half], w[i][n][2 * half + 1]));
          max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 1));
          max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 2));
          const float new_top = fmaxf(top[i][half], max * scale), base = new_top == -INFINITY ? 0.0f : new_top;
          const float before = exp2_of(top[i][half] - base);  // factor for the earlier tiles
          top[i][half] = new_top;
          float part = 0.0f;
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; ++e) {
              w[i][n][e] = exp2_of(fmaf(w[i][n][e], scale, -base));
              part += w[i][n][e];
            }
          sum[i][half] = fmaf(sum[i][half], before, part);
#pragma unroll
          for (int n = 0; n < kDim / 8; ++n) out[i][n][2 * half] *= before, out[i][n][2 * half + 1] *= before;
        }
      multiply_weights<kDim>(out, w, values_in(t), 0, lane);
    }
    __syncthreads();
  }
  if (warp_row >= kRows) return;
  for (int i = 0; i < kBlocks; ++i) {
    float inverse[2];
    for (int half = 0; half < 2; ++half) {
      float& total = sum[i][half];
      total += __shfl_xor_sync(0xFFFFFFFFu, total, 1);
      total += __shfl_xor_sync(0xFFFFFFFFu, total, 2);
      inverse[half] = total > 0.0f ? 1.0f / total : 0.0f;
      const int r = row + 16 * i + half * 8;
      if (a.lse && lane % 4 == 0 && r < visible.rows)
        a.lse[(s.q_start + r) * a.shape.heads + head] = total > 0.0f ? (top[i][half] + log2f(total)) * kLn2 : 0.0f;
    }
    store_rows<kDim>(out[i], inverse, a.out + s.q_start * q_stride + head * dim, q_stride, i0 + warp_row + 16 * i, visible.rows, dim,
                     lane);
  }
}

template <int kDim, int kRows, class Keys>
void run_forward(cudaStream_t stream, const AttentionBf16& a, const Keys& keys) {
  constexpr size_t shared = forward_shared<kDim, kRows>();
  static const cudaError_t ready = cudaFuncSetAttribute(
      forward_kernel<kDim, kRows, Keys>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  cuda_check(ready, "attention_bf16");
  const dim3 grid(static_cast<unsigned>(a.shape.heads), static_cast<unsigned>((a.shape.max_q_rows + kRows - 1) / kRows),
                  static_cast<unsigned>(a.shape.count));
  launch(stream, grid, kThreads<kDim, kRows>, shared, forward_kernel<kDim, kRows, Keys>, a, keys);
}
template <int kRows, class Keys>
void run_forward(cudaStream_t stream, const AttentionBf16& a, const Keys& keys) {
  a.shape.head_dim <= 64 ? run_forward<64, kRows>(stream, a, keys) : run_forward<128, kRows>(stream, a, keys);
}

}  // namespace

void CudaDevice::attention_bf16(const AttentionBf16& a) {
  if (a.shape.count == 0 || a.shape.max_q_rows == 0) return;
  run_forward<kManyRows>(stream_, a, MatrixKeys{a.k, a.v});
}

void CudaDevice::attention_cached_bf16(const AttentionCachedBf16& a) {
  if (a.shape.count == 0 || a.shape.max_q_rows == 0) return;
  const AttentionBf16 args{a.shape, a.q, nullptr, nullptr, a.out, nullptr};
  const PageKeys keys{a.cache};
  a.shape.max_q_rows <= kFewRows ? run_forward<kFewRows>(stream_, args, keys) : run_forward<kManyRows>(stream_, args, keys);
}

// Eight values per thread.
void CudaDevice::cache_store_bf16(const CacheStoreBf16& a) {
  const int64_t dim = a.head_dim, groups = dim / 8;
  each(stream_, a.count * a.max_q_rows * a.kv_heads * groups, [=] __device__(int64_t item) {
    const int64_t group = item % groups, head = item / groups % a.kv_heads, i = item / (groups * a.kv_heads) % a.max_q_rows;
    const SequenceRows s = a.sequences[item / (groups * a.kv_heads * a.max_q_rows)];
    if (i >= s.q_rows) return;
    const int64_t at = s.past + i, from = ((s.q_start + i) * a.kv_heads + head) * dim + group * 8;
    auto* page = const_cast<std::byte*>(a.cache.pages[s.first_page + at / kKeyTile]);
    const int64_t to = at % kKeyTile * dim + group * 8;
    const auto copy = [&](const Bf16* x, int64_t offset, int64_t bytes) {
      *reinterpret_cast<uint4*>(reinterpret_cast<Bf16*>(page + offset + head * bytes) + to) =
          *reinterpret_cast<const uint4*>(x + from);
    };
    copy(a.k, a.cache.k_offset, a.cache.k_head);
    copy(a.v, a.cache.v_offset, a.cache.v_head);
  });
}

}  // namespace makar
