// Attention in f32, bit-identical to the CPU: keys in tiles of 96 at fixed positions from the start of a
// sequence; tiles are added to the row by the online softmax in key order.
#include <cuda_fp16.h>

#include "base/rng.h"
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/launch.cuh"

namespace makar {

using namespace kernels;
using cuda::each;
using cuda::exp_down;
using cuda::exp_of;
using cuda::log_of;
using cuda::madd;
using cuda::RowLanes;
using cuda::tanh_of;

namespace {

constexpr int kBlock = 128;  // threads per query row: 96 score a tile, all share the dimensions

// The rows of one head of one sequence, and the keys visible to a row.
struct Head {
  AttentionShape shape;
  SequenceRows rows;
  int64_t sequence, head;

  __device__ int64_t kv_head() const { return head / (shape.heads / shape.kv_heads); }
  __device__ int64_t position(int64_t i) const { return rows.past + i; }  // key index of row i
  __device__ const float* query(const float* q, int64_t i) const {
    return q + ((rows.q_start + i) * shape.heads + head) * shape.head_dim;
  }
  __device__ const float* key(const float* k, int64_t j) const {
    return k + ((rows.kv_start + j) * shape.kv_heads + kv_head()) * shape.head_dim;
  }
  // Keys [first, last) are visible to row i, in addition to attention sinks.
  __device__ int64_t first(int64_t i) const {
    const int64_t begin = position(i) - shape.window + 1;
    return shape.window > 0 && begin > 0 ? begin : 0;
  }
  __device__ int64_t last(int64_t i) const {
    const int64_t end = shape.causal ? position(i) + 1 : shape.window > 0 ? position(i) + shape.window
                                                                            : rows.kv_rows;
    return end < rows.kv_rows ? end : rows.kv_rows;
  }
  // Converts a raw product to a score: scale, soft cap, positional bias. The bias is that of key j + shift.
  __device__ float score(float product, int64_t i, int64_t j, int64_t shift = 0) const {
    float s = product * shape.scale;
    if (shape.soft_cap > 0.0f) s = shape.soft_cap * tanh_of(s * (1.0f / shape.soft_cap));
    return shape.bias ? s + bias_at(i, j + shift) : s;
  }
  __device__ float bias_at(int64_t i, int64_t j) const {
    const int64_t at = shape.bias_by_key ? j : j - position(i);
    return shape.bias[head * (2 * shape.bias_span + 1) + shape.bias_span + at];
  }
  // Dropout of weights: a pure function of (seed, step, sequence, head, row, key).
  __device__ float keep_factor(int64_t i, int64_t j) const {
    const Rng rng(shape.seed, Purpose::kAttentionDropout, shape.step);
    const uint64_t stream =
        (shape.stream * static_cast<uint64_t>(shape.count) + static_cast<uint64_t>(sequence)) * shape.heads +
        head;
    const uint64_t index = stream << 40 | static_cast<uint64_t>(i) << 20 | static_cast<uint64_t>(j);
    return rng.uniform(index) < shape.dropout ? 0.0f : 1.0f / (1.0f - shape.dropout);
  }
};

__device__ inline float dot_in_order(const float* a, const float* b, int64_t n) {
  float sum = 0;
  for (int64_t d = 0; d < n; ++d) sum = madd(a[d], b[d], sum);
  return sum;
}

// One key or value in a page of the cache: [kKeyTile][dim] of f32, f16 or int8 with f16 scales
// [kKeyTile][blocks].
struct CachedRow {
  const std::byte* tile;
  DType type;
  int64_t dim, at;
  __device__ float operator[](int64_t d) const {
    if (type == DType::kF32) return reinterpret_cast<const float*>(tile)[at * dim + d];
    if (type == DType::kF16) return __half2float(reinterpret_cast<const __half*>(tile)[at * dim + d]);
    const auto* scales = reinterpret_cast<const __half*>(tile + kKeyTile * dim);
    return __half2float(scales[at * key_blocks(dim) + d / kQuantKeyBlock]) *
           static_cast<float>(reinterpret_cast<const int8_t*>(tile)[at * dim + d]);
  }
};

// Source of keys and values: rows of a batch, or cache pages.
struct PlainKeys {
  const float *k, *v;
  __device__ const float* key(const Head& h, int64_t j) const { return h.key(k, j); }
  __device__ const float* value(const Head& h, int64_t j) const { return h.key(v, j); }
};
struct PagedKeys {
  CacheLayer cache;
  __device__ CachedRow row(const Head& h, int64_t j, int64_t offset, DType type) const {
    return {cache.pages[h.rows.first_page + j / kKeyTile] + offset, type, h.shape.head_dim, j % kKeyTile};
  }
  __device__ CachedRow key(const Head& h, int64_t j) const {
    return row(h, j, cache.k_offset + h.kv_head() * cache.k_head, cache.k_type);
  }
  __device__ CachedRow value(const Head& h, int64_t j) const {
    return row(h, j, cache.v_offset + h.kv_head() * cache.v_head, cache.v_type);
  }
};

// One step of the online softmax on a tile, by the first 16 threads of a block: scores become weights.
struct SoftmaxState {
  float m, l, alpha;
};
__device__ void softmax_step(const RowLanes& lanes, float* s, int64_t begin, int64_t end, int64_t width,
                             SoftmaxState& state) {
  const float top = lanes.max_of(s + begin, end - begin), m = top > state.m ? top : state.m;
  if (m == -INFINITY) {
    lanes.each(width, [&](int64_t j) { s[j] = 0.0f; });
    if (lanes.lane == 0) state.alpha = 1.0f;
    return;
  }
  const float alpha = exp_down(state.m - m);
  lanes.each(width, [&](int64_t j) { s[j] = j >= begin && j < end ? exp_down(s[j] - m) : 0.0f; });
  lanes.sync();
  const float sum = lanes.sum_of(end, [&](int64_t j) { return s[j]; });
  if (lanes.lane == 0) state.l = madd(state.l, alpha, sum), state.alpha = alpha, state.m = m;
}

// One block per (row, head, sequence). Sinks: the first `sinks` keys of tile 0 stay visible before the
// window.
template <class Keys>
__global__ void forward_kernel(AttentionShape shape, const float* q, const float* q_sinks, int64_t sinks,
                               Keys keys, float* out, float* lse) {
  const Head h{shape, shape.sequences[blockIdx.z], blockIdx.z, blockIdx.y};
  const int64_t i = blockIdx.x, dim = shape.head_dim;
  if (i >= h.rows.q_rows) return;
  auto* const shared = reinterpret_cast<float*>(cuda::dynamic_shared());
  float *query = shared, *sink_query = shared + dim, *values = sink_query + dim, *s = values + dim;
  __shared__ SoftmaxState state;
  for (int64_t d = threadIdx.x; d < dim; d += kBlock) {
    query[d] = h.query(q, i)[d];
    sink_query[d] = q_sinks ? h.query(q_sinks, i)[d] : query[d];
    values[d] = 0.0f;
  }
  if (threadIdx.x == 0) state = {-INFINITY, 0.0f, 1.0f};
  __syncthreads();
  const RowLanes lanes{static_cast<int>(threadIdx.x % 16), 0x0000FFFFu};
  const int64_t first = h.first(i), last = h.last(i);
  for (int64_t j0 = 0; j0 < last; j0 += kKeyTile) {
    const bool holds_sinks = sinks > 0 && j0 == 0;
    if (shape.window > 0 && j0 + kKeyTile <= first && !holds_sinks) continue;
    const int64_t end = last - j0 < kKeyTile ? last - j0 : kKeyTile;
    const int64_t begin = holds_sinks || first < j0 ? 0 : first - j0;
    const int64_t j = threadIdx.x;
    if (j >= begin && j < end) {
      const bool sink = holds_sinks && j < sinks;
      const auto key = keys.key(h, j0 + j);
      const float* from = sink ? sink_query : query;
      float sum = 0;
      for (int64_t d = 0; d < dim; ++d) sum = madd(from[d], key[d], sum);
      const int64_t sink_shift = h.position(i) - shape.window + 1 - sinks;
      s[j] = h.score(sum, i, j0 + j, sink && sink_shift > 0 ? sink_shift : 0);
      if (holds_sinks && !sink && j < h.position(i) - shape.window + 1) s[j] = -INFINITY;
    }
    __syncthreads();
    if (threadIdx.x < 16) softmax_step(lanes, s, begin, end, end, state);
    __syncthreads();
    if (shape.dropout > 0.0f && j < end && s[j] != 0.0f) s[j] *= h.keep_factor(i, j0 + j);
    __syncthreads();
    for (int64_t d = threadIdx.x; d < dim; d += kBlock) {
      float sum = state.alpha != 1.0f ? values[d] * state.alpha : values[d];
      for (int64_t p = begin; p < end; ++p) sum = madd(s[p], keys.value(h, j0 + p)[d], sum);
      values[d] = sum;
    }
    __syncthreads();
  }
  const float inv = state.l > 0.0f ? 1.0f / state.l : 0.0f;
  float* to = out + ((h.rows.q_start + i) * shape.heads + h.head) * dim;
  for (int64_t d = threadIdx.x; d < dim; d += kBlock) to[d] = values[d] * inv;
  if (lse && threadIdx.x == 0)
    lse[(h.rows.q_start + i) * shape.heads + h.head] = state.l > 0.0f ? state.m + log_of(state.l) : 0.0f;
}

dim3 row_grid(const AttentionShape& shape) {
  return {static_cast<unsigned>(shape.max_q_rows), static_cast<unsigned>(shape.heads),
          static_cast<unsigned>(shape.count)};
}
size_t row_shared(const AttentionShape& shape) {
  return sizeof(float) * static_cast<size_t>(4 * shape.head_dim + 2 * kKeyTile);
}

// The weight of one key for one row and the gradient of its score, from the stored log-sum-exp.
struct Gradient {
  float weight, after_dropout;  // before and after dropout
  float score, before_cap;      // gradient of the score, with and without scale and soft cap
};
__device__ inline Gradient gradient_of(const Head& h, int64_t i, int64_t j, float product, float dp,
                                       float delta, float lse) {
  const AttentionShape& shape = h.shape;
  const float s = h.score(product, i, j), w = exp_of(s - lse);
  const bool plain = shape.dropout <= 0.0f && shape.soft_cap <= 0.0f;
  if (plain) return {w, w, w * (dp - delta) * shape.scale, w * (dp - delta)};
  const float keep = shape.dropout > 0.0f ? h.keep_factor(i, j) : 1.0f;
  float ds = w * (dp * keep - delta);
  const float before_cap = ds;
  if (shape.soft_cap > 0.0f) {
    const float capped = (shape.bias ? s - h.bias_at(i, j) : s) / shape.soft_cap;
    ds *= 1.0f - capped * capped;
  }
  return {w, w * keep, ds * shape.scale, before_cap};
}

// dq: one block per (row, head, sequence), keys in order.
__global__ void dq_kernel(AttentionBackward a, const float* delta) {
  const AttentionShape& shape = a.shape;
  const Head h{shape, shape.sequences[blockIdx.z], blockIdx.z, blockIdx.y};
  const int64_t i = blockIdx.x, dim = shape.head_dim;
  if (i >= h.rows.q_rows) return;
  auto* const shared = reinterpret_cast<float*>(cuda::dynamic_shared());
  float *query = shared, *dout = shared + dim, *s = shared + 2 * dim;
  for (int64_t d = threadIdx.x; d < dim; d += kBlock)
    query[d] = h.query(a.q, i)[d], dout[d] = h.query(a.dy, i)[d];
  __syncthreads();
  const int64_t row = (h.rows.q_start + i) * shape.heads + h.head, first = h.first(i), last = h.last(i);
  float* dq = a.dq + row * dim;
  for (int64_t j0 = first / kKeyTile * kKeyTile; j0 < last; j0 += kKeyTile) {
    const int64_t j = j0 + threadIdx.x, end = last - j0 < kKeyTile ? last - j0 : kKeyTile;
    const int64_t begin = first < j0 ? 0 : first - j0;
    if (threadIdx.x >= begin && threadIdx.x < end)
      s[threadIdx.x] = gradient_of(h, i, j, dot_in_order(query, h.key(a.k, j), dim),
                                   dot_in_order(dout, h.key(a.v, j), dim), delta[row], a.lse[row])
                           .score;
    __syncthreads();
    for (int64_t d = threadIdx.x; d < dim; d += kBlock) {
      float sum = dq[d];
      for (int64_t p = begin; p < end; ++p) sum = madd(s[p], h.key(a.k, j0 + p)[d], sum);
      dq[d] = sum;
    }
    __syncthreads();
  }
}

// dk and dv: one block per (key, key/value head, sequence), the query heads of the group and their rows in
// order.
__global__ void dkv_kernel(AttentionBackward a, const float* delta) {
  const AttentionShape& shape = a.shape;
  const int64_t group = shape.heads / shape.kv_heads, j = blockIdx.x, dim = shape.head_dim;
  Head h{shape, shape.sequences[blockIdx.z], blockIdx.z, static_cast<int64_t>(blockIdx.y) * group};
  if (j >= h.rows.kv_rows) return;
  auto* const shared = reinterpret_cast<float*>(cuda::dynamic_shared());
  float *key = shared, *value = shared + dim, *s = shared + 2 * dim, *w = s + kBlock;
  for (int64_t d = threadIdx.x; d < dim; d += kBlock) key[d] = h.key(a.k, j)[d], value[d] = h.key(a.v, j)[d];
  __syncthreads();
  const int64_t at = ((h.rows.kv_start + j) * shape.kv_heads + h.kv_head()) * dim;
  const int64_t begin = shape.causal && j > h.rows.past ? j - h.rows.past : 0;
  for (int64_t n = 0; n < group; ++n, ++h.head)
    for (int64_t i0 = begin; i0 < h.rows.q_rows; i0 += kBlock) {
      const int64_t i = i0 + threadIdx.x, rows = h.rows.q_rows - i0 < kBlock ? h.rows.q_rows - i0 : kBlock;
      s[threadIdx.x] = w[threadIdx.x] = 0.0f;
      if (i < h.rows.q_rows && j >= h.first(i) && j < h.last(i)) {
        const int64_t row = (h.rows.q_start + i) * shape.heads + h.head;
        const Gradient g = gradient_of(h, i, j, dot_in_order(h.query(a.q, i), key, dim),
                                       dot_in_order(h.query(a.dy, i), value, dim), delta[row], a.lse[row]);
        s[threadIdx.x] = g.score, w[threadIdx.x] = g.after_dropout;
      }
      __syncthreads();
      for (int64_t d = threadIdx.x; d < dim; d += kBlock) {
        float dk = a.dk[at + d], dv = a.dv[at + d];
        for (int64_t p = 0; p < rows; ++p) {
          dv = madd(w[p], h.query(a.dy, i0 + p)[d], dv);
          dk = madd(s[p], h.query(a.q, i0 + p)[d], dk);
        }
        a.dk[at + d] = dk, a.dv[at + d] = dv;
      }
      __syncthreads();
    }
}

// dbias: one thread per (distance, head, sequence), rows in order.
__global__ void dbias_kernel(AttentionBackward a, const float* delta) {
  const AttentionShape& shape = a.shape;
  const Head h{shape, shape.sequences[blockIdx.z], blockIdx.z, blockIdx.y};
  const int64_t width = 2 * shape.bias_span + 1,
                at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= width) return;
  const int64_t distance = at - shape.bias_span, dim = shape.head_dim;
  float* to = a.dbias + (h.sequence * shape.heads + h.head) * width + at;
  float sum = *to;
  for (int64_t i = 0; i < h.rows.q_rows; ++i) {
    const int64_t j = h.position(i) + distance, row = (h.rows.q_start + i) * shape.heads + h.head;
    if (j < h.first(i) || j >= h.last(i)) continue;
    sum += gradient_of(h, i, j, dot_in_order(h.query(a.q, i), h.key(a.k, j), dim),
                       dot_in_order(h.query(a.dy, i), h.key(a.v, j), dim), delta[row], a.lse[row])
               .before_cap;
  }
  *to = sum;
}

__device__ inline __half clamped_half(float x) {
  constexpr float kMax = 65504.0f;
  return __float2half_rn(x > kMax ? kMax : x < -kMax ? -kMax : x);
}

// Writes one head's row into a tile.
__device__ void store_row(DType type, const float* from, int64_t dim, int64_t at, std::byte* tile) {
  if (type == DType::kF32) {
    for (int64_t d = 0; d < dim; ++d) reinterpret_cast<float*>(tile)[at * dim + d] = from[d];
    return;
  }
  if (type == DType::kF16) {
    for (int64_t d = 0; d < dim; ++d) reinterpret_cast<__half*>(tile)[at * dim + d] = clamped_half(from[d]);
    return;
  }
  auto* to = reinterpret_cast<int8_t*>(tile) + at * dim;
  auto* scales = reinterpret_cast<__half*>(tile + kKeyTile * dim) + at * key_blocks(dim);
  for (int64_t d0 = 0; d0 < dim; d0 += kQuantKeyBlock) {
    const int64_t n = dim - d0 < kQuantKeyBlock ? dim - d0 : kQuantKeyBlock;
    float max = 0;
    bool finite = true;
    for (int64_t i = 0; i < n; ++i) {
      finite = finite && isfinite(from[d0 + i]);
      max = fabsf(from[d0 + i]) > max ? fabsf(from[d0 + i]) : max;
    }
    if (!finite) {
      for (int64_t i = 0; i < n; ++i) to[d0 + i] = 1;
      scales[d0 / kQuantKeyBlock] = __ushort_as_half(0x7e00);
      continue;
    }
    const float scale = max / 127.0f < 65504.0f ? max / 127.0f : 65504.0f,
                inverse = scale > 0 ? 1.0f / scale : 0.0f;
    for (int64_t i = 0; i < n; ++i) {
      const float rounded = roundf(from[d0 + i] * inverse);
      to[d0 + i] = static_cast<int8_t>(rounded > 127.0f ? 127.0f : rounded < -127.0f ? -127.0f : rounded);
    }
    scales[d0 / kQuantKeyBlock] = clamped_half(scale);
  }
}

}  // namespace

