// The inner loops of the CPU device. A Table holds those of one instruction set; cpu() is the best one for
// this machine. They are single-threaded and work on plain pointers: the kernels in this folder divide the
// work among threads. Each function gives the same bits in all tables (decision 0016 lists the exceptions).
// Private to kernels/cpu, its tests and benchmarks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/tile_bf16.h"
#include "kernels/kernel_args.h"

namespace makar::kernels {

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
  float *y, *stats;        // stats: (mean, rstd) per row for LayerNorm, rstd per row for RMSNorm
  int64_t rows, cols;
  float eps, offset;  // offset: 1 if the weight is stored as w - 1 (Gemma)
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
  float sign;        // -1: inverse rotation
};

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Cached keys and values: a page holds one tile of keys in the layout of the products (key_pages.h), in f32,
// f16 or q8_0. Keys are at pages[t] + k_offset, values at pages[t] + v_offset, in bytes. Pages without
// visible keys are never accessed.
struct KeyPages {
  const std::byte* const* pages = nullptr;
  int64_t k_offset = 0, v_offset = 0;
  DType k_type = DType::kF32, v_type = DType::kF32;
};

// One query head of one sequence against its key/value head; with a cache, the rows may also be the query
// heads of one token that share a key/value head.
struct AttentionHead {
  const float *q, *k, *v;
  int64_t q_stride, kv_stride;  // floats between consecutive tokens
  int64_t rows, keys, dim;
  int64_t past = 0;      // key index of q row 0
  int64_t row_step = 1;  // index step between rows; 0 if the rows are heads of one token
  KeyPages cache;        // instead of k and v
  bool causal = false;
  int64_t window = 0;  // > 0: only the last `window` keys, including the current one
  // Attention sinks (Xiao et al., 2023), with a window and a cache: the first `sinks` keys, at most one tile,
  // stay visible as if they came right before the window. q_sinks: each row of q rotated to min(its position,
  // sinks + window - 1); null if q has no rotary positions.
  int64_t sinks = 0;
  const float* q_sinks = nullptr;
  float scale = 1, soft_cap = 0;
  // By distance key - query: bias[0] is for the current position, bias[-3] for the third one before it.
  const float* bias = nullptr;
  bool bias_by_key = false;  // or by key index
  int64_t bias_stride = 0;   // between rows, if the rows are heads
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
  float *dq, *dk, *dv;     // strides as in q, k, v; dq is overwritten, dk and dv are added to
  float* dbias = nullptr;  // by distance, added to
};

// Up to 4 rows of quantized activations, or 8, by panels of quantized weights (quant_form.h has the layouts):
// c[i*ldc + j] = (accumulate ? c : 0) + the product, i < rows, j < cols.
struct QuantProduct {
  int form = 0, rows = 0;
  int64_t blocks = 0;       // of 64 values along k
  int panel_rows = 0;       // quant_tile: rows per panel of activations; the last may have fewer
  int64_t first_block = 0;  // quant_tile: the product starts at this block of the activations
  const void* a = nullptr;  // one panel of activations; with 8 rows, the second half is a_panel bytes further
  int64_t a_panel = 0;      // bytes between panels of activations
  const void* b = nullptr;  // panels of weights, b_panel bytes apart
  int64_t b_panel = 0;
  const float* scales = nullptr;     // output of Table::quant_scales, or nullptr
  int64_t scale_panel = 0;           // floats between the scales of consecutive panels
  const int8_t* codebook = nullptr;  // 16 values for codebook forms; always 16 readable bytes
  float* c = nullptr;
  int64_t ldc = 0, cols = 0;
  bool accumulate = false;
  // Panels to prefetch, prefetch_panel bytes apart: prefetch_step bytes per block, so that memory loads
  // overlap with this product. nullptr: none.
  const void* prefetch = nullptr;
  int64_t prefetch_panel = 0, prefetch_step = 0;
};

