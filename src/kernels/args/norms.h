// Arguments of norms.
#pragma once
#include <cstdint>

namespace makar::kernels {

struct Norm {  // rows of LayerNorm, or RMSNorm
  bool rms;
  const float *x, *w, *b;  // w and b may be null for LayerNorm
  float *y, *stats;        // stats: (mean, rstd) per row for LayerNorm, rstd per row for RMSNorm
  int64_t rows, cols;
  float eps, offset;  // offset: 1 if the weight is stored as w - 1 (Gemma)
};
struct NormBackward {
  bool rms;
  const float *x, *w, *dy, *stats;
  float *dx, *dw, *db;  // each may be null
  int64_t rows, cols;
  float offset;
  bool accumulate_x, accumulate_w, accumulate_b;
};
struct BatchNorm {
  const float *x, *w, *b;
  float *y, *mean, *rstd;             // mean and rstd [cols]: the values used
  float *running_mean, *running_var;  // may be null; updated when `batch` is set
  int64_t rows, cols;
  float eps, momentum;
  bool batch;  // use batch statistics instead of running ones
};
struct BatchNormBackward {
  const float *x, *w, *dy, *mean, *rstd;
  float *dx, *dw, *db;
  int64_t rows, cols;
  bool batch;
};

}  // namespace makar::kernels
