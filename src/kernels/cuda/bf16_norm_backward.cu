// Gradients of norms on bf16 activations, and column sums.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/warp_rows.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

void CudaDevice::column_sums_bf16(const ColumnSumsBf16& a) {
  const bool vector = aligned(a.x) && a.cols % 8 == 0;
  const ColumnTarget to[1] = {{a.y, a.accumulate}};
  column_totals<1>(stream_, memory_, a.rows, a.cols, to, [=] __device__(int64_t r, int64_t c, int64_t left, float(&sums)[1][8]) {
    float v[8];
    load8(a.x + r * a.cols + c, left, vector, v);
    for (int j = 0; j < 8; ++j) sums[0][j] += v[j];
  });
}

namespace {

constexpr int kSums = 3;

// dx of rows of up to 256 * kParts values, and sums for dw, db and rounded_sums. A block processes a chunk of rows, and its warps
// are the lanes of chunk_sums_kernel: the sums are added in the order of column_sums_bf16.
template <int kParts>
__global__ void __launch_bounds__(32 * kRowLanes, 1) norm_backward_kernel(NormBackwardBf16 a, float* parts) {
  __shared__ float shared[kRowLanes][256];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t n = a.cols;
  const float inverse = 1.0f / static_cast<float>(n);
  float sums[kSums][kParts][8] = {};
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kChunkRows,
                end = begin + kChunkRows < a.rows ? begin + kChunkRows : a.rows;
  for (int64_t r = begin + warp; r < end; r += kRowLanes) {
    const float mean = a.rms ? 0.0f : a.stats[2 * r], rstd = a.rms ? a.stats[r] : a.stats[2 * r + 1];
    float x[kParts][8], old[kParts][8], w[8], g[8], sum = 0.0f, dot = 0.0f;
    uint4 dy[kParts];
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const int64_t c = p * 256 + lane * 8;
      if (c >= n) continue;
      load8(a.x + r * n + c, 8, true, x[p]);
      dy[p] = *reinterpret_cast<const uint4*>(a.dy + r * n + c);
      if (a.accumulate_x) load8(a.dx + r * n + c, 8, true, old[p]);
    }
    const auto gradients = [&](int p, int64_t c) {  // of the normalised x
      load8(reinterpret_cast<const Bf16*>(&dy[p]), 8, true, g);
      if (a.w) load8(a.w + c, 8, true, w);
    };
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const int64_t c = p * 256 + lane * 8;
      if (c >= n) continue;
      gradients(p, c);
      for (int j = 0; j < 8; ++j) {
        x[p][j] = (x[p][j] - mean) * rstd;
        sums[0][p][j] = fmaf(g[j], x[p][j], sums[0][p][j]);
        sums[1][p][j] += g[j];
        if (a.w) g[j] *= a.rms ? w[j] + a.offset : w[j];
        sum += g[j], dot = fmaf(g[j], x[p][j], dot);
      }
    }
    const float g_mean = a.rms ? 0.0f : warp_sum(sum) * inverse;
    dot = warp_sum(dot) * inverse;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const int64_t c = p * 256 + lane * 8;
      if (c >= n) continue;
      gradients(p, c);
      float* dx = a.dx + r * n + c;
      for (int j = 0; j < 8; ++j) {
        if (a.w) g[j] *= a.rms ? w[j] + a.offset : w[j];
        const float d = rstd * (g[j] - g_mean - x[p][j] * dot);
        g[j] = a.accumulate_x ? old[p][j] + d : d;
      }
      store8(dx, 8, true, g);
      if (a.rounded) store8(a.rounded + r * n + c, 8, true, g);
      for (int j = 0; j < 8; ++j) sums[2][p][j] += widen(narrow(g[j]));
    }
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s)
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      for (int j = 0; j < 8; ++j) shared[warp][lane * 8 + j] = sums[s][p][j];
      __syncthreads();
      const int64_t c = p * 256 + threadIdx.x;
      if (threadIdx.x < 256 && c < n) {
        float total = 0.0f;
        for (int i = 0; i < kRowLanes; ++i) total += shared[i][threadIdx.x];
        parts[(s * static_cast<int64_t>(gridDim.x) + blockIdx.x) * n + c] = total;
      }
      __syncthreads();
    }
}

}  // namespace

