// Sixteen columns in AVX-512 registers, one 32-bit lane per column, with VNNI: unsigned by signed bytes.
// Weights get a bias of 128, which the initial sums cancel (quant_form.h).
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace makar::kernels::MAKAR_ISA {

constexpr int kQuantCols = 16;
constexpr bool kQuantInitialSums = true;

using Bytes = __m512i;
using Ints = __m512i;
using Floats = __m512;
using Factor = Bytes;

// Four activations are broadcast from memory.
struct Row {
  const std::byte* at;
};
inline Row load_row(const std::byte* p) { return {p}; }

inline Ints all_ints(int32_t x) { return _mm512_set1_epi32(x); }
inline Floats seed_plus(Ints x) { return _mm512_castsi512_ps(x); }
inline Ints times_256(Ints x) { return _mm512_slli_epi32(x, 8); }
inline Ints sum(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline Floats to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }

template <Signs S>
inline Factor factor(Bytes w) {
  return S == Signs::kUnsigned ? w : _mm512_xor_si512(w, _mm512_set1_epi8(-128));
}
template <int L, Signs S>
inline Ints dot(Ints x, Factor w, Row a) {
  int32_t four;
  __builtin_memcpy(&four, a.at + 4 * L, 4);
  return _mm512_dpbusd_epi32(x, w, _mm512_set1_epi32(four));
}

inline Bytes load_bytes(const std::byte* p) { return _mm512_loadu_si512(p); }
inline void store_bytes(std::byte* p, Bytes x) { _mm512_storeu_si512(p, x); }
inline Bytes load_codebook(const int8_t* p) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

inline Bytes masked(Bytes w, int mask) {
  return _mm512_and_si512(w, _mm512_set1_epi8(static_cast<char>(mask)));
}
// The positions of the values of vector N among 16 activations: two bits of each byte, plus the group of
// four.
template <int N>
inline Bytes positions_of(Bytes packed) {
  constexpr int kGroups = 0x04040000 + (N % 2) * 0x08080808;
  return _mm512_or_si512(masked(_mm512_srli_epi16(packed, 2 * N), 3), _mm512_set1_epi32(kGroups));
}
// x[c] += w[c][0..3] . a[at[c][0..3]]
inline Ints dot_at(Ints x, Bytes w, Bytes at, Row a) {
  const __m512i row = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a.at)));
  const __m512i four = _mm512_shuffle_epi8(row, at);
  const __m512i signed_four =
      _mm512_mask_sub_epi8(four, _mm512_movepi8_mask(w), _mm512_setzero_si512(), four);
  return _mm512_dpbusd_epi32(x, _mm512_abs_epi8(w), signed_four);
}

inline Bytes low_nibbles_16(Bytes w) { return masked(_mm512_slli_epi16(w, 4), 0xf0); }
inline Bytes high_nibbles_16(Bytes w) { return masked(w, 0xf0); }
inline Bytes low_nibbles(Bytes w) { return masked(w, 15); }
inline Bytes high_nibbles(Bytes w) { return masked(_mm512_srli_epi16(w, 4), 15); }
template <int At>
inline Bytes two_bits(Bytes w) {
  if constexpr (At < 4)
    return masked(_mm512_slli_epi16(w, 4 - At), 0x30);
  else
    return masked(_mm512_srli_epi16(w, At - 4), 0x30);
}
inline Bytes look_up(Bytes codebook, Bytes index) { return _mm512_shuffle_epi8(codebook, index); }
inline Bytes upper_six(Bytes w) { return masked(w, 0xfc); }
inline Bytes gather_six(Bytes a, Bytes b, Bytes c) {
  return _mm512_or_si512(
      masked(_mm512_slli_epi16(a, 6), 0xc0),
      _mm512_or_si512(masked(_mm512_slli_epi16(b, 4), 0x30), masked(_mm512_slli_epi16(c, 2), 0x0c)));
}

inline Floats zero_floats() { return _mm512_setzero_ps(); }
inline Floats load_floats(const float* p) { return _mm512_loadu_ps(p); }
inline void store_floats(float* p, Floats x) { _mm512_storeu_ps(p, x); }
inline Floats all_floats(float x) { return _mm512_set1_ps(x); }
inline Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
inline Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats fma(Floats a, float b, Floats c) { return _mm512_fmadd_ps(a, _mm512_set1_ps(b), c); }
inline Floats load_halves(const std::byte* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
// The bytes of all columns, plus `bias`.
inline Floats column_bytes(const std::byte* p, int bias) {
  const __m512i ints = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm512_cvtepi32_ps(_mm512_add_epi32(ints, _mm512_set1_epi32(bias)));
}

}  // namespace makar::kernels::MAKAR_ISA
#include "kernels/cpu/isa/quant_x86.h"
