#include "kernels/cpu/norm.h"

#include <cmath>

#include "kernels/cpu/ranges.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/tasks.h"
#include "kernels/cpu_device.h"

namespace makar {

using namespace kernels;

void CpuDevice::norm(const Norm& a) {
  const int64_t per_row = a.rms ? 1 : 2;
  each_rows(*pool_, a.rows, a.cols, [&](int64_t r0, int64_t r1) {
    const NormRows rows{a.x + r0 * a.cols, a.w,    a.b,   a.y + r0 * a.cols, a.stats + r0 * per_row,
                        r1 - r0,           a.cols, a.eps, a.offset};
    a.rms ? cpu().rms_norm(rows) : cpu().layer_norm(rows);
  });
}

// Weight gradients are summed in chunks of 64 rows, then over chunks in order: the bits do not depend on the
// number of threads.
void kernels::norm_backward_rows(ThreadPool& pool, const NormBackward& a, const Bf16* dy_bf16) {
  constexpr int64_t kChunk = 64;
  const int64_t chunks = ceil_div(a.rows, kChunk), per_row = a.rms ? 1 : 2;
  const Scratch dw = Scratch::of_floats(a.dw ? chunks * a.cols : 0),
                db = Scratch::of_floats(a.db ? chunks * a.cols : 0);
  pool.run(chunks, [&](int64_t c) {
    const int64_t r0 = c * kChunk, rows_here = std::min(kChunk, a.rows - r0);
    const Scratch widened = Scratch::of_floats(dy_bf16 ? rows_here * a.cols : 0);
    if (dy_bf16)
      cpu().widen(DType::kBF16, reinterpret_cast<const uint16_t*>(dy_bf16 + r0 * a.cols), rows_here * a.cols,
                  widened.floats());
    if (a.dw) std::fill_n(dw.floats() + c * a.cols, a.cols, 0.0f);
    if (a.db) std::fill_n(db.floats() + c * a.cols, a.cols, 0.0f);
    const NormRowsBackward rows{a.x + r0 * a.cols,
                                a.w,
                                dy_bf16 ? widened.floats() : a.dy + r0 * a.cols,
                                a.stats + r0 * per_row,
                                a.dx ? a.dx + r0 * a.cols : nullptr,
                                a.dw ? dw.floats() + c * a.cols : nullptr,
                                a.db ? db.floats() + c * a.cols : nullptr,
                                rows_here,
                                a.cols,
                                a.offset,
                                a.accumulate_x};
    a.rms ? cpu().rms_norm_backward(rows) : cpu().layer_norm_backward(rows);
  });
  const auto add_chunks = [&](float* to, const float* parts, bool accumulate) {
    if (!to) return;
    if (!accumulate) std::fill_n(to, a.cols, 0.0f);
    for (int64_t c = 0; c < chunks; ++c) cpu().add(to, parts + c * a.cols, to, a.cols);
  };
  add_chunks(a.dw, dw.floats(), a.accumulate_w);
  add_chunks(a.db, db.floats(), a.accumulate_b);
}
void CpuDevice::norm_backward(const NormBackward& a) { norm_backward_rows(*pool_, a, nullptr); }

void CpuDevice::batch_norm(const BatchNorm& a) {
  const auto rows = static_cast<double>(a.rows);
  for (int64_t j = 0; j < a.cols; ++j) {
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
    a.rstd[j] = static_cast<float>(1.0 / std::sqrt(v + a.eps));
  }
  each_rows(*pool_, a.rows, a.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t i = r0 * a.cols; i < r1 * a.cols; ++i) {
      const int64_t j = i % a.cols;
      a.y[i] = (a.x[i] - a.mean[j]) * a.rstd[j] * a.w[j] + a.b[j];
    }
  });
}

void CpuDevice::batch_norm_backward(const BatchNormBackward& a) {
  const auto rows = static_cast<double>(a.rows);
  for (int64_t j = 0; j < a.cols; ++j) {
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
  }
}

}  // namespace makar
