// Table lookup by id, in any weight dtype; sinusoidal positions.
#pragma once
#include <span>

#include "ops/context.h"

namespace makar::ops {

// table [n, width] in f32, f16, bf16 or a block type; ids in [0, n) -> [ids, width]. The row `padding` gets
// no gradient.
Tensor embedding(Context& ctx, const Tensor& table, std::span<const int64_t> ids, int64_t padding = -1);
// The same with ids [rows] in device memory, which are not checked; without a gradient.
Tensor embedding(Context& ctx, const Tensor& table, const Tensor& ids);

// Sinusoidal positions [positions, width]: sines in the first half of a row, cosines in the second (Marian's
// layout). `fairseq`: frequencies from 1 to exactly 1 / 10000, computed in f32.
Tensor sinusoidal_positions(int64_t positions, int64_t width, bool fairseq = false);

}  // namespace makar::ops
