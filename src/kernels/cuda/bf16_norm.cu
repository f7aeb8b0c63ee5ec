// Norms on bf16 activations, one warp per row.
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/warp_rows.cuh"

namespace makar {

using namespace kernels;
using namespace kernels::cuda;

namespace {

constexpr int64_t kFewNormRows = 256;

// RMSNorm of few rows, one warp per block: all loads of a row are under way at once. The sums of norm_bf16; cols is a multiple
// of 256, and at most 256 * kParts.
template <int kParts>
__global__ void __launch_bounds__(32) few_rms_rows_kernel(const __grid_constant__ NormBf16 a) {
  let_next_kernel_start();
  const int lane = threadIdx.x, n = static_cast<int>(a.cols);
  float v[kParts][8], w[kParts][8], sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kParts; ++i)
    if (i * 256 < n) fetch_to_cache(a.w + i * 256 + lane * 8);
  wait_for_previous_kernel();
  const float* x = a.x + blockIdx.x * a.cols;
#pragma unroll
  for (int i = 0; i < kParts; ++i)
    if (i * 256 < n) load8(x + i * 256 + lane * 8, 8, true, v[i]), load8(a.w + i * 256 + lane * 8, 8, true, w[i]);
#pragma unroll
  for (int i = 0; i < kParts; ++i)
    if (i * 256 < n)
#pragma unroll
      for (int j = 0; j < 8; ++j) sum = fmaf(v[i][j], v[i][j], sum);
  const float rstd = rsqrtf(fmaf(warp_sum(sum), 1.0f / static_cast<float>(n), a.eps));
  if (lane == 0) a.stats[blockIdx.x] = rstd;
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    if (i * 256 >= n) continue;
#pragma unroll
    for (int j = 0; j < 8; ++j) v[i][j] = v[i][j] * rstd * (w[i][j] + a.offset);
    store8(a.y + blockIdx.x * a.cols + i * 256 + lane * 8, 8, true, v[i]);
  }
}
// The same for rows of any length.
__global__ void __launch_bounds__(32) few_long_rms_rows_kernel(const __grid_constant__ NormBf16 a) {
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

__device__ void store_stats(const NormBf16& a, int64_t r, float mean, float rstd) {
  if (a.rms)
    a.stats[r] = rstd;
  else
    a.stats[2 * r] = mean, a.stats[2 * r + 1] = rstd;
}

// A row of up to 256 * kParts values in registers: eight consecutive ones per lane and part. The sums are
// those of the kernel for longer rows, in the same order.
template <int kParts>
__device__ inline void norm_row(const NormBf16& a, int64_t r, int lane) {
  const int64_t n = a.cols;
  const float inverse = 1.0f / static_cast<float>(n);
  float x[kParts][8], w[8], b[8], mean = 0.0f, sum = 0.0f;
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const int64_t c = p * 256 + lane * 8;
    if (c < n)
      load8(a.x + r * n + c, 8, true, x[p]);
    else
      for (int j = 0; j < 8; ++j) x[p][j] = 0.0f;
    if (a.addend && c < n) {
      load8(a.addend + r * n + c, 8, true, w);
      for (int j = 0; j < 8; ++j) x[p][j] += w[j];
      store8(a.sum + r * n + c, 8, true, x[p]);
    }
  }
  if (!a.rms) {
#pragma unroll
    for (int p = 0; p < kParts; ++p)
      if (p * 256 + lane * 8 < n)
        for (int j = 0; j < 8; ++j) sum += x[p][j];
    mean = warp_sum(sum) * inverse;
    sum = 0.0f;
  }
#pragma unroll
  for (int p = 0; p < kParts; ++p)
    if (p * 256 + lane * 8 < n)
      for (int j = 0; j < 8; ++j) sum = fmaf(x[p][j] - mean, x[p][j] - mean, sum);
  const float rstd = rsqrtf(fmaf(warp_sum(sum), inverse, a.eps));
  if (lane == 0) store_stats(a, r, mean, rstd);
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const int64_t c = p * 256 + lane * 8;
    if (c >= n) continue;
    if (a.w) load8(a.w + c, 8, true, w);
    if (a.b) load8(a.b + c, 8, true, b);
    for (int j = 0; j < 8; ++j) {
      float& v = x[p][j];
      v = (v - mean) * rstd;
      if (a.w) v *= a.rms ? w[j] + a.offset : w[j];
      if (a.b) v += b[j];
    }
    store8(a.y + r * n + c, 8, true, x[p]);
  }
}

template <int kParts>
void norm_rows(cudaStream_t stream, const NormBf16& a) {
  each_warp_row(stream, a.rows, [=] __device__(int64_t r, int lane) { norm_row<kParts>(a, r, lane); });
}

}  // namespace

void CudaDevice::norm_bf16(const NormBf16& a) {
  const int64_t n = a.cols;
  const bool vector = n % 8 == 0 && all_aligned(a.x, a.w, a.b) && all_aligned(a.y, a.addend) && aligned(a.sum);
  const bool few = a.rms && a.w && !a.b && !a.addend && a.rows > 0 && a.rows <= kFewNormRows;
  if (few && vector && n % 256 == 0 && n <= 65536)
    return launch_early(stream_, dim3(static_cast<unsigned>(a.rows)), 32, 0, n <= 2048 ? few_rms_rows_kernel<8> : few_long_rms_rows_kernel, a);
  if (vector && n <= kShortRow) return with_parts(n, [&](auto parts) { norm_rows<decltype(parts)::value>(stream_, a); });
  if (vector && n <= 4 * kShortRow) return n <= 2 * kShortRow ? norm_rows<8>(stream_, a) : norm_rows<16>(stream_, a);
  if (a.addend) {
    add_bf16({a.x, a.addend, a.sum, a.rows * n});
    return norm_bf16({a.rms, a.sum, a.w, a.b, a.y, a.stats, a.rows, n, a.eps, a.offset});
  }
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
    if (lane == 0) store_stats(a, r, mean, rstd);
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

}  // namespace makar
