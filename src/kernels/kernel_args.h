// The arguments of whole-op kernels, as plain values. Every pointer, including index arrays, is an address in
// device memory; sizes and options are passed by value. Arrays are row-major f32 unless a type is named.
// "(+)=" means "=", or "+=" if `accumulate` is set. Outputs do not overlap inputs unless a comment allows it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace makar::kernels {

enum class Activation {
  kRelu,
  kGelu,
  kGeluTanh,
  kSilu,
  kTanh,
  kSigmoid,
  kSoftplus,
  kExp,
  kLogSigmoid,
  kSquare
};
constexpr int kActivations = 10;

// --- elementwise ---

struct Fill {  // y = value
  float* y;
  int64_t n;
  float value;
};
struct FillFrom {  // y = value[0] * factor, multiplied in double
  const float* value;
  float* y;
  int64_t n;
  double factor;
};
struct Add {  // y[rows, n] = a[rows, n] + b[n], or a - b; y may be a
  const float *a, *b;
  float* y;
  int64_t rows, n;
  bool subtract;
};
struct Multiply {  // y[rows, n] (+)= a[rows, n] * b[n]
  const float *a, *b;
  float* y;
  int64_t rows, n;
  bool accumulate;
};
struct MultiplySum {  // y[n] (+)= sum over rows, in order, of a[rows, n] * b[rows, n]
  const float *a, *b;
  float* y;
  int64_t rows, n;
  bool accumulate;
};
struct SumRows {  // y[n] (+)= sum over rows, in order, of factor * x[rows, n]
  const float* x;
  float* y;
  int64_t rows, n;
  float factor;
  bool accumulate;
};
struct Scale {  // y (+)= factor * x; y may be x
  const float* x;
  float* y;
  int64_t n;
  float factor;
  bool accumulate;
};
struct ScaleBy {  // y (+)= factor[0] * x; y may be x
  const float *x, *factor;
  float* y;
  int64_t n;
  bool accumulate;
};
struct Shift {  // y = x + constant
  const float* x;
  float* y;
  int64_t n;
  float constant;
};
enum class PairKind { kDivide, kMinimum, kMaximum, kClamp };
struct Pair {  // y = f(a, b); kClamp limits a to [low, high]
  PairKind kind;
  const float *a, *b;
  float* y;
  int64_t n;
  float low, high;
};
struct PairBackward {
  PairKind kind;
  const float *a, *b, *dy;
  float *da, *db;
  int64_t n;
  float low, high;
};
struct Activate {
  Activation kind;
  const float* x;
  float* y;
  int64_t n;
};
struct ActivateBackward {  // dx (+)= f'(x) * dy
  Activation kind;
  const float *x, *dy;
  float* dx;
  int64_t n;
  bool accumulate;
};
struct Gated {  // y = f(gate) * up
  Activation kind;
  const float *gate, *up;
  float* y;
  int64_t n;
};
struct GatedBackward {
  Activation kind;
  const float *gate, *up, *dy;
  float *dgate, *dup;
  int64_t n;
};
struct Dropout {  // y (+)= x * (0 or 1 / (1 - rate)); element i depends only on (seed, step, stream, i)
  const float* x;
  float* y;
  int64_t n;
  float rate;
  uint64_t seed, step, stream;
  bool accumulate;
};
struct Blend {  // y += weight * (x - y)
  const float* x;
  float* y;
  int64_t n;
  float weight;
};

