// Arguments of kernels on rows, columns and indices.
#pragma once
#include "kernels/args/types.h"

namespace makar::kernels {

struct CopyColumns {  // to[r * to_stride + c] (+)= from[r * from_stride + c]
  const float* from;
  int64_t from_stride;
  float* to;
  int64_t to_stride, rows, cols;
  bool accumulate;
};
struct Transpose {  // x[rows, cols] -> y[cols, rows]
  const float* x;
  float* y;
  int64_t rows, cols;
};
struct GatherRows {  // y[i] (+)= x[index[i]]; an index of -1 is a zero row
  const float* x;
  const int64_t* index;
  float* y;
  int64_t count, width;
  bool accumulate;
};
struct ScatterRows {  // y[index[i]] (+)= x[i], in the order of i; -1 is skipped
  const float* x;
  const int64_t* index;
  float* y;
  int64_t count, width;
  bool accumulate;
};
struct Pick {  // y[i] = x[i, index[i]]
  const float* x;
  const int64_t* index;
  float* y;
  int64_t rows, cols;
};
struct PickBackward {  // dx[i, index[i]] += dy[i]
  const float* dy;
  const int64_t* index;
  float* dx;
  int64_t rows, cols;
};
struct ScaleRows {  // y[i] (+)= w[i] * x[i]
  const float *x, *w;
  float* y;
  int64_t rows, cols;
  bool accumulate;
};
struct RowDots {  // y[i] (+)= a[i] . b[i]
  const float *a, *b;
  float* y;
  int64_t rows, cols;
  bool accumulate;
};
struct RowNorms {  // y[i] = |x[i]|, or 1 / |x[i]|
  const float* x;
  float* y;
  int64_t rows, cols;
  bool inverse;
};
template <class T>
struct ColumnSumsOf {  // y[cols] (+)= sum over rows of x; f32 in sequence, continuing from y; bf16 in a fixed
                       // order
  const T* x;
  float* y;
  int64_t rows, cols;
  bool accumulate;
};
using ColumnSums = ColumnSumsOf<float>;
using ColumnSumsBf16 = ColumnSumsOf<Bf16>;
struct ColumnSquares {  // y[cols], f64, += sum over rows of x^2, in sequence
  const float* x;
  double* y;
  int64_t rows, cols;
};
constexpr int64_t kSumChunk = 4096, kSquaresChunk = 2048;
struct Sum {  // y[0] = factor * sum of x: chunks of kSumChunk in f32, then over chunks in double
  const float* x;
  float* y;
  int64_t n;
  double factor;
};
struct SumSquares {  // y[i] = sum of squares of chunk i of kSquaresChunk values
  const float* x;
  float* y;
  int64_t n;
};
struct SumSquaresList {
  const SumSquares* items;  // in host memory
  int64_t count;
};
struct Embed {  // y[i] = row ids[i] of a table of any float or block type
  const void* table;
  DType type;
  const int64_t* ids;
  float* y;
  int64_t count, width;
};
struct EmbedBackward {  // dtable[ids[i]] (+)= dy[i], in the order of i; the id `padding` is skipped
  const float* dy;
  const int64_t* ids;
  float* dtable;
  int64_t count, width, table_rows, padding;
  bool accumulate;
};
struct Unfold {  // images[batch, channels, height, width] -> patches[batch * out_h * out_w, channels *
                 // kernel^2]
  const float* images;
  float* patches;
  int64_t batch, channels, height, width, kernel, stride, padding, out_h, out_w;
};
struct UnfoldBackward {
  const float* dpatches;
  float* dimages;  // added to
  int64_t batch, channels, height, width, kernel, stride, padding, out_h, out_w;
};
struct Decode {  // x of any float or block type (except f64) to f32
  const void* x;
  DType type;
  float* y;
  int64_t rows, cols;
};

// How a row's next token is drawn: among the top_k largest logits and their ties (0: all), divided by the
// temperature, the most probable ones that together have at least top_p, of at least min_p of the best one's
// probability.
struct RowSampler {
  float temperature, min_p;  // temperature 0: the largest
  int64_t top_k;
  double top_p;
  uint64_t seed, index;  // index: number of the draw
};
static_assert(sizeof(RowSampler) == 5 * sizeof(int64_t));
struct SampleRows {  // y[i] = the token drawn from row i, and the next draw's index; -1 as ArgMax, or if a
                     // logit divided by the temperature is not finite
  const void* x;     // f32 or bf16
  DType type;
  RowSampler* samplers;
  int64_t* y;
  int64_t rows, cols;
};

struct ArgMax {   // y[i] = the first index of the largest value of row i; -1 if a value is NaN or +infinity,
                  // or all are -infinity
  const void* x;  // f32 or bf16
  DType type;
  int64_t* y;
  int64_t rows, cols;
};

}  // namespace makar::kernels
