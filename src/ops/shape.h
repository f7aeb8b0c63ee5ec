// Reshape, concatenation, split, gather, scatter, transposition, reductions.
#pragma once
#include <vector>

#include "ops/context.h"

namespace makar::ops {

Tensor reshape(Context& ctx, const Tensor& x, const Shape& shape);
// Along the first (axis 0) or the last (axis -1) dimension.
Tensor concat(Context& ctx, const std::vector<Tensor>& parts, int axis);
std::vector<Tensor> split(Context& ctx, const Tensor& x, const std::vector<int64_t>& sizes, int axis);
Tensor transpose(Context& ctx, const Tensor& x);  // of a matrix

// Rows x[index[i]] of the first dimension; an index of -1 gives a zero row.
Tensor gather_rows(Context& ctx, const Tensor& x, const std::vector<int64_t>& index);
// out[index[i]] += x[i] into `rows` zero rows, in order.
Tensor scatter_rows(Context& ctx, const Tensor& x, const std::vector<int64_t>& index, int64_t rows);
// y[index[i]] = x[i], in place; no gradient.
void replace_rows(Context& ctx, const Tensor& y, const Tensor& x, const std::vector<int64_t>& index);
// One element per row: x[i, index[i]] -> [rows].
Tensor pick(Context& ctx, const Tensor& x, const std::vector<int64_t>& index);
// Row i of x [rows, ...] times w[i] (w has one value per row).
Tensor scale_rows(Context& ctx, const Tensor& x, const Tensor& w);
// The Euclidean norm of each row of x [rows, ...], or its inverse -> [rows]; no gradient.
Tensor row_norms(Context& ctx, const Tensor& x, bool inverse = false);

Tensor sum(Context& ctx, const Tensor& x);   // -> [] (rank 0)
Tensor mean(Context& ctx, const Tensor& x);  // -> []
// Sums of consecutive groups of rows: starts has one more entry than there are groups. -> [groups, ...]
Tensor segment_sum(Context& ctx, const Tensor& x, const std::vector<int64_t>& starts);

}  // namespace makar::ops
