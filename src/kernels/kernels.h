// The one list of CPU kernels. A Table holds the kernels of one instruction set; cpu() is the best one this
// machine runs. Kernels are single-threaded and work on plain pointers: shapes are checked in ops/, work is
// cut for threads in ops/ and in the drivers beside this file. All tables give the same bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

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

struct ActivationKernels {
  void (*forward)(const float* x, float* y, int64_t n) = nullptr;
  void (*backward)(const float* x, const float* dy, float* dx, int64_t n, bool accumulate) = nullptr;
  // y = f(gate) * up, and its gradients.
  void (*gated)(const float* gate, const float* up, float* y, int64_t n) = nullptr;
  void (*gated_backward)(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                         int64_t n) = nullptr;
};

struct NormRows {
  const float *x, *w, *b;  // w and b may be null for LayerNorm
  float *y, *stats;        // stats: (mean, rstd) a row for LayerNorm, rstd a row for RMSNorm
  int64_t rows, cols;
  float eps, offset;  // offset: 1 where the weight is stored as w - 1 (Gemma)
};
struct NormRowsBackward {
  const float *x, *w, *dy, *stats;
  float *dx, *dw, *db;  // each may be null; dw and db are added to
  int64_t rows, cols;
  float offset;
  bool accumulate;  // dx is added to
};

struct RopeRow {
  const float *cos, *sin;  // rotary / 2 values
  int heads, head_dim, rotary;
  bool interleaved;  // pairs (0, 1), (2, 3), ... instead of (0, half), (1, half + 1), ...
  float sign;        // -1 turns back
};

// Keys are walked in tiles at fixed positions from the start of a sequence: a multiple of every nr (12, 16,
// 32, 48).
constexpr int64_t kKeyTile = 96;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Keys and values of a cache: a page holds a tile of keys, laid out as the products want them (key_pages.h),
// in f32, f16 or q8_0. Keys stand at pages[t] + k_offset, values at pages[t] + v_offset, in bytes. Pages out
// of sight are never touched.
struct KeyPages {
  const std::byte* const* pages = nullptr;
  int64_t k_offset = 0, v_offset = 0;
  DType k_type = DType::kF32, v_type = DType::kF32;
};

// One query head of one sequence against its key/value head; with a cache the rows may also be the query
// heads of one token that share a key/value head.
struct AttentionHead {
  const float *q, *k, *v;
  int64_t q_stride, kv_stride;  // floats from a token to the next
  int64_t rows, keys, dim;
  int64_t past = 0;      // the index among the keys of q row 0
  int64_t row_step = 1;  // from a row's index to the next's; 0 where the rows are heads of one token
  KeyPages cache;        // instead of k and v
  bool causal = false;
  int64_t window = 0;  // > 0: only the last `window` keys, the own one included
  // Attention sinks (Xiao et al., 2023), with a window and a cache: the first `sinks` keys, at most a tile,
  // stay in sight as if they stood right before the window. Row by row, q_sinks is q turned to the smaller
  // of its own position and sinks + window - 1; null where positions are not in q.
  int64_t sinks = 0;
  const float* q_sinks = nullptr;
  float scale = 1, soft_cap = 0;
  const float* bias = nullptr;  // by distance key - query: bias[0] is the own position, bias[-3] three before
  bool bias_by_key = false;     // or by the key's own index
  int64_t bias_stride = 0;      // from a row's bias to the next's, where the rows are heads
  float* out = nullptr;
  int64_t out_stride = 0;
  float* lse = nullptr;  // log-sum-exp of each row's scores
  int64_t lse_stride = 1;
  float* record = nullptr;  // [rows, keys]: the weights, for attention_weights
  float dropout = 0;
  uint64_t seed = 0, step = 0, stream = 0;
};
struct AttentionHeadBackward {
  const float* dout;       // strides as in out
  float *dq, *dk, *dv;     // strides as in q, k, v; dq is written, dk and dv are added to
  float* dbias = nullptr;  // by distance, added to
};

