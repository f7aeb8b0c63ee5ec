// Four rows by one panel of 16-bit weights: the formula of quant.cpp, bit-identical. Implemented in assembly,
// quant_tile16_neon.S.
#pragma once
#include <cstddef>

#include "kernels/cpu/isa/quant_neon.h"
#include "kernels/cpu/quant_form.h"

namespace makar::kernels::MAKAR_ISA {

// The assembly accesses the fields by offset.
struct FourRows {
  int64_t groups;  // of two blocks
  const std::byte *a, *b;
  Floats* y;  // one per row; accumulated
  Prefetch prefetch;
};
static_assert(offsetof(FourRows, a) == 8 && offsetof(FourRows, y) == 24 &&
              offsetof(FourRows, prefetch) == 32);

extern "C" void makar_tile_int16(const FourRows*);

// y += the product of 4 rows of activations and the panel b of kFormInt16; an even number of blocks, not 0.
inline void tile16_of_four(int64_t blocks, const std::byte* a, const std::byte* b, Floats (&y)[4],
                           Prefetch prefetch) {
  constexpr QuantForm F = kQuantForms[kFormInt16];
  static_assert(scale_bytes(F) == 16 && group_bytes(F) == 1040 && activation_bytes(F, 4) == 528);
  const FourRows rows{blocks / 2, a, b, y, prefetch};
  makar_tile_int16(&rows);
}

}  // namespace makar::kernels::MAKAR_ISA
