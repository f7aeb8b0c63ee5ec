// Four columns in NEON registers: building blocks for products of quantized weights.
#pragma once
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace makar::kernels::MAKAR_ISA {

constexpr int kQuantCols = 4;
constexpr bool kQuantInitialSums = false;

using Bytes = int8x16_t;
using Ints = int32x4_t;  // 4 columns
using Floats = float32x4_t;
using Row = Bytes;     // 16 activations
using Factor = Bytes;  // weights, ready for dot()

// Integer sums start at the bits of 1.5 * 2^23: read as a float, the result is exactly that number plus the
// sum, as long as the sum stays below 2^22. A conversion would cost two issue slots.
alignas(16) inline constexpr int32_t kSeed[4] = {0x4B400000, 0x4B400000, 0x4B400000, 0x4B400000};
template <Signs S>
inline Ints first_ints(const int32_t*) {
  Ints v;  // loaded each time: here a load is free, a register move is not
  asm volatile("ldr %q0, %1" : "=w"(v) : "m"(kSeed));
  return v;
}
inline Floats seed_plus(Ints x) { return vreinterpretq_f32_s32(x); }

// For sums beyond 2^22, which start at 0 and are converted.
inline Ints first_plain(const int32_t*) { return vdupq_n_s32(0); }
inline Ints times_256(Ints x) { return vshlq_n_s32(x, 8); }
inline Ints sum(Ints a, Ints b) { return vaddq_s32(a, b); }
inline Floats to_floats(Ints x) { return vcvtq_f32_s32(x); }

inline Bytes load_bytes(const std::byte* p) { return vld1q_s8(reinterpret_cast<const int8_t*>(p)); }
inline void store_bytes(std::byte* p, Bytes x) { vst1q_s8(reinterpret_cast<int8_t*>(p), x); }
inline Row load_row(const std::byte* p) { return load_bytes(p); }
inline Bytes load_codebook(const int8_t* p) { return vld1q_s8(p); }
template <Signs S>
inline Factor factor(Bytes w) {
  return w;
}
// x[c] += w[c][0..3] . a[4 L .. 4 L + 3]
template <int L, Signs S>
inline Ints dot(Ints x, Factor w, Row a) {
  return vdotq_laneq_s32(x, w, a, L);
}

// The positions of the values of vector N among 16 activations: two bits of each byte, plus the group of
// four.
template <int N>
inline Bytes positions_of(Bytes packed) {
  uint8x16_t position = vreinterpretq_u8_s8(packed);
  if constexpr (N > 0) position = vshrq_n_u8(position, 2 * N);
  if constexpr (N < 3) position = vandq_u8(position, vdupq_n_u8(3));
  constexpr uint32_t kGroups = 0x04040000u + (N % 2) * 0x08080808u;
  return vreinterpretq_s8_u8(vorrq_u8(position, vreinterpretq_u8_u32(vdupq_n_u32(kGroups))));
}
// x[c] += w[c][0..3] . a[at[c][0..3]]
inline Ints dot_at(Ints x, Bytes w, Bytes at, Row a) {
  return vdotq_s32(x, w, vqtbl1q_s8(a, vreinterpretq_u8_s8(at)));
}

// The nibbles of each byte; with _16, signed nibbles times 16.
inline Bytes low_nibbles_16(Bytes w) { return vshlq_n_s8(w, 4); }
inline Bytes high_nibbles_16(Bytes w) { return vandq_s8(w, vdupq_n_s8(static_cast<int8_t>(0xf0))); }
inline Bytes low_nibbles(Bytes w) { return vandq_s8(w, vdupq_n_s8(15)); }
inline Bytes high_nibbles(Bytes w) { return vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(w), 4)); }
// Two bits of each byte, from bit `At` up, times 16.
template <int At>
inline Bytes two_bits(Bytes w) {
  if constexpr (At < 4) w = vshlq_n_s8(w, 4 - At);
  if constexpr (At > 4) w = vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(w), At - 4));
  return vandq_s8(w, vdupq_n_s8(0x30));
}
inline Bytes look_up(Bytes codebook, Bytes index) { return vqtbl1q_s8(codebook, vreinterpretq_u8_s8(index)); }
inline Bytes upper_six(Bytes w) { return vandq_s8(w, vdupq_n_s8(static_cast<int8_t>(0xfc))); }
// The lower two bits of a, b and c as one six-bit value, highest bits first, times 4.
inline Bytes gather_six(Bytes a, Bytes b, Bytes c) {
  const uint8x16_t x = vreinterpretq_u8_s8(vshlq_n_s8(a, 6)), y = vreinterpretq_u8_s8(vshlq_n_s8(b, 6)),
                   z = vreinterpretq_u8_s8(vshlq_n_s8(c, 6));
  return vreinterpretq_s8_u8(vsriq_n_u8(vsriq_n_u8(x, y, 2), z, 4));
}

inline Floats zero_floats() { return vdupq_n_f32(0); }
inline Floats load_floats(const float* p) { return vld1q_f32(p); }
inline void store_floats(float* p, Floats x) { vst1q_f32(p, x); }
inline Floats all_floats(float x) { return vdupq_n_f32(x); }
inline Floats add(Floats a, Floats b) { return vaddq_f32(a, b); }
inline Floats mul(Floats a, Floats b) { return vmulq_f32(a, b); }
inline Floats fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
inline Floats fma(Floats a, float b, Floats c) { return vfmaq_n_f32(c, a, b); }
inline Floats load_halves(const std::byte* p) {
  return vcvt_f32_f16(vld1_f16(reinterpret_cast<const __fp16*>(p)));
}

// Eight bytes as two float vectors: 2^23 + byte, by adding the exponent bits above them.
struct TwoFloats {
  Floats low, high;
};
inline TwoFloats two_23_plus(const std::byte* p) {
  const uint8x16_t bytes = vcombine_u8(vld1_u8(reinterpret_cast<const uint8_t*>(p)), vdup_n_u8(0));
  const uint16x8_t words = vreinterpretq_u16_u8(vzip1q_u8(bytes, vdupq_n_u8(0))), top = vdupq_n_u16(0x4B00);
  return {vreinterpretq_f32_u16(vzip1q_u16(words, top)), vreinterpretq_f32_u16(vzip2q_u16(words, top))};
}
// d * byte, exact: the product has fewer than 24 bits.
inline TwoFloats scaled_bytes(const std::byte* p, Floats d) {
  const TwoFloats x = two_23_plus(p);
  const Floats base = vmulq_n_f32(d, -0x1p23f);
  return {vfmaq_f32(base, x.low, d), vfmaq_f32(base, x.high, d)};
}
// d * (byte - 128).
inline TwoFloats scaled_biased_bytes(const std::byte* p, Floats d) {
  const TwoFloats x = two_23_plus(p);
  const Floats bias = vdupq_n_f32(0x1p23f + 128.0f);
  return {vmulq_f32(vsubq_f32(x.low, bias), d), vmulq_f32(vsubq_f32(x.high, bias), d)};
}

}  // namespace makar::kernels::MAKAR_ISA