struct AdamStep {
  float beta2, rest1, rest2;  // rest: 1 - beta, rounded once from double
  float eps, step, v_scale;   // p -= step * m / (sqrt(v) * v_scale + eps)
  float decay, l2;            // p *= decay first (AdamW); l2 * p joins the gradient (Adam)
  float grad_scale;
};

// Up to 4 rows of quantised activations, or 8, by panels of quantised weights (quant_form.h has the layouts):
// c[i*ldc + j] = (accumulate ? c : 0) + the product, i < rows, j < cols.
struct QuantProduct {
  int form = 0, rows = 0;
  int64_t blocks = 0;       // of 64 k
  const void* a = nullptr;  // one panel of activations; of 8 rows the second half, a_panel bytes further
  int64_t a_panel = 0;
  const void* b = nullptr;  // panels of weights, b_panel bytes apart
  int64_t b_panel = 0;
  const float* scales = nullptr;  // what Table::quant_scales made of each panel, scale_panel floats apart, or
  int64_t scale_panel = 0;        // nullptr
  const int8_t* book = nullptr;   // 16 values, for the forms that look values up; 16 readable bytes for all
  float* c = nullptr;
  int64_t ldc = 0, cols = 0;
  bool accumulate = false;
  // Panels wanted next, ahead_panel bytes apart: with every block ahead_step bytes of one are asked for, so
  // that memory works while this product is computed. nullptr: none.
  const void* ahead = nullptr;
  int64_t ahead_panel = 0, ahead_step = 0;
};

struct Table {
  const char* isa = "";

  // --- matrix product on packed panels (gemm.h drives these) ---
  int mr = 0;  // rows of an A panel:  [k][mr]
  int nr = 0;  // columns of a B panel: [k][nr]
  int kc = 0;  // k at a time that keeps a B panel in the first cache
  // c[i*ldc + j] = (accumulate ? c : 0) + sum over k in sequence of a[k*mr + i] * b[k*nr + j], i < rows, j <
  // cols; b is f32, f16 or bf16.
  void (*tile)(DType type, int64_t k, const float* a, const void* b, float* c, int64_t ldc, int rows,
               int cols, bool accumulate) = nullptr;
  // x[rows, k], element (r, p) at x[r*row_stride + p*k_stride], into consecutive panels of mr (nr) rows, the
  // last one padded with zeros. Fast when one of the strides is 1.
  void (*pack_a)(const float* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
                 float* out) = nullptr;
  void (*pack_b)(const float* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
                 float* out) = nullptr;
  // All tiles of packed panels: c[m, n] = (accumulate ? c : 0) + A B^T.
  void (*product)(int64_t m, int64_t n, int64_t k, const float* a_panels, const float* b_panels, float* c,
                  int64_t ldc, bool accumulate) = nullptr;
  // One to rows_max rows of A as they stand (k contiguous, lda apart) by packed panels of f32, f16 or bf16,
  // each `panel` elements after the one before: what decoding does.
  int rows_max = 0;
  void (*rows)(DType type, int m, int64_t n, int64_t k, const float* a, int64_t lda, const void* b_panels,
               int64_t panel, float* c, int64_t ldc, bool accumulate) = nullptr;
  // rows() for one row by f16 weights, the same bits: faster, but for finite weights and |a| < 2^15 only.
  // Null where rows() is as fast.
  void (*row_f16)(int64_t n, int64_t k, const float* a, const void* b_panels, int64_t panel, float* c,
                  bool accumulate) = nullptr;
  // pack_b of f16 or bf16: keeping the storage type, or widened to f32.
  void (*pack_b16)(const uint16_t* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
                   uint16_t* out) = nullptr;
  void (*pack_b_widen)(DType type, const uint16_t* x, int64_t row_stride, int64_t k_stride, int64_t rows,
                       int64_t k, float* out) = nullptr;
  void (*widen)(DType type, const uint16_t* x, int64_t count, float* out) = nullptr;  // f16 or bf16 to f32