// --- rows, columns, indices ---

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
struct RowLengths {  // y[i] = |x[i]|, or 1 / |x[i]|
  const float* x;
  float* y;
  int64_t rows, cols;
  bool inverse;
};
struct ColumnSums {  // y[cols] (+)= sum over rows of x, in sequence, continuing from y
  const float* x;
  float* y;
  int64_t rows, cols;
  bool accumulate;
};
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
struct Embed {  // y[i] = row ids[i] of a table of any float or block type
  const void* table;
  DType type;
  const int64_t* ids;
  float* y;
  int64_t count, width;
};
struct EmbedBackward {  // dtable[ids[i]] (+)= dy[i], in the order of i; the id `padding` gets none
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

// --- norms ---

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

// --- softmax and losses ---

struct Softmax {
  bool log;
  const float* x;
  float* y;
  int64_t rows, cols;
};
struct SoftmaxBackward {  // from the output y
  bool log;
  const float *y, *dy;
  float* dx;
  int64_t rows, cols;
  bool accumulate;
};
constexpr int64_t kIgnoredTarget = -100;
struct CrossEntropy {  // losses[i] of row i; 0 if the target is kIgnoredTarget
  float* x;            // input; overwritten by the capped logits if soft_cap > 0
  float* dx;           // weight * gradient, 0 in ignored rows; may be null, or x
  const int64_t* targets;
  float* losses;
  int64_t rows, cols;
  float smoothing, weight, soft_cap;
};
struct TotalLoss {  // y[0] = sum of losses in double, in order, divided by `divisor`
  const float* losses;
  float* y;
  int64_t n;
  double divisor;
};
struct KlTarget {  // p = exp(log_p); y[0] = (sum of p * log_p in double, in order, as f32) / rows
  const float* log_p;
  float *p, *y;
  int64_t n;
  float rows;
};

// --- rotary positions ---

struct RopeTableRows {  // cos and sin [rows, half] of positions[i] * frequencies[j], times factor
  const int64_t* positions;
  const float* frequencies;
  float *cos, *sin;
  int64_t rows, half;
  double factor;
};
struct Rope {  // x, y [rows, heads * head_dim]
  const float *x, *cos, *sin;
  float* y;
  int64_t rows, heads, head_dim, rotary;
  bool interleaved;  // pairs (0, 1), (2, 3), ... instead of (0, half), (1, half + 1), ...
  float sign;        // -1: inverse rotation
};

// --- matrix products ---

// One side of a product, read as [rows, k]: element (r, k) is at data[r * row_stride + k * k_stride]. One of
// the strides is 1.
struct Operand {
  const void* data = nullptr;
  DType type = DType::kF32;  // A is f32; B may be f32, f16 or bf16, and for packing a block type
  int64_t row_stride = 0;
  int64_t k_stride = 1;
};
// C[m, n] (+)= A[m, k] B[n, k]^T (+ bias[n], added last).
struct GemmOutput {
  float* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
  const float* bias = nullptr;
};
struct Gemm {
  int64_t m, n, k;
  Operand a, b;
  GemmOutput out;
};

// Weights [n, k] packed for one device's kernels; created by Device::pack.
class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  virtual int64_t n() const = 0;
  virtual int64_t k() const = 0;
  virtual DType type() const = 0;
  virtual size_t bytes() const = 0;
};
struct PackedProduct {
  const PackedWeight* b;
  GemmOutput out;
};
struct PackedGemm {  // several products with one A, bit-identical to separate calls
  int64_t m;
  Operand a;
  const PackedProduct* products;  // in host memory
  int64_t count;
};

// --- attention ---

// Keys are processed in tiles at fixed positions from the start of a sequence: a multiple of every nr (12,
// 16, 32, 48).
constexpr int64_t kKeyTile = 96;

// Bytes per head of one tile of keys, and of values, in a cache page: f32, f16, or q8_0 with one scale per 32
// dimensions of a token.
constexpr int64_t kQuantKeyBlock = 32;
constexpr int64_t key_blocks(int64_t dim) { return (dim + kQuantKeyBlock - 1) / kQuantKeyBlock; }
constexpr int64_t key_tile_bytes(DType type, int64_t dim) {
  if (type == DType::kQ8_0) return kKeyTile * (dim + 2 * key_blocks(dim));
  return kKeyTile * dim * static_cast<int64_t>(size_of(type));
}
constexpr int64_t value_tile_bytes(DType type, int64_t dim) { return key_tile_bytes(type, dim); }

// One sequence of a ragged batch: its query rows, its key/value rows, the index of the first query among the
// keys (0 without a cache), and with a cache the index of its first page in the page table.
struct SequenceRows {
  int64_t q_start = 0, q_rows = 0;
  int64_t kv_start = 0, kv_rows = 0;
  int64_t past = 0;
  int64_t first_page = 0;
};

struct AttentionShape {
  const SequenceRows* sequences;
  int64_t count;
  int64_t total_q_rows, most_q_rows, most_kv_rows;  // total, and maximum per sequence
  int64_t heads, kv_heads, head_dim;
  bool causal;
  int64_t window;  // > 0: only keys at a distance of less than `window`
  float scale, soft_cap;
  // [heads, 2 * bias_span + 1], by distance key - query from -bias_span on, or by key index; may be null
  const float* bias;
  int64_t bias_span;
  bool bias_by_key;
  float dropout;
  uint64_t seed, step, stream;
};
struct Attention {  // q, out [tokens, heads * head_dim]; k, v [kv tokens, kv_heads * head_dim]
  AttentionShape shape;
  const float *q, *k, *v;
  float *out, *lse;  // lse [tokens, heads]: log-sum-exp of the scores
};
struct AttentionWeights {  // weights [heads, q_rows, kv_rows] of one sequence
  AttentionShape shape;
  const float *q, *k, *v;
  const float* lse;
  float* weights;
  int64_t sequence;
};
struct AttentionBackward {
  AttentionShape shape;
  const float *q, *k, *v, *out, *lse, *dy;
  float *dq, *dk, *dv;  // zeros on entry
  float* dbias;         // [sequences, heads, 2 * bias_span + 1], zeros on entry; may be null
};