void CudaDevice::attention(const Attention& a) {
  if (a.shape.count == 0 || a.shape.max_q_rows == 0) return;
  cuda::launch(stream_, row_grid(a.shape), kBlock, row_shared(a.shape), forward_kernel<PlainKeys>, a.shape, a.q, nullptr, 0,
               PlainKeys{a.k, a.v}, a.out, a.lse);
}

void CudaDevice::attention_cached(const AttentionCached& a) {
  if (a.shape.count == 0 || a.shape.max_q_rows == 0) return;
  cuda::launch(stream_, row_grid(a.shape), kBlock, row_shared(a.shape), forward_kernel<PagedKeys>, a.shape, a.q, a.q_sinks,
               a.sinks, PagedKeys{a.cache}, a.out, a.lse);
}

void CudaDevice::attention_weights(const AttentionWeights& a) {
  each(stream_, a.shape.heads * a.shape.max_q_rows * a.shape.max_kv_rows, [=] __device__(int64_t item) {
    const int64_t j = item % a.shape.max_kv_rows, i = item / a.shape.max_kv_rows % a.shape.max_q_rows,
                  head = item / (a.shape.max_kv_rows * a.shape.max_q_rows);
    const Head h{a.shape, a.shape.sequences[a.sequence], a.sequence, head};
    if (i >= h.rows.q_rows || j >= h.rows.kv_rows) return;
    const int64_t row = (h.rows.q_start + i) * a.shape.heads + head;
    float* to = a.weights + (head * h.rows.q_rows + i) * h.rows.kv_rows + j;
    const bool visible = j >= h.first(i) && j < h.last(i);
    *to = visible ? exp_of(h.score(dot_in_order(h.query(a.q, i), h.key(a.k, j), a.shape.head_dim), i, j) -
                           a.lse[row])
                  : 0.0f;
  });
}

