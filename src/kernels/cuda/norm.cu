#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/launch.cuh"

namespace makar {

using namespace kernels;
using cuda::each;
using cuda::each_row;
using cuda::madd;
using cuda::RowLanes;

void CudaDevice::norm(const Norm& a) {
  const int64_t n = a.cols;
  if (a.rms) {
    each_row(stream_, a.rows, [=] __device__(int64_t r, const RowLanes& lanes) {
      const float* x = a.x + r * n;
      float* y = a.y + r * n;
      const auto at = [=](int64_t i) { return x[i]; };
      const float rstd = 1.0f / sqrtf(lanes.dot_of(n, at, at) / static_cast<float>(n) + a.eps);
      if (lanes.lane == 0) a.stats[r] = rstd;
      lanes.each(n, [&](int64_t i) { y[i] = x[i] * rstd * (a.w[i] + a.offset); });
    });
    return;
  }
  each_row(stream_, a.rows, [=] __device__(int64_t r, const RowLanes& lanes) {
    const float* x = a.x + r * n;
    float* y = a.y + r * n;
    const float mean = lanes.sum_of(n, [=](int64_t i) { return x[i]; }) / static_cast<float>(n);
    const auto centred = [=](int64_t i) { return x[i] - mean; };
    const float rstd = 1.0f / sqrtf(lanes.dot_of(n, centred, centred) / static_cast<float>(n) + a.eps);
    if (lanes.lane == 0) a.stats[2 * r] = mean, a.stats[2 * r + 1] = rstd;
    const float shift = -mean * rstd;
    lanes.each(n, [&](int64_t i) {
      const float xhat = madd(x[i], rstd, shift);
      if (a.w)
        y[i] = a.b ? madd(xhat, a.w[i], a.b[i]) : xhat * a.w[i];
      else
        y[i] = a.b ? xhat + a.b[i] : xhat;
    });
  });
}

void CudaDevice::norm_backward(const NormBackward& a) {
  const int64_t n = a.cols;
  if (a.dx && a.rms)
    each_row(stream_, a.rows, [=] __device__(int64_t r, const RowLanes& lanes) {
      const float *x = a.x + r * n, *dy = a.dy + r * n, inv = 1.0f / static_cast<float>(n), rstd = a.stats[r];
      float* dx = a.dx + r * n;
      const auto g = [=](int64_t i) { return dy[i] * (a.w[i] + a.offset); };
      const float c = lanes.dot_of(n, g, [=](int64_t i) { return x[i]; }) * rstd * rstd * inv;
      lanes.each(n, [&](int64_t i) {
        dx[i] = a.accumulate_x ? madd(rstd, g(i) - x[i] * c, dx[i]) : rstd * (g(i) - x[i] * c);
      });
    });
  if (a.dx && !a.rms)
    each_row(stream_, a.rows, [=] __device__(int64_t r, const RowLanes& lanes) {
      const float *x = a.x + r * n, *dy = a.dy + r * n, *w = a.w, inv = 1.0f / static_cast<float>(n);
      const float mean = a.stats[2 * r], rstd = a.stats[2 * r + 1];
      float* dx = a.dx + r * n;
      const auto g = [=](int64_t i) { return w ? dy[i] * w[i] : dy[i]; };
      const auto xhat = [=](int64_t i) { return (x[i] - mean) * rstd; };
      const float g_sum = w ? lanes.dot_of(
                                  n, [=](int64_t i) { return dy[i]; }, [=](int64_t i) { return w[i]; })
                            : lanes.sum_of(n, [=](int64_t i) { return dy[i]; });
      const float g_mean = g_sum * inv, gx_mean = lanes.dot_of(n, g, xhat) * inv;
      lanes.each(n, [&](int64_t i) {
        const float value = g(i) - madd(xhat(i), gx_mean, g_mean);
        dx[i] = a.accumulate_x ? madd(rstd, value, dx[i]) : rstd * value;
      });
    });
  if (!a.dw && !a.db) return;
  // Sums chunks of 64 rows, then the sums of the chunks in order.
  each(stream_, n, [=] __device__(int64_t i) {
    constexpr int64_t kChunk = 64;
    float dw = a.dw && a.accumulate_w ? a.dw[i] : 0.0f, db = a.db && a.accumulate_b ? a.db[i] : 0.0f;
    for (int64_t r0 = 0; r0 < a.rows; r0 += kChunk) {
      float w_part = 0, b_part = 0;
      for (int64_t r = r0; r < r0 + kChunk && r < a.rows; ++r) {
        const float x = a.x[r * n + i], dy = a.dy[r * n + i];
        w_part = madd(dy, a.rms ? x * a.stats[r] : (x - a.stats[2 * r]) * a.stats[2 * r + 1], w_part);
        b_part += dy;
      }
      dw += w_part, db += b_part;
    }
    if (a.dw) a.dw[i] = dw;
    if (a.db) a.db[i] = db;
  });
}

void CudaDevice::batch_norm(const BatchNorm& a) {
  const auto rows = static_cast<double>(a.rows);
  each(stream_, a.cols, [=] __device__(int64_t j) {
    double m = 0, v = 0;
    if (a.batch) {
      for (int64_t i = 0; i < a.rows; ++i) m += a.x[i * a.cols + j];
      m /= rows;
      for (int64_t i = 0; i < a.rows; ++i) v += (a.x[i * a.cols + j] - m) * (a.x[i * a.cols + j] - m);
      const auto blend_into = [&](float* running, double value) {
        if (running) running[j] = (1 - a.momentum) * running[j] + a.momentum * static_cast<float>(value);
      };
      blend_into(a.running_mean, m);
      blend_into(a.running_var, v / (rows - 1));
      v /= rows;
    } else {
      m = a.running_mean[j], v = a.running_var[j];
    }
    a.mean[j] = static_cast<float>(m);
    a.rstd[j] = static_cast<float>(1.0 / sqrt(v + a.eps));
  });
  each(stream_, a.rows * a.cols, [=] __device__(int64_t i) {
    const int64_t j = i % a.cols;
    a.y[i] = (a.x[i] - a.mean[j]) * a.rstd[j] * a.w[j] + a.b[j];
  });
}

void CudaDevice::batch_norm_backward(const BatchNormBackward& a) {
  const auto rows = static_cast<double>(a.rows);
  each(stream_, a.cols, [=] __device__(int64_t j) {
    double sum = 0, sum_x = 0;
    const float m = a.mean[j], r = a.rstd[j];
    for (int64_t i = j; i < a.rows * a.cols; i += a.cols) {
      sum += a.dy[i];
      sum_x += static_cast<double>(a.dy[i]) * (a.x[i] - m) * r;
    }
    a.db[j] = static_cast<float>(sum), a.dw[j] = static_cast<float>(sum_x);
    const double b = a.batch ? sum / rows : 0, c = a.batch ? sum_x / rows : 0;
    for (int64_t i = j; i < a.rows * a.cols; i += a.cols) {
      const double xhat = (a.x[i] - m) * r;
      a.dx[i] = static_cast<float>(a.w[j] * r * (a.dy[i] - b - xhat * c));
    }
  });
}

}  // namespace makar