// Consecutive heads of a group in a selective scan, over consecutive rows of a sequence (SelectiveScan). Rows
// of x and y are x_stride floats apart, rows of dt dt_stride, rows of b and c b_stride.
struct ScanHeads {
  const float *x, *dt, *a, *b, *c;  // a [heads, states] or [heads]
  const float* d;                   // [heads]
  float *y, *h;  // h [heads, dim, states]: the state before the first row, then after the last
  int64_t heads, rows, dim, states, x_stride, dt_stride, b_stride;
  bool shared_a;
};
struct ScanHeadBackward {     // of one head
  const float* dy;            // like x
  float *dx, *ddt, *db, *dc;  // like x, dt and b; ddt, db and dc are added to
  float *da, *dd;             // da: [states] or one value; dd: one value; both are added to
};

// Which of the `count` row panels that one panel of B is multiplied by.
struct TilePart {
  int64_t index = 0, count = 1;
};

struct Table {
  const char* isa = "";

  // --- matrix product on packed panels (gemm.h drives these) ---
  int mr = 0;  // rows of an A panel:  [k][mr]
  int nr = 0;  // columns of a B panel: [k][nr]
  int kc = 0;  // k per pass that keeps a B panel in the L1 cache
  // c[i*ldc + j] = (accumulate ? c : 0) + sum over k in sequence of a[k*mr + i] * b[k*nr + j], i < rows, j <
  // cols; b is f32, f16 or bf16. Each `part` prefetches its share of what follows b in memory.
  void (*tile)(DType type, int64_t k, const float* a, const void* b, float* c, int64_t ldc, int rows,
               int cols, bool accumulate, TilePart part) = nullptr;
  // Packs x[rows, k], element (r, p) at x[r*row_stride + p*k_stride], into consecutive panels of mr (nr)
  // rows; the last one is padded with zeros. Fast if one of the strides is 1.
  void (*pack_a)(const float* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
                 float* out) = nullptr;
  void (*pack_b)(const float* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
                 float* out) = nullptr;
  // All tiles of packed panels: c[m, n] = (accumulate ? c : 0) + A B^T.
  void (*product)(int64_t m, int64_t n, int64_t k, const float* a_panels, const float* b_panels, float* c,
                  int64_t ldc, bool accumulate) = nullptr;
  // One to rows_max unpacked rows of A (k contiguous, lda apart) by packed panels of f32, f16 or bf16,
  // `panel` elements apart: the decode case.
  int rows_max = 0;
  void (*rows)(DType type, int m, int64_t n, int64_t k, const float* a, int64_t lda, const void* b_panels,
               int64_t panel, float* c, int64_t ldc, bool accumulate) = nullptr;
  // rows() for one row by f16 weights, bit-identical and faster, but only for finite weights and |a| < 2^15.
  // Null if rows() is as fast.
  void (*row_f16)(int64_t n, int64_t k, const float* a, const void* b_panels, int64_t panel, float* c,
                  bool accumulate) = nullptr;
  // pack_b of f16 or bf16: keeping the storage type, or widened to f32.
  void (*pack_b16)(const uint16_t* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
                   uint16_t* out) = nullptr;
  void (*pack_b_widen)(DType type, const uint16_t* x, int64_t row_stride, int64_t k_stride, int64_t rows,
                       int64_t k, float* out) = nullptr;
  void (*widen)(DType type, const uint16_t* x, int64_t count, float* out) = nullptr;  // f16 or bf16 to f32

  // --- matrix product of bf16 (product_bf16.h drives these) ---
  // Packs up to 16 lines by k into ceil(k / 32) tiles, padded with zeros; element (r, p) is at
  // x[r*row_stride + p*k_stride]. `pairs_first`: tiles of B.
  void (*pack_tiles_bf16)(const uint16_t* x, int64_t row_stride, int64_t k_stride, int lines, int64_t k,
                          bool pairs_first, void* tiles) = nullptr;
  void (*multiply_tiles_bf16)(const TilesBf16&) = nullptr;
  // sums[rows][nr]: one to kMaxRowsBf16 rows by one panel [k][nr] of packed weights; the bits of the tiles.
  void (*rows_bf16)(int rows, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* panel,
                    float* sums) = nullptr;
  // One row of results: c = sums, + bias if it is not null, or c + sums. In bf16, each sum is rounded before
  // it is added to c.
  void (*store_sums)(const float* sums, const float* bias, bool accumulate, int64_t n, float* c) = nullptr;
  void (*store_sums_bf16)(const float* sums, const float* bias, bool accumulate, int64_t n,
                          uint16_t* c) = nullptr;
  // y[j] += each of the rows of x in sequence, j < n.
  void (*add_rows)(const float* x, int64_t rows, int64_t stride, int64_t n, float* y) = nullptr;
  void (*add_rows_bf16)(const uint16_t* x, int64_t rows, int64_t stride, int64_t n, float* y) = nullptr;

