// The arguments of kernels on bf16 activations (mixed precision). Sums, norms, softmax and losses are
// computed in f32; each result is rounded to bf16 once, to nearest even. Rules of kernel_args.h apply;
// kernels that differ from their f32 counterpart only in the type are templates there.
#pragma once
#include "kernels/kernel_args.h"

namespace makar::kernels {

struct Convert {  // y (+)= factor[0] * x, in f32; x and y are f32 or bf16; y may be x if the types agree
  const void* x;
  DType from;
  void* y;
  DType to;
  int64_t n;
  const float* factor;  // null: 1
  bool accumulate;
};
struct RoundLayerBf16 {  // the weights and the biases of a layer, rounded
  const float *weights, *biases;
  Bf16 *to_weights, *to_biases;
  int64_t weight_count, bias_count;
};
struct AddBf16 {  // y = a + b; y may be a
  const float* a;
  const Bf16* b;
  float* y;
  int64_t n;
};
struct NormBf16 {  // as Norm; with `addend`, sum = x + addend, and y is the norm of sum
  bool rms;
  const float *x, *w, *b;
  Bf16* y;
  float* stats;
  int64_t rows, cols;
  float eps, offset;
  const Bf16* addend = nullptr;
  float* sum = nullptr;
};
struct NormBackwardBf16 {  // as NormBackward
  bool rms;
  const float *x, *w;
  const Bf16* dy;
  const float* stats;
  float *dx, *dw, *db;
  int64_t rows, cols;
  float offset;
  bool accumulate_x, accumulate_w, accumulate_b;
  Bf16* rounded;        // dx, with what it was added to, rounded to bf16; may be null, and is where dx is
  float* rounded_sums;  // column sums of `rounded`; may be null, and is where `rounded` is
};

// C[m, n] (+)= A[m, k] B[n, k]^T (+ bias[n]) of bf16 operands, summed from zero in f32; C is f32 or bf16. A
// product that is added to a bf16 C is rounded to bf16 first. The bits of a row do not depend on m, unless A
// and B are both stored along k (weight gradients).
struct ProductBf16 {
  int64_t m, n, k;
  Operand a, b;
  void* c;
  DType type;
  int64_t ldc;
  bool accumulate;
  const Bf16* bias;  // may be null; not with `accumulate`
};

// Several products with one A [m, k]: as ProductBf16 with packed bf16 weights, bit for bit.
struct PackedProductBf16 {
  const PackedWeight* b;  // of type bf16
  Bf16* c;                // [m, n]
  const float* bias;      // rounded to bf16 before it is added; may be null
};
struct PackedGemmBf16 {
  int64_t m;
  const Bf16* a;
  const PackedProductBf16* products;  // in host memory
  int64_t count;
};

// Packed products with the kernels before and after them, as in a decoding step; bit for bit as separate
// calls.
struct FusedProductsBf16 {
  PackedGemmBf16 products;
  const NormBf16* norm = nullptr;  // `products.a` is its y, which the device need not write
  // y = kind(first product) * second product, of the products' rounded results, which the device need not
  // write.
  Bf16* gated = nullptr;
  Activation kind = Activation::kSilu;
  // sum = residual + the only product, whose result the device need not write; sum may be residual.
  const float* residual = nullptr;
  float* sum = nullptr;
};

// Packed products of weights of block types in f32 with the kernels before and after them, as in a decoding
// step; bit for bit as separate calls.
struct FusedProducts {
  PackedGemm products;             // A: f32 or bf16
  const NormBf16* norm = nullptr;  // A is its y, which the device need not write
  // y = kind(first product) * second product, which the device need not write.
  float* gated = nullptr;
  Activation kind = Activation::kSilu;
  // sum = residual + the only product, whose result the device need not write; sum may be residual.
  const float* residual = nullptr;
  float* sum = nullptr;
};

// Rows of `stride` logits, of which the first `cols` count. With `gradient`, weight * gradient overwrites x:
// zero in ignored rows and beyond `cols`.
struct CrossEntropyBf16 {
  Bf16* x;
  const int64_t* targets;
  float* losses;  // 0 in ignored rows
  int64_t rows, cols, stride;
  float smoothing, weight, soft_cap;
  bool gradient;
};

// Attention without bias, soft cap and dropout; head_dim is a multiple of 8, at most kMaxBf16HeadDim.
constexpr int64_t kMaxBf16HeadDim = 128;
struct AttentionBf16 {
  AttentionShape shape;
  const Bf16 *q, *k, *v;
  Bf16* out;
  float* lse;
};
struct CacheStoreBf16 {  // as CacheStore, into pages of bf16
  const SequenceRows* sequences;
  int64_t count, max_q_rows;
  const Bf16 *k, *v;
  int64_t kv_heads, head_dim;
  CacheLayer cache;
};
struct AttentionCachedBf16 {  // as AttentionBf16, bit for bit, on the keys and values in pages of bf16
  AttentionShape shape;
  const Bf16* q;
  CacheLayer cache;
  Bf16* out;
};
// A decoding step: rotates the one query and key of each sequence (cos is null: does not), stores key and
// value, attends. Bit for bit as RopeBf16 (of f32: Rope, then rounding), CacheStoreBf16 and
// AttentionCachedBf16.
struct DecodeAttentionBf16 {
  AttentionShape shape;
  const void *q, *k, *v;
  DType type;              // of q, k and v: f32 or bf16
  const float *cos, *sin;  // [rows, rotary / 2]
  int64_t rotary;
  bool interleaved;
  CacheLayer cache;
  Bf16* out;
};
struct AttentionBackwardBf16 {  // writes the rows of all sequences
  AttentionShape shape;
  const Bf16 *q, *k, *v, *out;
  const float* lse;
  const Bf16* dy;
  Bf16 *dq, *dk, *dv;
  int64_t total_rows;  // of q, out and dy
};

}  // namespace makar::kernels