void CudaDevice::attention_backward(const AttentionBackward& a) {
  const AttentionShape& shape = a.shape;
  if (shape.count == 0 || shape.max_q_rows == 0) return;
  const int64_t rows = shape.total_q_rows * shape.heads, dim = shape.head_dim;
  const CudaScratch<float> deltas(memory_, rows);
  float* delta = deltas.data();
  cuda::each_row(stream_, rows, [=] __device__(int64_t r, const RowLanes& lanes) {
    const float *x = a.dy + r * dim, *y = a.out + r * dim;
    const float d = lanes.dot_of(
        dim, [=](int64_t i) { return x[i]; }, [=](int64_t i) { return y[i]; });
    if (lanes.lane == 0) delta[r] = d;
  });
  cuda::launch(stream_, row_grid(shape), kBlock, row_shared(shape), dq_kernel, a, delta);
  const dim3 keys(static_cast<unsigned>(shape.max_kv_rows), static_cast<unsigned>(shape.kv_heads),
                  static_cast<unsigned>(shape.count));
  cuda::launch(stream_, keys, kBlock, sizeof(float) * static_cast<size_t>(2 * dim + 2 * kBlock), dkv_kernel, a, delta);
  if (a.dbias) {
    const dim3 grid(static_cast<unsigned>((2 * shape.bias_span + 1 + kBlock - 1) / kBlock),
                    static_cast<unsigned>(shape.heads), static_cast<unsigned>(shape.count));
    cuda::launch(stream_, grid, kBlock, 0, dbias_kernel, a, delta);
  }
}

