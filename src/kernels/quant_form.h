// How quantised weights lie in memory for the kernels: panels of 4 columns, walked along k in blocks of 64.
// Every block type of GGUF is laid out without loss in one of these forms; a form is a way to store values
// and a way to store scales. The kFormWide ones are what a panel becomes when many rows use it.
//
// A panel is a run of groups: scales first, then the values of its blocks of 64. A group is one block, 4
// where 256 weights share a scale (k is a multiple of 256 then), or 2 of 16-bit values, so that all stay
// aligned. Values of 4 columns by 4 k stand together in 16 lanes ("step"); a run of 16 k is four steps.
#pragma once
#include <cstddef>
#include <cstdint>

namespace makar::kernels {

constexpr int kQuantBlock = 64;  // k that share the scale of an activation
constexpr int kQuantCols = 4;
constexpr int kQuantRows = 4;  // the most rows of a panel of activations
constexpr int kQuantRun = 16;

enum class QuantValues : uint8_t {
  kInt8,       // as they are
  kSigned4,    // low nibbles: steps 0..3 of a run of 32 k, high nibbles: 4..7; read as 16 times the value
  kUnsigned4,  // the same for 0..15
  kBook4,      // the same, an index into 16 values
  kInt6,       // 3 bytes for 4: the upper six bits of each, the fourth in the lower two; read as 4 times
  kUnsigned2,  // a byte for 4: the steps of a run from the lowest bits up; read as 16 times the value
  kInt16,      // 256 high + low, both signed bytes: the high ones of a block, then the low ones
};
enum class QuantScales : uint8_t { kHalf, kSuper, kFloat };

struct QuantForm {
  QuantValues values;
  QuantScales scales;
  int part;   // k that share a scale: 16, 32 or 64
  bool mins;  // value = scale * q + min
};

enum QuantFormId : int {
  kFormInt8,
  kFormSigned4,
  kFormBook4,
  kFormInt6,
  kFormUnsigned4Min,
  kFormInt6Min,
  kFormSuperBook4,
  kFormSuperUnsigned4Min,
  kFormSuperInt6Min,
  kFormSuperInt8,
  kFormSuperSigned4,
  kFormSuperUnsigned2Min16,
  kFormWide,
  kFormWideMin,
  kFormWide16,
  kFormWideMin16,
  kFormInt16,
  kQuantFormCount
};

inline constexpr QuantForm kQuantForms[kQuantFormCount] = {
    {QuantValues::kInt8, QuantScales::kHalf, 32, false},       // Q8_0
    {QuantValues::kSigned4, QuantScales::kHalf, 32, false},    // Q4_0
    {QuantValues::kBook4, QuantScales::kHalf, 32, false},      // IQ4_NL
    {QuantValues::kInt6, QuantScales::kHalf, 32, false},       // Q5_0
    {QuantValues::kUnsigned4, QuantScales::kHalf, 32, true},   // Q4_1
    {QuantValues::kInt6, QuantScales::kHalf, 32, true},        // Q5_1
    {QuantValues::kBook4, QuantScales::kSuper, 32, false},     // IQ4_XS, IQ2_XXS
    {QuantValues::kUnsigned4, QuantScales::kSuper, 32, true},  // Q4_K
    {QuantValues::kInt6, QuantScales::kSuper, 32, true},       // Q5_K
    {QuantValues::kInt8, QuantScales::kSuper, 16, false},     // Q6_K: unpacking six bits costs more than they
                                                              // save
    {QuantValues::kSigned4, QuantScales::kSuper, 16, false},  // Q3_K
    {QuantValues::kUnsigned2, QuantScales::kSuper, 16, true},  // Q2_K
    {QuantValues::kInt8, QuantScales::kFloat, 32, false},
    {QuantValues::kInt8, QuantScales::kFloat, 32, true},
    {QuantValues::kInt8, QuantScales::kFloat, 16, false},
    {QuantValues::kInt8, QuantScales::kFloat, 16, true},
    {QuantValues::kInt16, QuantScales::kHalf, 64, false},  // F16
};

// What the kernels read a value as: this many times itself. The activations carry the inverse in their scale.
constexpr int unit_of(const QuantForm& f) {
  return f.values == QuantValues::kSigned4     ? 16
         : f.values == QuantValues::kUnsigned2 ? 16  // for the rounding of sums to be small beside them
         : f.values == QuantValues::kInt6      ? 4
         : f.values == QuantValues::kInt16     ? 16  // scales 4096 times, for f16 to hold; sums a 256th
                                               : 1;
}
constexpr int parts_of(const QuantForm& f) { return kQuantBlock / f.part; }
constexpr int blocks_of(const QuantForm& f) {
  return f.scales == QuantScales::kSuper ? 4 : f.values == QuantValues::kInt16 ? 2 : 1;
}
// Blocks of 64 that `k` weights take: whole groups.
constexpr int64_t blocks_for(const QuantForm& f, int64_t k) {
  const int64_t group = blocks_of(f), blocks = (k + kQuantBlock - 1) / kQuantBlock;
  return (blocks + group - 1) / group * group;
}
// Bytes of the values of one block.
constexpr int64_t value_bytes(const QuantForm& f) {
  const int bits = f.values == QuantValues::kInt8        ? 8
                   : f.values == QuantValues::kInt16     ? 16
                   : f.values == QuantValues::kInt6      ? 6
                   : f.values == QuantValues::kUnsigned2 ? 2
                                                         : 4;
  return kQuantBlock * kQuantCols * bits / 8;
}
// Floats of a block's scales in wide forms: [parts][4], mins likewise, then -1.5 * 2^23 times the sum of the
// scales (a kernel's sums start from that number).
constexpr int64_t wide_scales(const QuantForm& f) {
  return (int64_t{f.mins ? 2 : 1} * parts_of(f) + 1) * kQuantCols;
}
// Scales of a group. kHalf: f16 [blocks][parts][4], mins likewise. kFloat: wide_scales(). kSuper: f16 d[4]
// (min d[4]), then a byte for each part and column (with bias 128 where there are no mins), mins likewise.
constexpr int64_t scale_bytes(const QuantForm& f) {
  const int kinds = f.mins ? 2 : 1, parts = parts_of(f);
  if (f.scales == QuantScales::kHalf) return int64_t{kinds} * blocks_of(f) * parts * kQuantCols * 2;
  if (f.scales == QuantScales::kFloat) return wide_scales(f) * 4;
  return int64_t{kinds} * (kQuantCols * 2 + 4 * parts * kQuantCols);
}
constexpr int64_t group_bytes(const QuantForm& f) { return scale_bytes(f) + blocks_of(f) * value_bytes(f); }

// The form of the same values for many rows. Bytes that the kernels can already use stay as they are.
constexpr int wide_form(const QuantForm& f) {
  return f.part == 32 ? (f.mins ? kFormWideMin : kFormWide) : (f.mins ? kFormWideMin16 : kFormWide16);
}

// Activations for a form: panels of `rows` <= kQuantRows rows. A block is int8 [rows][64] (for kInt16 the low
// bytes likewise), the scales f32 [rows] and, for forms with mins, the sums of the parts f32 [parts][rows].
constexpr int64_t activation_values(const QuantForm& f) {
  return f.values == QuantValues::kInt16 ? 2 * kQuantBlock : kQuantBlock;
}
constexpr int64_t activation_bytes(const QuantForm& f, int rows) {
  return rows * (activation_values(f) + 4 + (f.mins ? 4 * parts_of(f) : 0));
}

// What a product asks memory for while it computes: `step` bytes from `at` on with every block.
struct Ahead {
  const std::byte* at;
  int64_t step;
};

}  // namespace makar::kernels
