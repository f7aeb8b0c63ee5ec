// Memory layouts of quantized weights: panels of 4, 8 or 16 columns (Table::quant_cols: as many as an
// instruction set has 32-bit lanes), traversed along k in blocks of 64. Every GGUF block type is packed
// without loss into one of these forms; a form defines how values and scales are stored. Panels are expanded
// to a kFormExpanded form when many rows use them.
//
// A panel is a sequence of groups: scales first, then the values of its blocks of 64. A group is one block; 4
// blocks if 256 weights share a scale (k is then a multiple of 256); or 2 blocks of 16-bit values, for
// alignment. The values of all columns at 4 consecutive k are stored together (a "step"); a run of 16 k is
// four steps.
#pragma once
#include <cstddef>
#include <cstdint>

namespace makar::kernels {

constexpr int kQuantBlock = 64;  // values along k that share an activation scale
constexpr int kQuantRows = 4;    // rows per panel of activations, at most (kQuantTile for Table::quant_tile)
constexpr int kQuantTile = 16;
constexpr int kQuantRun = 16;

enum class QuantValues : uint8_t {
  kInt8,       // one byte per value
  kSigned4,    // of 32 k, low nibbles: steps 0..3, high nibbles: steps 4..7; read as 16 times the value
  kUnsigned4,  // the same layout for values of 0..15
  kCodebook4,  // the same layout for indices into 16 values
  kInt6,  // 3 bytes per 4 values: three in the upper six bits of a byte, the fourth in the lower two bits of
          // all three; read as 4 times the value
  kUnsigned2,  // 1 byte per 4 values: the steps of a run, lowest bits first; read as 16 times the value
  kSparse8,    // 2 of 4 values as int8: 8 vectors of all columns by 8 k, then 2 vectors of positions (two
               // bits per value), each for 4 vectors of values, lowest bits first
  kInt16,      // 256 high + low, both signed bytes: all high bytes of a block, then all low bytes
};
enum class QuantScales : uint8_t { kHalf, kSuper, kFloat };

struct QuantForm {
  QuantValues values;
  QuantScales scales;
  int part;   // values along k that share a scale: 16, 32 or 64
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
  kFormSparse8,
  kFormExpanded,
  kFormExpandedMin,
  kFormExpanded16,
  kFormExpandedMin16,
  kFormInt16,
  kQuantFormCount
};

inline constexpr QuantForm kQuantForms[kQuantFormCount] = {
    {QuantValues::kInt8, QuantScales::kHalf, 32, false},        // Q8_0
    {QuantValues::kSigned4, QuantScales::kHalf, 32, false},     // Q4_0
    {QuantValues::kCodebook4, QuantScales::kHalf, 32, false},   // IQ4_NL
    {QuantValues::kInt6, QuantScales::kHalf, 32, false},        // Q5_0
    {QuantValues::kUnsigned4, QuantScales::kHalf, 32, true},    // Q4_1
    {QuantValues::kInt6, QuantScales::kHalf, 32, true},         // Q5_1
    {QuantValues::kCodebook4, QuantScales::kSuper, 32, false},  // IQ4_XS, IQ2_XXS
    {QuantValues::kUnsigned4, QuantScales::kSuper, 32, true},   // Q4_K
    {QuantValues::kInt6, QuantScales::kSuper, 32, true},        // Q5_K
    {QuantValues::kInt8, QuantScales::kSuper, 16, false},  // Q6_K: unpacking six bits would cost more than it
                                                           // saves
    {QuantValues::kSigned4, QuantScales::kSuper, 16, false},   // Q3_K
    {QuantValues::kUnsigned2, QuantScales::kSuper, 16, true},  // Q2_K
    {QuantValues::kSparse8, QuantScales::kHalf, 32, false},    // Q8_24
    {QuantValues::kInt8, QuantScales::kFloat, 32, false},
    {QuantValues::kInt8, QuantScales::kFloat, 32, true},
    {QuantValues::kInt8, QuantScales::kFloat, 16, false},
    {QuantValues::kInt8, QuantScales::kFloat, 16, true},
    {QuantValues::kInt16, QuantScales::kHalf, 64, false},  // F16
};

// The kernels read a value multiplied by this factor; the activation scales contain its inverse.
constexpr int unit_of(const QuantForm& f) {
  return f.values == QuantValues::kSigned4     ? 16
         : f.values == QuantValues::kUnsigned2 ? 16  // keeps the rounding errors of sums relatively small
         : f.values == QuantValues::kInt6      ? 4
         : f.values == QuantValues::kInt16     ? 16  // stored scales times 4096, to fit f16; sums times 1/256
                                               : 1;
}
constexpr int parts_of(const QuantForm& f) { return kQuantBlock / f.part; }
constexpr int blocks_of(const QuantForm& f) {
  return f.scales == QuantScales::kSuper ? 4 : f.values == QuantValues::kInt16 ? 2 : 1;
}
// Blocks of 64 for `k` weights, rounded up to whole groups.
constexpr int64_t blocks_for(const QuantForm& f, int64_t k) {
  const int64_t group = blocks_of(f), blocks = (k + kQuantBlock - 1) / kQuantBlock;
  return (blocks + group - 1) / group * group;
}
// Bytes of the values of one block.
constexpr int64_t value_bytes(const QuantForm& f, int cols) {
  const int bits = f.values == QuantValues::kInt8        ? 8
                   : f.values == QuantValues::kInt16     ? 16
                   : f.values == QuantValues::kInt6      ? 6
                   : f.values == QuantValues::kSparse8   ? 5
                   : f.values == QuantValues::kUnsigned2 ? 2
                                                         : 4;
  return int64_t{kQuantBlock} * cols * bits / 8;
}
// Floats per block for the scales of expanded forms: [parts][cols], mins likewise, then -1.5 * 2^23 times the
// sum of the scales (the initial value of a kernel's sums).
constexpr int64_t expanded_scales(const QuantForm& f, int cols) {
  return (int64_t{f.mins ? 2 : 1} * parts_of(f) + 1) * cols;
}
// Bytes of a group's scales. kHalf: f16 [blocks][parts][cols], mins likewise. kFloat: expanded_scales().
// kSuper: f16 d[cols] (min d[cols]), then one byte per part and column (with bias 128 if there are no mins),
// mins likewise.
constexpr int64_t scale_bytes(const QuantForm& f, int cols) {
  const int kinds = f.mins ? 2 : 1, parts = parts_of(f);
  if (f.scales == QuantScales::kHalf) return int64_t{kinds} * blocks_of(f) * parts * cols * 2;
  if (f.scales == QuantScales::kFloat) return expanded_scales(f, cols) * 4;
  return int64_t{kinds} * (cols * 2 + 4 * parts * cols);
}
constexpr int64_t group_bytes(const QuantForm& f, int cols) {
  return scale_bytes(f, cols) + blocks_of(f) * value_bytes(f, cols);
}

// The expanded form for many rows. Values that the kernels can already use are not changed.
constexpr int expanded_form(const QuantForm& f) {
  return f.part == 32 ? (f.mins ? kFormExpandedMin : kFormExpanded)
                      : (f.mins ? kFormExpandedMin16 : kFormExpanded16);
}

// Layout of activations: panels of `rows` rows. A block is int8 [rows][64] (for kInt16, the low bytes follow
// likewise), the scales f32 [rows] and, for forms with mins, the sums of the parts f32 [parts][rows].
//
// Instructions that multiply unsigned by signed bytes (Table::quant_initial_sums) read a weight q as q + 128.
// Forms with mins have no negative q and need no bias. For the others, the last field is int32 [parts][rows]
// instead: the initial value of an integer sum, which is the bits of 1.5 * 2^23 minus 128 times the sum of
// the part's activations. For kInt16 it is [2][rows], starting from zero: minus 128 times the sum of the high
// bytes, and minus 128 times the sum of both bytes.
constexpr int64_t activation_values(const QuantForm& f) {
  return f.values == QuantValues::kInt16 ? 2 * kQuantBlock : kQuantBlock;
}
constexpr int initial_sums_of(const QuantForm& f) {
  return f.values == QuantValues::kInt16 ? 2 : parts_of(f);
}
constexpr int64_t activation_bytes(const QuantForm& f, int rows, bool initial_sums) {
  return rows * (activation_values(f) + 4 +
                 (f.mins         ? 4 * parts_of(f)
                  : initial_sums ? 4 * initial_sums_of(f)
                                 : 0));
}

// Prefetch during a product: `step` bytes per block, starting at `at`.
struct Prefetch {
  const std::byte* at;
  int64_t step;
};

}  // namespace makar::kernels