void CudaDevice::cache_store(const CacheStore& a) {
  const int64_t dim = a.head_dim;
  each(stream_, a.count * a.max_q_rows * a.kv_heads, [=] __device__(int64_t item) {
    const int64_t head = item % a.kv_heads, i = item / a.kv_heads % a.max_q_rows,
                  s = item / (a.kv_heads * a.max_q_rows);
    const SequenceRows rows = a.sequences[s];
    if (i >= rows.q_rows) return;
    const int64_t at = rows.past + i, from = ((rows.q_start + i) * a.kv_heads + head) * dim;
    auto* page = const_cast<std::byte*>(a.cache.pages[rows.first_page + at / kKeyTile]);
    store_row(a.cache.k_type, a.k + from, dim, at % kKeyTile,
              page + a.cache.k_offset + head * a.cache.k_head);
    store_row(a.cache.v_type, a.v + from, dim, at % kKeyTile,
              page + a.cache.v_offset + head * a.cache.v_head);
  });
}

void CudaDevice::bias_from_table(const BiasFromTable& a) {
  each(stream_, a.heads * a.width,
       [=] __device__(int64_t i) { a.bias[i] = a.table[a.bucket[i % a.width] * a.heads + i / a.width]; });
}
void CudaDevice::bias_from_table_backward(const BiasFromTableBackward& a) {
  each(stream_, a.heads, [=] __device__(int64_t h) {
    for (int64_t s = 0; s < a.sequences; ++s)
      for (int64_t i = 0; i < a.width; ++i)
        a.dtable[a.bucket[i] * a.heads + h] += a.dbias[(s * a.heads + h) * a.width + i];
  });
}

}  // namespace makar
