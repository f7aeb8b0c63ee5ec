// Reads the panels of quantized weights for matrix products: values in runs of 16 along k, scales, initial
// sums.
#pragma once
#include "kernels/cpu/isa/quant_lanes.h"
#include "kernels/cpu/isa/unrolled.h"
#include "kernels/cpu/quant_form.h"

namespace makar::kernels::MAKAR_ISA {

constexpr int kSteps = 4;                       // per run
constexpr int64_t kStepBytes = kQuantCols * 4;  // as int8

// The layouts of this instruction set.
constexpr int64_t value_bytes(const QuantForm& f) { return value_bytes(f, kQuantCols); }
constexpr int64_t expanded_scales(const QuantForm& f) { return expanded_scales(f, kQuantCols); }
constexpr int64_t scale_bytes(const QuantForm& f) { return scale_bytes(f, kQuantCols); }
constexpr int64_t group_bytes(const QuantForm& f) { return group_bytes(f, kQuantCols); }
constexpr int64_t activation_bytes(const QuantForm& f, int rows) {
  return activation_bytes(f, rows, kQuantInitialSums);
}

// The four steps of run `run` (0..3) of a block.
template <QuantValues V>
inline void read_run(const std::byte* block, int run, Bytes codebook, Bytes (&out)[kSteps]) {
  if constexpr (V == QuantValues::kInt8) {
    for (int s = 0; s < kSteps; ++s) out[s] = load_bytes(block + (run * kSteps + s) * kStepBytes);
  } else if constexpr (V == QuantValues::kInt6) {
    const std::byte* at = block + run * 3 * kStepBytes;
    const Bytes a = load_bytes(at), b = load_bytes(at + kStepBytes), c = load_bytes(at + 2 * kStepBytes);
    out[0] = upper_six(a), out[1] = upper_six(b), out[2] = upper_six(c), out[3] = gather_six(a, b, c);
  } else if constexpr (V == QuantValues::kSparse8) {
    alignas(64) std::byte dense[kSteps][kStepBytes] = {};
    const std::byte *values = block + run * 2 * kStepBytes, *positions = block + (8 + run / 2) * kStepBytes;
    for (int half = 0; half < 2; ++half)
      for (int b = 0; b < kStepBytes; ++b) {
        const int position = std::to_integer<int>(positions[b]) >> ((run % 2 * 2 + half) * 2) & 3;
        dense[2 * half + b % 4 / 2][b / 4 * 4 + position] = values[half * kStepBytes + b];
      }
    for (int s = 0; s < kSteps; ++s) out[s] = load_bytes(dense[s]);
  } else if constexpr (V == QuantValues::kUnsigned2) {
    const Bytes w = load_bytes(block + run * kStepBytes);
    out[0] = two_bits<0>(w), out[1] = two_bits<2>(w), out[2] = two_bits<4>(w), out[3] = two_bits<6>(w);
  } else {
    for (int s = 0; s < kSteps; ++s) {
      const Bytes w = load_bytes(block + (run / 2 * kSteps + s) * kStepBytes);
      const bool low = run % 2 == 0;
      if constexpr (V == QuantValues::kSigned4)
        out[s] = low ? low_nibbles_16(w) : high_nibbles_16(w);
      else if constexpr (V == QuantValues::kUnsigned4)
        out[s] = low ? low_nibbles(w) : high_nibbles(w);
      else
        out[s] = look_up(codebook, low ? low_nibbles(w) : high_nibbles(w));
    }
  }
}

// The scales of a group; read() decodes the scales of one block.
template <int Form>
struct Scales {
  static constexpr QuantForm F = kQuantForms[Form];
  static constexpr int P = parts_of(F);
  const std::byte* at;
  Floats d, min_d;

  explicit Scales(const std::byte* group) : at(group) {
    if constexpr (F.scales == QuantScales::kSuper) {
      d = load_halves(group);
      if constexpr (F.mins) min_d = load_halves(group + kQuantCols * 2);
    }
  }
  void read(int block, Floats (&scale)[P], Floats (&min)[P]) const {
    for (int p = 0; p < P; ++p) {
      if constexpr (F.scales == QuantScales::kHalf) {
        scale[p] = load_halves(at + (block * P + p) * kQuantCols * 2);
        if constexpr (F.mins) min[p] = load_halves(at + (P + p) * kQuantCols * 2);
      } else if constexpr (F.scales == QuantScales::kFloat) {
        scale[p] = load_floats(reinterpret_cast<const float*>(at) + p * kQuantCols);
        if constexpr (F.mins) min[p] = load_floats(reinterpret_cast<const float*>(at) + (P + p) * kQuantCols);
      } else if (p % 2 == 0) {
        const std::byte* bytes = at + ((F.mins ? 4 : 2) + block * P + p) * kQuantCols;
        const TwoFloats two = F.mins ? scaled_bytes(bytes, d) : scaled_biased_bytes(bytes, d);
        scale[p] = two.low, scale[p + 1] = two.high;
        if constexpr (F.mins) {
          const TwoFloats mins = scaled_bytes(bytes + 4 * P * kQuantCols, min_d);
          min[p] = mins.low, min[p + 1] = mins.high;
        }
      }
    }
  }
};

// The base in the formula of quant.cpp: -1.5 * 2^23 times the sum of the scales.
template <int P>
inline Floats seed_base(const Floats (&scale)[P]) {
  Floats sum = scale[0];
  for (int p = 1; p < P; ++p) sum = add(sum, scale[p]);
  return mul(sum, all_floats(-0x1.8p23f));
}

// Stores the scales of a block as floats: the scales of all parts, their mins, then the base.
template <int Form>
inline void store_scales(const Scales<Form>& scales, int block, float* to) {
  constexpr QuantForm F = kQuantForms[Form];
  constexpr int P = parts_of(F);
  Floats scale[P], min[P];
  scales.read(block, scale, min);
  for (int p = 0; p < P; ++p) {
    store_floats(to + p * kQuantCols, scale[p]);
    if constexpr (F.mins) store_floats(to + (P + p) * kQuantCols, min[p]);
  }
  store_floats(to + (F.mins ? 2 : 1) * P * kQuantCols, seed_base(scale));
}

}  // namespace makar::kernels::MAKAR_ISA
