// Attention of a decoding step: a block rotates, stores and processes the new token of one sequence for the query heads of
// one head of keys, which are the rows of its tensor-core products. Scores and maxima of several tiles of keys are computed at
// once; weights, sums and outputs follow the tiles in key order, with the arithmetic of bf16_attention.cu and so its bits.
#include "kernels/cuda/bf16_attention.cuh"
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/decode_attention.cuh"

namespace makar::kernels::cuda {
namespace {

constexpr int kThreads = 256, kRows = 16;  // rows: query heads, padded
constexpr int kTiles = 4;                  // per round
constexpr int kScorePitch = kKeys + 4;     // floats
constexpr int kPart = 32;                  // keys per copy; divides tiles and pages

template <int kDim>
struct Shared {
  static constexpr int kTileBytes = kKeys * kDim * 2;
  static constexpr int kQueries = 0, kKeysAt = kQueries + kRows * kDim * 2, kValuesAt = kKeysAt + kTiles * kTileBytes,
                       kWeights = kValuesAt + kTiles * kTileBytes, kFloats = kWeights + kTiles * kRows * kKeys * 2;
  // Floats: scores, maxima of half tiles, factors, partial sums, maxima so far, inverse sums; then the new key and value.
  static constexpr int kScores = 0, kMaxima = kScores + kTiles * kRows * kScorePitch, kFactors = kMaxima + kTiles * 2 * kRows,
                       kSums = kFactors + kTiles * kRows, kTop = kSums + kTiles * kRows * 4, kInverse = kTop + kRows,
                       kFloatCount = kInverse + kRows;
  static constexpr int kNew = kFloats + kFloatCount * 4, kBytes = kNew + 2 * kDim * 2;
};

// Copies a tile of keys or values; keys from `rows` on and columns from `dim` on are zero.
template <int kDim>
__device__ inline void fetch(const CacheLayer& cache, const SequenceRows& s, int64_t offset, int j0, int rows, int dim, Tile<kDim> to) {
#pragma unroll
  for (int part = 0; part < kKeys; part += kPart) {
    const int j = j0 + part;
    const std::byte* page = j < rows ? cache.pages[s.first_page + j / kKeyTile] : nullptr;
    const int left = page ? rows - j : 0;  // released pages are not read
    const auto* nowhere = reinterpret_cast<const Bf16*>(cache.pages);
    const auto* from = page ? reinterpret_cast<const Bf16*>(page + offset) + j % kKeyTile * dim : nowhere;
    Tile<kDim>{to.base + part * Tile<kDim>::kRowBytes}.template copy<kPart, kThreads>(from, dim, 0, left, dim);
  }
}

__device__ inline float as_float(float x) { return x; }
__device__ inline float as_float(Bf16 x) { return widen(x); }
// Value `at` of a head after its rotation, with the bits of rope_bf16, or of rope and rounding.
template <class T>
__device__ inline Bf16 rotated(const DecodeAttentionBf16& a, const T* x, const float* cos, const float* sin, int at) {
  const int half = static_cast<int>(a.rotary) / 2;
  if (!a.cos || at >= 2 * half) return narrow(as_float(x[at]));
  const int i = a.interleaved ? at / 2 : at % half;
  const bool second = a.interleaved ? at % 2 : at >= half;
  const float p = as_float(x[a.interleaved ? 2 * i : i]), q = as_float(x[a.interleaved ? 2 * i + 1 : i + half]);
  const float c = cos[i], s = sin[i] * 1.0f;
  return narrow(second ? madd(q, c, p * s) : madd(p, c, -(q * s)));
}

// The shared address of a value in a tile.
template <int kDim>
__device__ inline uint32_t place(Tile<kDim> tile, int row, int column) {
  return tile.base + row * Tile<kDim>::kRowBytes + ((column / 8 ^ (row & 7)) << 4) + column % 8 * 2;
}

// T: of the new queries, keys and values.
template <int kDim, class T>
__global__ void __launch_bounds__(kThreads) decode_kernel(const __grid_constant__ DecodeAttentionBf16 a) {
  using S = Shared<kDim>;
  let_next_kernel_start();
  std::byte* const shared = dynamic_shared();
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, kv_head = blockIdx.x;
  const uint32_t base = shared_address(shared);
  auto* floats = reinterpret_cast<float*>(shared + S::kFloats);
  auto* fresh = reinterpret_cast<Bf16*>(shared + S::kNew);  // the new key, then the new value
  float *scores = floats + S::kScores, *maxima = floats + S::kMaxima, *factors = floats + S::kFactors, *sums = floats + S::kSums,
        *top = floats + S::kTop, *inverse = floats + S::kInverse;
  const Tile<kDim> queries{base + S::kQueries};
  const auto keys_in = [&](int t) { return Tile<kDim>{base + S::kKeysAt + t * S::kTileBytes}; };
  const auto values_in = [&](int t) { return Tile<kDim>{base + S::kValuesAt + t * S::kTileBytes}; };
  const auto weights_in = [&](int t) { return Tile<kKeys>{base + S::kWeights + t * kRows * kKeys * 2}; };
  const int heads = static_cast<int>(a.shape.heads), kv_heads = static_cast<int>(a.shape.kv_heads), group = heads / kv_heads;
  const int dim = static_cast<int>(a.shape.head_dim);

  for (int i = thread; i < kRows * kDim / 2; i += kThreads) store_shared(queries.base + i * 4, 0u);
  if (thread < kRows) top[thread] = -INFINITY;
  __syncthreads();
  const SequenceRows s = a.shape.sequences[blockIdx.y];
  const VisibleKeys visible(a.shape, s);
  const int first = visible.first(0), last = visible.last(0), newest = static_cast<int>(s.past);
  const int begin = first / kKeys, end = (last + kKeys - 1) / kKeys;
  const int64_t k_at = a.cache.k_offset + kv_head * a.cache.k_head, v_at = a.cache.v_offset + kv_head * a.cache.v_head;
  const auto fetch_keys = [&](int t0) {
    for (int t = 0; t < kTiles && t0 + t < end; ++t) fetch(a.cache, s, k_at, (t0 + t) * kKeys, newest, dim, keys_in(t));
  };
  const auto fetch_values = [&](int t0) {
    for (int t = 0; t < kTiles && t0 + t < end; ++t) fetch(a.cache, s, v_at, (t0 + t) * kKeys, newest, dim, values_in(t));
  };
  // The keys and values before the new one, and the sequences, do not depend on the kernels of this step since its
  // first, plain launch.
  if (s.q_rows > 0) {
    fetch_keys(begin);
    copies_commit();
    fetch_values(begin);
    copies_commit();
  }
  wait_for_previous_kernel();
  if (s.q_rows == 0) return;

  // The new token: queries to shared memory, key and value to the cache and to shared memory.
  const int64_t row = s.q_start, angle = row * (a.rotary / 2);
  for (int i = thread; i < group * dim; i += kThreads) {
    const int r = i / dim, c = i - r * dim;
    const T* head = static_cast<const T*>(a.q) + (row * heads + kv_head * group + r) * dim;
    store_shared(place(queries, r, c), rotated(a, head, a.cos + angle, a.sin + angle, c).bits);
  }
  if (thread < 2 * dim) {
    const bool is_key = thread < dim;
    const int c = is_key ? thread : thread - dim;
    const int64_t from = (row * kv_heads + kv_head) * dim;
    const Bf16 x = is_key ? rotated(a, static_cast<const T*>(a.k) + from, a.cos + angle, a.sin + angle, c)
                           : narrow(as_float(static_cast<const T*>(a.v)[from + c]));
    auto* page = const_cast<std::byte*>(a.cache.pages[s.first_page + newest / kKeyTile]);
    reinterpret_cast<Bf16*>(page + (is_key ? k_at : v_at))[newest % kKeyTile * dim + c] = x;
    fresh[(is_key ? 0 : kDim) + c] = x;
  }

  const float scale = a.shape.scale * kLog2e;
  const int tile_of = thread / 64, row_of = thread / 4 % kRows, quad = thread % 4;  // in the second phase
  constexpr int kOutWarps = kDim / 16;                                              // 16 columns each in the third phase
  float out[2][4] = {}, sum = 0.0f;  // sum: of threads below 64, for row_of and the columns of quad
  for (int t0 = begin; t0 < end; t0 += kTiles) {
    const int count = min(kTiles, end - t0), newest_tile = newest / kKeys - t0;
    const bool has_newest = newest_tile >= 0 && newest_tile < count;
    // First: scores and their maxima. A warp processes half a tile.
    copies_wait<1>();
    __syncthreads();
    if (has_newest) {
      if (thread < dim) store_shared(place(keys_in(newest_tile), newest % kKeys, thread), fresh[thread].bits);
      __syncthreads();
    }
    const int tile = warp / 2, half = warp % 2;
    if (tile < count) {
      float w[1][4][4] = {};
      multiply_rows<kDim>(w, queries, 0, keys_in(tile), half * 32, lane);
      const int j0 = (t0 + tile) * kKeys + half * 32;
      for (int h = 0; h < 2; ++h) {
        const int r = lane / 4 + 8 * h;
        float max = -INFINITY;
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int c = n * 8 + lane % 4 * 2 + e;
            const float x = j0 + c >= first && j0 + c < last ? w[0][n][2 * h + e] : -INFINITY;
            max = fmaxf(max, x);
            scores[(tile * kRows + r) * kScorePitch + half * 32 + c] = x;
          }
        max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 1));
        max = fmaxf(max, __shfl_xor_sync(0xFFFFFFFFu, max, 2));
        if (lane % 4 == 0) maxima[(tile * 2 + half) * kRows + r] = max;
      }
    }
    __syncthreads();
    fetch_keys(t0 + kTiles);
    copies_commit();
    // Second: weights, relative to the maximum of the tiles up to theirs.
    float new_top = top[row_of];
    if (tile_of < count) {
      float top_before = new_top;
      for (int t = 0; t <= tile_of; ++t) {
        top_before = new_top;
        new_top = fmaxf(new_top, fmaxf(maxima[t * 2 * kRows + row_of], maxima[(t * 2 + 1) * kRows + row_of]) * scale);
      }
      const float reference = new_top == -INFINITY ? 0.0f : new_top;
      float part = 0.0f;
      const float* x = scores + (tile_of * kRows + row_of) * kScorePitch + quad * 2;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        const float low = exp2_of(fmaf(x[n * 8], scale, -reference)), high = exp2_of(fmaf(x[n * 8 + 1], scale, -reference));
        part += low;
        part += high;
        store_shared(place(weights_in(tile_of), row_of, n * 8 + quad * 2), pack_pair(low, high));
      }
      sums[(tile_of * kRows + row_of) * 4 + quad] = part;
      if (quad == 0) factors[tile_of * kRows + row_of] = exp2_of(top_before - reference);
    }
    copies_wait<1>();
    __syncthreads();
    if (has_newest) {
      if (thread < dim) store_shared(place(values_in(newest_tile), newest % kKeys, thread), fresh[kDim + thread].bits);
      __syncthreads();
    }
    // Third: sums and outputs, tile after tile.
    if (tile_of == count - 1 && quad == 0) top[row_of] = new_top;
    if (thread < 64)
      for (int t = 0; t < count; ++t) sum = fmaf(sum, factors[t * kRows + row_of], sums[(t * kRows + row_of) * 4 + quad]);
    if (warp < kOutWarps)
      for (int t = 0; t < count; ++t) {
        const float low = factors[t * kRows + lane / 4], high = factors[t * kRows + lane / 4 + 8];
#pragma unroll
        for (int n = 0; n < 2; ++n) out[n][0] *= low, out[n][1] *= low, out[n][2] *= high, out[n][3] *= high;
#pragma unroll
        for (int step = 0; step < kKeys / 16; ++step) {
          uint32_t left[4], right[4];
          weights_in(t).load_a(left, 0, step, lane);
          values_in(t).load_b_transposed(right, step * 16, warp, lane);
          mma(out[0], left, right[0], right[1]);
          mma(out[1], left, right[2], right[3]);
        }
      }
    __syncthreads();
    fetch_values(t0 + kTiles);
    copies_commit();
  }
  copies_wait<0>();
  if (thread < 64) {
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    if (quad == 0) inverse[row_of] = sum > 0.0f ? 1.0f / sum : 0.0f;
  }
  __syncthreads();
  if (warp >= kOutWarps) return;
  for (int h = 0; h < 2; ++h) {
    const int r = lane / 4 + 8 * h;
    if (r >= group) continue;
    Bf16* to = a.out + (row * heads + kv_head * group + r) * dim;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int c = warp * 16 + n * 8;
      if (c < dim)
        *reinterpret_cast<uint32_t*>(to + c + lane % 4 * 2) = pack_pair(out[n][2 * h] * inverse[r], out[n][2 * h + 1] * inverse[r]);
    }
  }
}

template <int kDim, class T>
void run(cudaStream_t stream, const DecodeAttentionBf16& a) {
  static const cudaError_t ready =
      cudaFuncSetAttribute(decode_kernel<kDim, T>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shared<kDim>::kBytes);
  cuda_check(ready, "decode_attention_bf16");
  launch_early(stream, dim3(static_cast<unsigned>(a.shape.kv_heads), static_cast<unsigned>(a.shape.count)), kThreads,
               Shared<kDim>::kBytes, decode_kernel<kDim, T>, a);
}

}  // namespace

bool run_decode_attention(cudaStream_t stream, const DecodeAttentionBf16& a) {
  if (a.shape.heads / a.shape.kv_heads > kRows || a.shape.max_q_rows != 1 || a.shape.head_dim > 128) return false;
  if (a.type == DType::kF32)
    a.shape.head_dim <= 64 ? run<64, float>(stream, a) : run<128, float>(stream, a);
  else
    a.shape.head_dim <= 64 ? run<64, Bf16>(stream, a) : run<128, Bf16>(stream, a);
  return true;
}

}  // namespace makar::kernels::cuda
