// Norms on bf16 activations, one warp per row, and column sums: over chunks of rows, then over the chunks in order.
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/cuda_device.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int kWarps = 8;
constexpr int64_t kFewNormRows = 256;
// Column sums: rows per chunk, rows at a time, columns per block, groups of chunks.
constexpr int kChunkRows = 128, kRowLanes = 8, kColumns = 256, kGroups = 32;

// Runs body(row, lane) on a warp for every row.
template <class F>
__global__ void warp_rows_kernel(int64_t rows, F body) {
  let_next_kernel_start();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row < rows) body(row, static_cast<int>(threadIdx.x % 32));
}
template <class F>
void each_warp_row(cudaStream_t stream, int64_t rows, F body) {
  if (rows <= 0) return;
  warp_rows_kernel<<<static_cast<unsigned>((rows + kWarps - 1) / kWarps), 32 * kWarps, 0, stream>>>(rows, body);
  cuda_check(cudaGetLastError(), "kernel launch");
}

// RMSNorm of few rows, one warp per block: all loads of a row are under way at once. The sums of norm_bf16; cols is a
// multiple of 256.
__global__ void __launch_bounds__(32) few_rms_rows_kernel(const __grid_constant__ NormBf16 a) {
  let_next_kernel_start();
  const int lane = threadIdx.x, n = static_cast<int>(a.cols);
  float v[8], w[8], sum = 0.0f;
  wait_for_previous_kernel();
  const float* x = a.x + blockIdx.x * a.cols;
#pragma unroll 8
  for (int c = lane * 8; c < n; c += 256) {
    load8(x + c, 8, true, v);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum = fmaf(v[j], v[j], sum);
  }
  const float rstd = rsqrtf(fmaf(warp_sum(sum), 1.0f / static_cast<float>(n), a.eps));
  if (lane == 0) a.stats[blockIdx.x] = rstd;
#pragma unroll 4
  for (int c = lane * 8; c < n; c += 256) {
    load8(x + c, 8, true, v);
    load8(a.w + c, 8, true, w);
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = v[j] * rstd * (w[j] + a.offset);
    store8(a.y + blockIdx.x * a.cols + c, 8, true, v);
  }
}

// Per column, the sums of kSums terms over a chunk of rows: parts[sum][chunk][column].
template <int kSums, class F>
__global__ void __launch_bounds__(32 * kRowLanes) chunk_sums_kernel(int64_t rows, int64_t cols, F term, float* parts) {
  __shared__ float shared[kSums][kRowLanes][kColumns];
  const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
  const int64_t c0 = static_cast<int64_t>(blockIdx.x) * kColumns + lane * 8, left = cols - c0;
  const int64_t r0 = static_cast<int64_t>(blockIdx.y) * kChunkRows;
  float sums[kSums][8] = {};
  if (left > 0)
    for (int64_t r = r0 + part; r < r0 + kChunkRows && r < rows; r += kRowLanes) term(r, c0, left, sums);
  for (int s = 0; s < kSums; ++s)
    for (int j = 0; j < 8; ++j) shared[s][part][lane * 8 + j] = sums[s][j];
  __syncthreads();
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  if (c >= cols) return;
  for (int s = 0; s < kSums; ++s) {
    float sum = 0;
    for (int p = 0; p < kRowLanes; ++p) sum += shared[s][p][threadIdx.x];
    parts[(s * gridDim.y + blockIdx.y) * cols + c] = sum;
  }
}
// y (+)= the chunks' sums: 32 groups of consecutive chunks, then the groups in order.
__global__ void add_chunks_kernel(const float* parts, int64_t chunks, int64_t cols, float* y, bool accumulate) {
  __shared__ float shared[kGroups][32];
  const int64_t c = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const int64_t per_group = (chunks + kGroups - 1) / kGroups, begin = threadIdx.y * per_group;
  float sum = 0;
  if (c < cols)
    for (int64_t i = begin; i < begin + per_group && i < chunks; ++i) sum += parts[i * cols + c];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= cols) return;
  float total = accumulate ? y[c] : 0.0f;
  for (int p = 0; p < kGroups; ++p) total += shared[p][threadIdx.x];
  y[c] = total;
}