void CudaDevice::norm_backward_bf16(const NormBackwardBf16& a) {
  const int64_t n = a.cols;
  const bool vector = n % 8 == 0 && all_aligned(a.x, a.w, a.dx) && all_aligned(a.dy, a.rounded);
  const ColumnTarget to[2] = {{a.dw, a.accumulate_w}, {a.db, a.accumulate_b}};
  if (a.dx && vector && n <= kShortRow && a.rows > 0) {
    return with_parts(n, [&](auto parts) {
      constexpr int kParts = decltype(parts)::value;
      const int64_t chunks = (a.rows + kChunkRows - 1) / kChunkRows;
      const CudaScratch<float> sums(memory_, kSums * chunks * n);
      launch(stream_, static_cast<unsigned>(chunks), 32 * kRowLanes, 0, norm_backward_kernel<kParts>, a, sums.data());
      const ColumnTarget all[kSums] = {to[0], to[1], {a.rounded_sums, false}};
      add_chunks(stream_, sums.data(), chunks, n, all);
    });
  }
  if (a.dx)
    each_warp_row(stream_, a.rows, [=] __device__(int64_t r, int lane) {
      const float *x = a.x + r * n, inverse = 1.0f / static_cast<float>(n);
      const Bf16* dy = a.dy + r * n;
      const float mean = a.rms ? 0.0f : a.stats[2 * r], rstd = a.rms ? a.stats[r] : a.stats[2 * r + 1];
      float v[8], g[8], w[8], sum = 0.0f, dot = 0.0f;
      // v: the normalised x; g: its gradient.
      const auto read = [&](int64_t c, int64_t left) {
        load8(x + c, left, vector, v);
        load8(dy + c, left, vector, g);
        if (a.w) load8(a.w + c, left, vector, w);
        for (int j = 0; j < 8; ++j) {
          v[j] = (v[j] - mean) * rstd;
          if (a.w) g[j] *= a.rms ? w[j] + a.offset : w[j];
        }
      };
      each_group(lane, n, [&](int64_t c, int64_t left) {
        read(c, left);
        for (int j = 0; j < 8; ++j) sum += g[j], dot = fmaf(g[j], v[j], dot);
      });
      const float g_mean = a.rms ? 0.0f : warp_sum(sum) * inverse;
      dot = warp_sum(dot) * inverse;
      float* dx = a.dx + r * n;
      each_group(lane, n, [&](int64_t c, int64_t left) {
        read(c, left);
        if (a.accumulate_x) load8(dx + c, left, vector, w);
        for (int j = 0; j < 8; ++j) {
          const float d = rstd * (g[j] - g_mean - v[j] * dot);
          g[j] = a.accumulate_x ? w[j] + d : d;
        }
        store8(dx + c, left, vector, g);
        if (a.rounded) store8(a.rounded + r * n + c, left, vector, g);
      });
    });
  if (a.rounded_sums) column_sums_bf16({a.rounded, a.rounded_sums, a.rows, n, false});
  if (!a.dw && !a.db) return;
  column_totals<2>(stream_, memory_, a.rows, n, to, [=] __device__(int64_t r, int64_t c, int64_t left, float(&sums)[2][8]) {
    float v[8], d[8];
    load8(a.x + r * n + c, left, vector, v);
    load8(a.dy + r * n + c, left, vector, d);
    const float mean = a.rms ? 0.0f : a.stats[2 * r], rstd = a.rms ? a.stats[r] : a.stats[2 * r + 1];
    for (int j = 0; j < 8; ++j) {
      sums[0][j] = fmaf(d[j], (v[j] - mean) * rstd, sums[0][j]);
      sums[1][j] += d[j];
    }
  });
}

}  // namespace makar