// Byte offsets of one layer's keys and values in a cache page. Consecutive heads are k_head bytes apart for
// keys and v_head for values.
struct CacheLayer {
  const std::byte* const*
      pages;  // page table; SequenceRows::first_page is the index of a sequence's first page
  int64_t k_offset, k_head, v_offset, v_head;
  DType k_type, v_type;
};
struct CacheStore {  // stores q_rows rows of k and v from q_start on as keys `past`, past + 1, ...
  const SequenceRows* sequences;
  int64_t count, most_q_rows;
  const float *k, *v;  // [tokens, kv_heads * head_dim]
  int64_t kv_heads, head_dim;
  CacheLayer cache;
};
struct AttentionCached {
  AttentionShape shape;
  const float* q;
  // Attention sinks (Xiao et al., 2023), with a window: the first `sinks` keys, at most one tile, stay
  // visible as if they came right before the window. q_sinks: q rotated to min(its position, sinks + window -
  // 1); null if q has no rotary positions.
  int64_t sinks;
  const float* q_sinks;
  CacheLayer cache;
  float* out;
  float* lse;  // [tokens, heads], or null
};
struct BiasFromTable {  // bias[h, i] = table[bucket[i], h]
  const float* table;
  const int64_t* bucket;
  float* bias;
  int64_t heads, width;
};
struct BiasFromTableBackward {  // dtable[bucket[i], h] += dbias[s, h, i], in order
  const float* dbias;
  const int64_t* bucket;
  float* dtable;
  int64_t sequences, heads, width;
};

// --- recurrent layers ---

// Where a layer keeps the state of its sequences in cache pages: each page has the state after its last
// computed token. Without a cache, pages is null and states start at zero.
struct PagedState {
  std::byte* const* pages;  // page table, as in CacheLayer
  int64_t offset;           // bytes from the start of a page
};
// A causal convolution of each channel by itself over its sequence: y[t] = bias + sum_k w[k] x[t - taps + 1 +
// k].
struct ShortConv {
  const SequenceRows* sequences;
  int64_t count;
  const float *x, *w, *bias;  // [rows, channels], [channels, taps], [channels] or null
  float* y;
  int64_t channels, taps;
  PagedState state;  // [taps - 1, channels]: the inputs before the next token
};
struct ShortConvBackward {
  const SequenceRows* sequences;
  int64_t count;
  const float *x, *w, *dy;
  float *dx, *dw, *dbias;  // written; dbias may be null
  int64_t channels, taps;
};
// The selective scan of Mamba (Gu and Dao, 2023): with a = -exp(a_log), for each of the `dim` channels of a
// head: h = exp(dt a) h + dt b x, y = c h + d x. Heads share b and c [rows, groups * states] in groups.
struct SelectiveScan {
  const SequenceRows* sequences;
  int64_t count;
  const float *x, *dt, *a_log, *b, *c,
      *d;  // [rows, heads * dim], [rows, heads], [heads, a_columns], ..., [heads]
  float* y;
  int64_t heads, dim, groups, states;
  int64_t a_columns;  // `states`, or 1: all states of a head share their a
  PagedState state;   // [heads * dim, states]
};
struct SelectiveScanBackward {
  SelectiveScan forward;  // without y and state
  const float* dy;
  float *dx, *ddt, *db, *dc;  // written
  float *da_log, *dd;         // [count, heads, a_columns], [count, heads]: one part per sequence, written
};

// --- optimisers ---

enum class UpdateKind { kSgd, kMomentum, kNesterov, kAdagrad, kRmsprop, kLion };
struct Update {  // updates p with the gradient factor * g (+ l2 * p)
  UpdateKind kind;
  float* p;
  const float* g;
  float* state;  // null for kSgd
  int64_t n;
  float lr, factor, l2;
  float momentum, eps;
  float beta1, rest1, beta2, rest2;  // rest: 1 - beta, rounded once from double
  float decay;                       // p *= decay (kLion)
  bool first;                        // the first step
};
struct AdamStep {
  float beta2, rest1, rest2;  // rest: 1 - beta, rounded once from double
  float eps, step, v_scale;   // p -= step * m / (sqrt(v) * v_scale + eps)
  float decay, l2;            // p *= decay first (AdamW); l2 * p is added to the gradient (Adam)
  float grad_scale;
};
struct AdamW {
  float* p;
  const float* g;
  float *m, *v;
  int64_t n;
  AdamStep step;
};
struct Adafactor {  // Shazeer & Stern, 2018, as torch.optim.Adafactor computes it
  float* p;
  const float* g;
  float* row_var;  // per row of each matrix, or the variance of every element of a vector
  float* col_var;  // per column of each matrix; null for a vector
  float* scratch;  // n values
  int64_t n, rows, cols;
  double weight, rho;  // weight of the new variance; relative step size
  float factor, decay;
};
struct MuonMomentum {  // v += rest * (g' - v), x = g' + mu * (v - g') with g' = factor * g; x is transposed
                       // if `transposed`
  const float* g;
  float *v, *x;
  int64_t rows, cols;
  bool transposed;  // x is [cols, rows]
  float factor, mu, rest;
};
struct Normalize {  // x /= max(|x|, least); the norm is computed in double, in order
  float* x;
  int64_t n;
  double least;
};
struct MuonApply {  // p = p * decay - by * x
  float* p;
  const float* x;
  int64_t rows, cols;
  bool transposed;
  float by, decay;
};

}  // namespace makar::kernels
