// Arguments of kernels for mixtures of experts: rows are brought together by expert, so that one call
// multiplies them by the weights of all experts, and what each expert gets is known to the device only.
#pragma once
#include "kernels/args/products.h"

namespace makar::kernels {

// Places for routed rows: tile t has `rows_per_tile` of them, all of one expert.
struct ExpertTiles {
  int64_t rows_per_tile, count;
  int32_t* experts;  // [count]: the expert of each tile; -1: no rows
  int32_t* rows;     // [count * rows_per_tile]: the row at each place; -1: none
  int64_t places() const { return count * rows_per_tile; }
};

struct RouteRows {
  const float* probabilities;      // [rows, experts]; a NaN is the smallest value
  const float* correction;         // [experts], added to choose experts; may be null
  int64_t rows, experts, per_row;  // per_row <= experts <= kMaxExperts
  int64_t groups, groups_per_row;  // experts are chosen from the best groups: the others count as 0
  bool best_two;                   // a group's score is the sum of its best two values, not its best one
  bool normalized;                 // weights are probabilities divided by their sum
  float scale;                     // multiplies the weights
  int32_t* choices;                // [rows, per_row]: the largest first, ties by index
  float* weights;                  // [rows, per_row], and:
  int32_t* places;                 // [rows, per_row]: in `tiles`; both null with them: only choices
  ExpertTiles tiles;               // written; places of one expert in the order of rows
};
constexpr int64_t kMaxExperts = 1024;

// y = W[expert] x (+ bias[expert]) for every place of a row, bit for bit as gemm_packed, or as
// gemm_packed_bf16 if x is bf16. What is written to other places is not defined.
struct ExpertProduct {
  const PackedWeight* const* weights;  // [experts], from one call of Device::pack_together(); in host memory
  const float* const* biases;          // [experts]: addresses of [n], in device memory; may be null
  void* y;                             // [places, n], of the type of x
};
struct ExpertProducts {
  ExpertTiles tiles;
  const void* x;  // [rows, k] if `gathered`, else [places, k]
  DType type;     // of x: f32, or bf16 with weights in bf16
  bool gathered;
  int64_t experts;
  const ExpertProduct* products;  // of one k; in host memory
  int64_t count;
};

// y[row] = 0 + the sum over its experts, in the order of their indices, of weight * x[place].
struct AddExperts {
  const void* x;  // [places, width]
  DType type;     // f32 or bf16
  const int32_t *choices, *places;
  const float* weights;
  float* y;
  int64_t rows, per_row, width;
};

}  // namespace makar::kernels
