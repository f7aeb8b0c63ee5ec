// Softmax and losses.
#include "kernels/cuda/block_rows.cuh"
#include "kernels/cuda/cuda_device.cuh"

namespace makar {

using namespace kernels;
using cuda::add_in_order;
using cuda::each;
using cuda::each_row_of;
using cuda::exp_of;
using cuda::log_sum_exp;
using cuda::madd;
using cuda::tanh_of;

void CudaDevice::softmax(const Softmax& a) {
  const int64_t n = a.cols;
  each_row_of(stream_, a.rows, n, [=] __device__(int64_t r, const auto& lanes) {
    const float* x = a.x + r * n;
    float* y = a.y + r * n;
    if (a.log) {
      const float lse = log_sum_exp(lanes, x, n);
      lanes.each(n, [&](int64_t i) { y[i] = x[i] - lse; });
      return;
    }
    const float m = lanes.max_of(x, n);
    lanes.each(n, [&](int64_t i) { y[i] = exp_of(x[i] - m); });
    const float inv = 1.0f / lanes.sum_of(n, [&](int64_t i) { return y[i]; });
    lanes.each(n, [&](int64_t i) { y[i] *= inv; });
  });
}

void CudaDevice::softmax_backward(const SoftmaxBackward& a) {
  const int64_t n = a.cols;
  each_row_of(stream_, a.rows, n, [=] __device__(int64_t r, const auto& lanes) {
    const float *y = a.y + r * n, *dy = a.dy + r * n;
    float* dx = a.dx + r * n;
    if (a.log) {
      const float s = lanes.sum_of(n, [=](int64_t i) { return dy[i]; });
      lanes.each(n, [&](int64_t i) {
        const float value = madd(-s, exp_of(y[i]), dy[i]);
        dx[i] = a.accumulate ? dx[i] + value : value;
      });
      return;
    }
    const float d = lanes.dot_of(
        n, [=](int64_t i) { return y[i]; }, [=](int64_t i) { return dy[i]; });
    lanes.each(n,
               [&](int64_t i) { dx[i] = a.accumulate ? madd(y[i], dy[i] - d, dx[i]) : y[i] * (dy[i] - d); });
  });
}

void CudaDevice::cross_entropy(const CrossEntropy& a) {
  const int64_t n = a.cols;
  const bool capped = a.soft_cap > 0.0f;
  const CudaScratch<float> tanhs(memory_, capped && a.dx ? a.rows * n : 0);
  float* tanh = tanhs.data();
  each_row_of(stream_, a.rows, n, [=] __device__(int64_t r, const auto& lanes) {
    float *x = a.x + r * n, *dx = a.dx ? a.dx + r * n : nullptr;
    const int64_t target = a.targets[r];
    if (target == kIgnoredTarget) {
      if (lanes.lane == 0) a.losses[r] = 0.0f;
      if (dx) lanes.each(n, [&](int64_t i) { dx[i] = 0.0f; });
      return;
    }
    if (capped)
      lanes.each(n, [&](int64_t i) {
        const float t = tanh_of(x[i] * (1.0f / a.soft_cap));
        if (dx) tanh[r * n + i] = t;
        x[i] = t * a.soft_cap;
      });
    lanes.sync();
    const float lse = log_sum_exp(lanes, x, n), at_target = x[target];
    float loss = (1.0f - a.smoothing) * (lse - at_target);
    if (a.smoothing > 0.0f)
      loss += a.smoothing * (lse - lanes.sum_of(n, [=](int64_t i) { return x[i]; }) / static_cast<float>(n));
    if (lanes.lane == 0) a.losses[r] = loss;
    if (!dx) return;
    lanes.sync();
    const float base = a.smoothing / static_cast<float>(n) * a.weight;
    lanes.each(n, [&](int64_t i) {
      float value = madd(a.weight, exp_of(x[i] - lse), -base);
      if (i == target) value -= (1.0f - a.smoothing) * a.weight;
      if (capped) value *= 1.0f - tanh[r * n + i] * tanh[r * n + i];
      dx[i] = value;
    });
  });
}

namespace {

__global__ void entropy_of_chunks(KlTarget a, double* parts) {  // a warp per chunk, a thread per lane
  const int64_t from = blockIdx.x * kSumChunk, end = a.n - from < kSumChunk ? a.n : from + kSumChunk;
  double lane = 0;
  for (int64_t i = from + threadIdx.x; i < end; i += kKlLanes) {
    const float log_p = a.log_p[i], p = exp_of(log_p);
    a.p[i] = p;
    if (p > 0.0f) lane += static_cast<double>(p) * log_p;
  }
  double total = 0;
  for (int i = 0; i < kKlLanes; ++i) total += __shfl_sync(0xffffffffu, lane, i);
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

}  // namespace

void CudaDevice::kl_target(const KlTarget& a) {
  const int64_t chunks = (a.n + kSumChunk - 1) / kSumChunk;
  const CudaScratch<double> scratch(memory_, chunks);
  double* parts = scratch.data();
  if (chunks > 0) cuda::launch(stream_, static_cast<unsigned>(chunks), kKlLanes, 0, entropy_of_chunks, a, parts);
  add_in_order(stream_, parts, chunks,
               [=] __device__(double entropy) { a.y[0] = static_cast<float>(entropy) / a.rows; });
}

void CudaDevice::total_loss(const TotalLoss& a) {
  add_in_order(stream_, a.losses, a.n,
               [=] __device__(double total) { a.y[0] = static_cast<float>(total / a.divisor); });
}

}  // namespace makar