  // --- matrix product on quantised weights (quant.h drives these) ---
  bool int16_is_faster = false;  // for f16 weights than converting them to f32
  void (*quant_product)(const QuantProduct&) = nullptr;
  // `blocks` blocks of a panel into its wide form.
  void (*quant_expand)(int form, int64_t blocks, const void* b, const int8_t* book, void* out) = nullptr;
  // Whether products on a form take 8 rows, as well as up to 4. Those on a form that is not wide want its
  // scales made ready first: wide_scales() floats for each of `blocks` blocks of a panel.
  bool (*quant_takes_eight)(int form) = nullptr;
  void (*quant_eight)(const QuantProduct&) = nullptr;
  void (*quant_scales)(int form, int64_t blocks, const void* b, float* out) = nullptr;
  // x[rows, k], rows row_stride apart, into one panel of activations for `form`, filled up with zeros to
  // `blocks` blocks; weights are read as `unit` times themselves.
  void (*quant_rows)(int form, int unit, const float* x, int64_t row_stride, int rows, int64_t k,
                     int64_t blocks, void* out) = nullptr;

  // --- elementwise ---
  ActivationKernels activation[kActivations];
  void (*add)(const float* a, const float* b, float* y, int64_t n) = nullptr;
  void (*multiply)(const float* a, const float* b, float* y, int64_t n, bool accumulate) = nullptr;
  void (*scale)(const float* x, float factor, float* y, int64_t n, bool accumulate) = nullptr;
  float (*sum)(const float* x, int64_t n) = nullptr;
  float (*sum_squares)(const float* x, int64_t n) = nullptr;
  float (*dot)(const float* a, const float* b, int64_t n) = nullptr;

  // --- rows ---
  void (*layer_norm)(const NormRows&) = nullptr;
  void (*rms_norm)(const NormRows&) = nullptr;
  void (*layer_norm_backward)(const NormRowsBackward&) = nullptr;
  void (*rms_norm_backward)(const NormRowsBackward&) = nullptr;
  void (*softmax)(const float* x, float* y, int64_t n) = nullptr;
  void (*log_softmax)(const float* x, float* y, int64_t n) = nullptr;
  float (*log_sum_exp)(const float* x, int64_t n) = nullptr;
  void (*softmax_backward)(const float* y, const float* dy, float* dx, int64_t n, bool accumulate) = nullptr;
  void (*log_softmax_backward)(const float* y, const float* dy, float* dx, int64_t n,
                               bool accumulate) = nullptr;
  float (*cross_entropy)(const float* x, float* dx, int64_t n, int64_t target, float smoothing,
                         float weight) = nullptr;
  void (*rope)(const float* x, float* y, const RopeRow& row) = nullptr;

  // --- attention; scratch sizes in floats ---
  int64_t (*attention_scratch)(const AttentionHead&) = nullptr;
  void (*attention_forward)(const AttentionHead&, float* scratch) = nullptr;
  void (*attention_weights)(const AttentionHead&, float* scratch) = nullptr;
  int64_t (*attention_backward_scratch)(const AttentionHead&) = nullptr;
  void (*attention_backward)(const AttentionHead&, const AttentionHeadBackward&, float* scratch) = nullptr;

  // --- what the machine can do: `loops` rounds of multiply-adds; the operations done, two for each ---
  double (*peak_f32)(int64_t loops) = nullptr;
  double (*peak_int8)(int64_t loops) = nullptr;  // null where no instruction is known

  // --- optimisers ---
  void (*adamw)(float* p, const float* g, float* m, float* v, int64_t n, const AdamStep& step) = nullptr;
};

// The table for this machine. MAKAR_ISA=portable|neon|avx2|avx512 in the environment forces one.
const Table& cpu();
// Every table this machine can run, for tests that compare their bits.
std::vector<const Table*> available();

}  // namespace makar::kernels