  // --- matrix product on quantized weights (quant.h drives these) ---
  int quant_cols = 4;               // columns of a panel: 4, 8 or 16
  bool quant_initial_sums = false;  // activations carry the initial sums (quant_form.h)
  // Whether a device multiplies f16 weights of GGUF files as 16-bit integers instead of converting them to
  // f32. The two have different bits, so this is the one field that changes results: true only on NEON.
  bool int16_is_faster = false;
  void (*quant_product)(const QuantProduct&) = nullptr;
  // Expands `blocks` blocks of a panel to its expanded form.
  void (*quant_expand)(int form, int64_t blocks, const void* b, const int8_t* codebook, void* out) = nullptr;
  // Whether products on a form support 8 rows in addition to up to 4. For a form that is not expanded, the
  // scales must be prepared first, unless quant_scales is null: expanded_scales() floats for each of `blocks`
  // blocks of a panel.
  bool (*quant_takes_eight)(int form) = nullptr;
  void (*quant_eight)(const QuantProduct&) = nullptr;
  void (*quant_scales)(int form, int64_t blocks, const void* b, float* out) = nullptr;
  // Products of any number of rows by expanded forms and forms of int8 values; panels of activations have up
  // to 16 rows. Null without matrix instructions.
  void (*quant_tile)(const QuantProduct&) = nullptr;
  // Quantizes x[rows, k], rows row_stride apart, into one panel of activations for `form`, zero-padded to
  // `blocks` blocks; weights are read as `unit` times their value.
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
  // cos and sin of position * frequencies[i], times factor.
  void (*rope_cos_sin)(float position, const float* frequencies, int64_t n, double factor, float* cos,
                       float* sin) = nullptr;

  // --- recurrent layers ---
  // y[c] = bias[c] + sum_k w[k * n + c] * rows[k][c]; bias may be null.
  void (*conv_row)(const float* const* rows, int64_t taps, const float* w, const float* bias, float* y,
                   int64_t n) = nullptr;
  // The same with w[c * taps + k].
  void (*conv_step)(const float* const* rows, int64_t taps, const float* w, const float* bias, float* y,
                    int64_t n) = nullptr;
  void (*scan)(const ScanHeads&) = nullptr;
  // From the zero state; scratch: (rows + 2) * states floats.
  void (*scan_backward)(const ScanHeads&, const ScanHeadBackward&, float* scratch) = nullptr;

  // --- attention; scratch sizes in floats ---
  int64_t (*attention_scratch)(const AttentionHead&) = nullptr;
  void (*attention_forward)(const AttentionHead&, float* scratch) = nullptr;
  void (*attention_weights)(const AttentionHead&, float* scratch) = nullptr;
  int64_t (*attention_backward_scratch)(const AttentionHead&) = nullptr;
  void (*attention_backward)(const AttentionHead&, const AttentionHeadBackward&, float* scratch) = nullptr;

  // --- peak throughput ---
  // Runs `loops` rounds of multiply-adds; returns the number of operations, two per multiply-add.
  double (*peak_f32)(int64_t loops) = nullptr;
  double (*peak_int8)(int64_t loops) = nullptr;  // null if there is no suitable instruction

  // --- optimisers ---
  void (*adamw)(float* p, const float* g, float* m, float* v, int64_t n, const AdamStep& step) = nullptr;
};

// The table that kernels use: that of MAKAR_ISA=portable|neon|avx2|avxvnni|avx512|avx512vnni|amx in the
// environment, else the best one for this machine. open_device() and main() report a wrong MAKAR_ISA before
// this is called.
const Table& cpu();
// The table of the given name; of a null or empty name, the best one.
Result<const Table*> select_table(const char* name);
// Every table this machine can run, for tests that compare their bits.
std::vector<const Table*> available();

}  // namespace makar::kernels