struct ColumnTarget {
  float* y;
  bool accumulate;
};
void add_chunks(cudaStream_t stream, const float* parts, int64_t chunks, int64_t cols, const ColumnTarget& to) {
  if (to.y)
    add_chunks_kernel<<<static_cast<unsigned>((cols + 31) / 32), dim3(32, kGroups), 0, stream>>>(parts, chunks, cols, to.y,
                                                                                               to.accumulate);
  cuda_check(cudaGetLastError(), "column sums");
}
// term(row, column, left, sums) adds the terms of eight columns.
template <int kSums, class F>
void column_totals(cudaStream_t stream, Memory& memory, int64_t rows, int64_t cols, const ColumnTarget (&to)[kSums], F term) {
  if (cols <= 0) return;
  const int64_t chunks = std::max<int64_t>(1, (rows + kChunkRows - 1) / kChunkRows);
  const CudaScratch<float> parts(memory, kSums * chunks * cols);
  const dim3 grid(static_cast<unsigned>((cols + kColumns - 1) / kColumns), static_cast<unsigned>(chunks));
  chunk_sums_kernel<kSums><<<grid, 32 * kRowLanes, 0, stream>>>(rows, cols, term, parts.data());
  for (int s = 0; s < kSums; ++s) add_chunks(stream, parts.data() + s * chunks * cols, chunks, cols, to[s]);
}

// Calls body(column, left) for the groups of eight columns of a lane.
template <class F>
__device__ inline void each_group(int lane, int64_t cols, F&& body) {
  for (int64_t c = lane * 8; c < cols; c += 256) body(c, cols - c);
}

}  // namespace

void CudaDevice::column_sums_bf16(const ColumnSumsBf16& a) {
  const bool vector = aligned(a.x) && a.cols % 8 == 0;
  const ColumnTarget to[1] = {{a.y, a.accumulate}};
  column_totals<1>(stream_, memory_, a.rows, a.cols, to, [=] __device__(int64_t r, int64_t c, int64_t left, float (&sums)[1][8]) {
    float v[8];
    load8(a.x + r * a.cols + c, left, vector, v);
    for (int j = 0; j < 8; ++j) sums[0][j] += v[j];
  });
}

void CudaDevice::norm_bf16(const NormBf16& a) {
  const int64_t n = a.cols;
  const bool vector = n % 8 == 0 && all_aligned(a.x, a.w, a.b) && aligned(a.y);
  if (a.rms && a.w && !a.b && vector && n % 256 == 0 && n <= 65536 && a.rows > 0 && a.rows <= kFewNormRows)
    return launch_early(stream_, dim3(static_cast<unsigned>(a.rows)), 32, 0, few_rms_rows_kernel, a);
  each_warp_row(stream_, a.rows, [=] __device__(int64_t r, int lane) {
    const float* x = a.x + r * n;
    const float inverse = 1.0f / static_cast<float>(n);
    float mean = 0.0f, sum = 0.0f, v[8], w[8], b[8];
    if (!a.rms) {
      each_group(lane, n, [&](int64_t c, int64_t left) {
        load8(x + c, left, vector, v);
        for (int j = 0; j < 8; ++j) sum += v[j];
      });
      mean = warp_sum(sum) * inverse;
      sum = 0.0f;
    }
    each_group(lane, n, [&](int64_t c, int64_t left) {
      load8(x + c, left, vector, v);
      for (int j = 0; j < 8; ++j)
        if (j < left) sum = fmaf(v[j] - mean, v[j] - mean, sum);
    });
    const float rstd = rsqrtf(fmaf(warp_sum(sum), inverse, a.eps));
    if (lane == 0) {
      if (a.rms)
        a.stats[r] = rstd;
      else
        a.stats[2 * r] = mean, a.stats[2 * r + 1] = rstd;
    }
    each_group(lane, n, [&](int64_t c, int64_t left) {
      load8(x + c, left, vector, v);
      if (a.w) load8(a.w + c, left, vector, w);
      if (a.b) load8(a.b + c, left, vector, b);
      for (int j = 0; j < 8; ++j) {
        v[j] = (v[j] - mean) * rstd;
        if (a.w) v[j] *= a.rms ? w[j] + a.offset : w[j];
        if (a.b) v[j] += b[j];
      }
      store8(a.y + r * n + c, left, vector, v);
    });
  });
}

void CudaDevice::norm_backward_bf16(const NormBackwardBf16& a) {
  const int64_t n = a.cols;
  const bool vector = n % 8 == 0 && all_aligned(a.x, a.w, a.dx) && aligned(a.dy);
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
      });
    });
  if (!a.dw && !a.db) return;
  const ColumnTarget to[2] = {{a.dw, a.accumulate_w}, {a.db, a.accumulate_b}};
  column_totals<2>(stream_, memory_, a.rows, n, to, [=] __device__(int64_t r, int64_t c, int64_t left, float (&sums)[2][8]) {
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
