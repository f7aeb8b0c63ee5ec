// Attention on tensor cores: a block takes 128 queries of one head, each warp 32 or 16 of them; tiles of 64 keys are
// added to the rows by the online softmax in key order, in registers.
#include "kernels/cuda/bf16_attention.cuh"
#include "kernels/cuda/cuda_device.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int kRows = 128;
// Blocks of 16 rows per warp: two share the loads of keys and values; wide heads have no registers for two.
template <int kDim>
constexpr int kM = kDim <= 64 ? 2 : 1;
template <int kDim>
constexpr int kThreads = 2 * kRows / kM<kDim>;

template <int kDim>
constexpr size_t forward_shared() {
  return static_cast<size_t>(kRows + 4 * kKeys) * kDim * sizeof(Bf16);
}

template <int kDim>
__global__ void __launch_bounds__(kThreads<kDim>) forward_kernel(AttentionBf16 a) {
  constexpr int kBlocks = kM<kDim>, kCopiers = kThreads<kDim>;
  extern __shared__ __align__(128) std::byte shared[];
  const SequenceRows s = a.shape.sequences[blockIdx.z];
  const VisibleKeys sight(a.shape, s);
  const int i0 = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;  // long rows first
  if (i0 >= sight.rows) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.y, dim = static_cast<int>(a.shape.head_dim);
  const int64_t kv_head = head / (a.shape.heads / a.shape.kv_heads), q_stride = a.shape.heads * dim,
                kv_stride = a.shape.kv_heads * dim;
  const Bf16* q = a.q + s.q_start * q_stride + head * dim;
  const Bf16 *k = a.k + s.kv_start * kv_stride + kv_head * dim, *v = a.v + s.kv_start * kv_stride + kv_head * dim;
  constexpr int kTileBytes = kKeys * kDim * 2;
  const Tile<kDim> queries{shared_address(shared)};
  const uint32_t tiles = queries.base + kRows * kDim * 2;
  const auto keys_in = [&](int t) { return Tile<kDim>{tiles + (t & 1) * 2 * kTileBytes}; };
  const auto values_in = [&](int t) { return Tile<kDim>{tiles + ((t & 1) * 2 + 1) * kTileBytes}; };
  const int last_row = min(i0 + kRows, sight.rows) - 1;
  const int begin = sight.first(i0) / kKeys, end = (sight.last(last_row) + kKeys - 1) / kKeys;
  const auto fetch = [&](int t) {
    keys_in(t).template copy<kKeys, kCopiers>(k, kv_stride, t * kKeys, sight.keys, dim);
    values_in(t).template copy<kKeys, kCopiers>(v, kv_stride, t * kKeys, sight.keys, dim);
  };
  queries.template copy<kRows, kCopiers>(q, q_stride, i0, sight.rows, dim);
  if (begin < end) fetch(begin);
  copies_commit();

  float out[kBlocks][kDim / 8][4] = {}, top[kBlocks][2], sum[kBlocks][2];
  for (int i = 0; i < kBlocks; ++i)
    for (int half = 0; half < 2; ++half) top[i][half] = -INFINITY, sum[i][half] = 0.0f;
  const float scale = a.shape.scale * kLog2e;
  const int own = warp * 16 * kBlocks, row = i0 + own + lane / 4;  // the thread's rows: row + 8 half + 16 i
  for (int t = begin; t < end; ++t) {
    if (t + 1 < end) fetch(t + 1);
    copies_commit();
    copies_wait<1>();
    __syncthreads();
    const int j0 = t * kKeys;
    if (!sight.none_sees(i0 + own, 16 * kBlocks, j0, kKeys)) {
      float w[kBlocks][kKeys / 8][4] = {};
      multiply_rows<kDim>(w, queries, own, keys_in(t), 0, lane);
      if (!sight.all_see(i0 + own, 16 * kBlocks, j0, kKeys)) {
#pragma unroll
        for (int i = 0; i < kBlocks; ++i)
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if (!sight.sees(row + 16 * i + e / 2 * 8, j0 + n * 8 + lane % 4 * 2 + e % 2)) w[i][n][e] = -INFINITY;
      }
#pragma unroll
      for (int i = 0; i < kBlocks; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float most = -INFINITY;
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n) most = fmaxf(most, fmaxf(w[i][n][2 * half], w[i][n][2 * half + 1]));
          most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
          most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 2));
          const float now = fmaxf(top[i][half], most * scale), base = now == -INFINITY ? 0.0f : now;
          const float before = exp2_of(top[i][half] - base);
          top[i][half] = now;
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
  for (int i = 0; i < kBlocks; ++i) {
    float inverse[2];
    for (int half = 0; half < 2; ++half) {
      float& total = sum[i][half];
      total += __shfl_xor_sync(0xFFFFFFFFu, total, 1);
      total += __shfl_xor_sync(0xFFFFFFFFu, total, 2);
      inverse[half] = total > 0.0f ? 1.0f / total : 0.0f;
      const int r = row + 16 * i + half * 8;
      if (lane % 4 == 0 && r < sight.rows)
        a.lse[(s.q_start + r) * a.shape.heads + head] = total > 0.0f ? (top[i][half] + log2f(total)) * kLn2 : 0.0f;
    }
    store_rows<kDim>(out[i], inverse, a.out + s.q_start * q_stride + head * dim, q_stride, i0 + own + 16 * i, sight.rows, dim,
                     lane);
  }
}

template <int kDim>
void run_forward(cudaStream_t stream, const AttentionBf16& a) {
  static const cudaError_t ready = cudaFuncSetAttribute(forward_kernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                        static_cast<int>(forward_shared<kDim>()));
  cuda_check(ready, "attention_bf16");
  const dim3 grid(static_cast<unsigned>((a.shape.most_q_rows + kRows - 1) / kRows), static_cast<unsigned>(a.shape.heads),
                  static_cast<unsigned>(a.shape.count));
  forward_kernel<kDim><<<grid, kThreads<kDim>, forward_shared<kDim>(), stream>>>(a);
  cuda_check(cudaGetLastError(), "attention_bf16");
}

}  // namespace

void CudaDevice::attention_bf16(const AttentionBf16& a) {
  if (a.shape.count == 0 || a.shape.most_q_rows == 0) return;
  a.shape.head_dim <= 64 ? run_forward<64>(stream_, a) : run_forward<128>(stream_, a);
}

}  // namespace makar
