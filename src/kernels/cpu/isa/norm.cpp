// LayerNorm and RMSNorm on rows. Statistics are two-pass, in the fixed tree of math.h.
#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/isa/sections.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// y = (x - mean) * rstd * w + b; stats: (mean, rstd) per row.
void layer_norm(const NormRows& a) {
  const int64_t n = a.cols;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * n;
    float* y = a.y + r * n;
    const float mean = sum_of(n, [x](int64_t i) { return x[i]; }) / static_cast<float>(n);
    const auto centred = [x, mean](int64_t i) { return x[i] - mean; };
    const float rstd = 1.0f / std::sqrt(dot_of(n, centred, centred) / static_cast<float>(n) + a.eps);
    a.stats[2 * r] = mean, a.stats[2 * r + 1] = rstd;
    const float shift = -mean * rstd;
    if (a.b && a.w)
      for (int64_t i = 0; i < n; ++i) y[i] = madd(madd(x[i], rstd, shift), a.w[i], a.b[i]);
    else if (a.b)
      for (int64_t i = 0; i < n; ++i) y[i] = madd(x[i], rstd, shift) + a.b[i];
    else if (a.w)
      for (int64_t i = 0; i < n; ++i) y[i] = madd(x[i], rstd, shift) * a.w[i];
    else
      for (int64_t i = 0; i < n; ++i) y[i] = madd(x[i], rstd, shift);
  }
}

// y = x * rstd * (w + offset); offset is 1 for Gemma. stats: rstd per row.
void rms_norm(const NormRows& a) {
  const int64_t n = a.cols;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * n;
    float* y = a.y + r * n;
    const auto at = [x](int64_t i) { return x[i]; };
    const float rstd = 1.0f / std::sqrt(dot_of(n, at, at) / static_cast<float>(n) + a.eps);
    a.stats[r] = rstd;
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * rstd * (a.w[i] + a.offset);
  }
}

// dx (+)= rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * w; dw += dy * xhat, db += dy.
void layer_norm_backward(const NormRowsBackward& a) {
  const int64_t n = a.cols;
  const float inv = 1.0f / static_cast<float>(n);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float *x = a.x + r * n, *dy = a.dy + r * n, *w = a.w;
    const float mean = a.stats[2 * r], rstd = a.stats[2 * r + 1];
    const auto g = [dy, w](int64_t i) { return w ? dy[i] * w[i] : dy[i]; };
    const auto xhat = [x, mean, rstd](int64_t i) { return (x[i] - mean) * rstd; };
    if (a.dx) {
      float* dx = a.dx + r * n;
      const float g_mean = (w ? dot_of(
                                    n, [dy](int64_t i) { return dy[i]; }, [w](int64_t i) { return w[i]; })
                              : sum_of(n, [dy](int64_t i) { return dy[i]; })) *
                           inv;
      const float gx_mean = dot_of(n, g, xhat) * inv;
      if (a.accumulate)
        for (int64_t i = 0; i < n; ++i) dx[i] = madd(rstd, g(i) - madd(xhat(i), gx_mean, g_mean), dx[i]);
      else
        for (int64_t i = 0; i < n; ++i) dx[i] = rstd * (g(i) - madd(xhat(i), gx_mean, g_mean));
    }
    if (a.dw)
      for (int64_t i = 0; i < n; ++i) a.dw[i] = madd(dy[i], xhat(i), a.dw[i]);
    if (a.db)
      for (int64_t i = 0; i < n; ++i) a.db[i] += dy[i];
  }
}

void rms_norm_backward(const NormRowsBackward& a) {
  const int64_t n = a.cols;
  const float inv = 1.0f / static_cast<float>(n);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float *x = a.x + r * n, *dy = a.dy + r * n, *w = a.w;
    const float rstd = a.stats[r], offset = a.offset;
    const auto g = [=](int64_t i) { return dy[i] * (w[i] + offset); };
    if (a.dx) {
      float* dx = a.dx + r * n;
      const float c = dot_of(n, g, [x](int64_t i) { return x[i]; }) * rstd * rstd * inv;
      if (a.accumulate)
        for (int64_t i = 0; i < n; ++i) dx[i] = madd(rstd, g(i) - x[i] * c, dx[i]);
      else
        for (int64_t i = 0; i < n; ++i) dx[i] = rstd * (g(i) - x[i] * c);
    }
    if (a.dw)
      for (int64_t i = 0; i < n; ++i) a.dw[i] = madd(dy[i], x[i] * rstd, a.dw[i]);
  }
}

}  // namespace

void fill_norm(Table& t) {
  t.layer_norm = layer_norm;
  t.rms_norm = rms_norm;
  t.layer_norm_backward = layer_norm_backward;
  t.rms_norm_backward = rms_norm_backward;
}

}  // namespace makar::kernels::MAKAR_ISA
