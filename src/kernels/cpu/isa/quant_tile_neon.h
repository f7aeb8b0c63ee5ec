// Eight rows by one panel: the formula of quant.cpp, bit-identical. Implemented in assembly,
// quant_tile_neon.S.
#pragma once
#include <cstddef>

#include "kernels/cpu/isa/quant_neon.h"
#include "kernels/cpu/quant_form.h"

namespace makar::kernels::MAKAR_ISA {

// One weight panel and two panels of four rows each. The assembly accesses the fields by offset.
struct EightRows {
  int64_t blocks;
  const std::byte *a, *a_second;  // rows 0-3 and 4-7
  const std::byte* values;
  int64_t group, gap;  // contiguous blocks, and the bytes between such groups
  const std::byte* scales;
  int64_t scale_step;
  float* y;  // [8][4]; accumulated
  Prefetch prefetch;
  const int32_t* seed = kSeed;
};
static_assert(offsetof(EightRows, a) == 8 && offsetof(EightRows, values) == 24 &&
              offsetof(EightRows, gap) == 40 && offsetof(EightRows, scale_step) == 56 &&
              offsetof(EightRows, prefetch) == 72 && offsetof(EightRows, seed) == 88);

extern "C" {
void makar_tile_int8(const EightRows*);
void makar_tile_int8_mins(const EightRows*);
void makar_tile_int8_parts16(const EightRows*);
void makar_tile_signed4(const EightRows*);
void makar_tile_unsigned4_mins(const EightRows*);
}

// True if there is an assembly function for a form.
constexpr bool takes_eight(const QuantForm& f) {
  if (f.part == 16) return f.values == QuantValues::kInt8 && !f.mins;
  return f.part == 32 && (f.values == QuantValues::kInt8 || (f.values == QuantValues::kSigned4 && !f.mins) ||
                          (f.values == QuantValues::kUnsigned4 && f.mins));
}

// y += the product; blocks > 0.
template <int Form>
inline void eight_rows_by_panel(const EightRows& r) {
  constexpr QuantForm F = kQuantForms[Form];
  static_assert(takes_eight(F) && activation_bytes(F, 4) == (F.mins ? 304 : 272));
  static_assert(value_bytes(F) == (F.values == QuantValues::kInt8 ? 256 : 128));
  if constexpr (F.part == 16)
    makar_tile_int8_parts16(&r);
  else if constexpr (F.values == QuantValues::kSigned4)
    makar_tile_signed4(&r);
  else if constexpr (F.values == QuantValues::kUnsigned4)
    makar_tile_unsigned4_mins(&r);
  else if constexpr (F.mins)
    makar_tile_int8_mins(&r);
  else
    makar_tile_int8(&r);
}

}  // namespace makar::kernels::MAKAR_ISA
