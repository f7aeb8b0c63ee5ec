// Eight columns in AVX2 registers, one 32-bit lane per column.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace makar::kernels::MAKAR_ISA {

constexpr int kQuantCols = 8;

using Bytes = __m256i;
using Ints = __m256i;
using Floats = __m256;

// Four activations are broadcast from memory.
struct Row {
  const std::byte* at;
};
inline Row load_row(const std::byte* p) { return {p}; }
template <int L>
inline __m256i four_of(Row a) {
  return _mm256_castps_si256(_mm256_broadcast_ss(reinterpret_cast<const float*>(a.at) + L));
}

inline Ints all_ints(int32_t x) { return _mm256_set1_epi32(x); }
inline Floats seed_plus(Ints x) { return _mm256_castsi256_ps(x); }
inline Ints times_256(Ints x) { return _mm256_slli_epi32(x, 8); }
inline Ints sum(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
inline Floats to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }

#if defined(MAKAR_ISA_avxvnni)
// Unsigned by signed bytes: weights get a bias of 128, which the initial sums cancel (quant_form.h).
constexpr bool kQuantInitialSums = true;
using Factor = Bytes;
template <Signs S>
inline Factor factor(Bytes w) {
  return S == Signs::kUnsigned ? w : _mm256_xor_si256(w, _mm256_set1_epi8(-128));
}
template <int L, Signs S>
inline Ints dot(Ints x, Factor w, Row a) {
  return _mm256_dpbusd_avx_epi32(x, w, four_of<L>(a));
}
#else
// |w| times a with the sign of w, or the other way round: two products of at most 128 * 127 fit 16 bits.
constexpr bool kQuantInitialSums = false;
struct Factor {
  Bytes magnitude, w;
};
template <Signs S>
inline Factor factor(Bytes w) {
  return {S == Signs::kSigned ? _mm256_abs_epi8(w) : w, w};
}
template <int L, Signs S>
inline Ints dot(Ints x, const Factor& w, Row a) {
  const __m256i four = four_of<L>(a);
  __m256i pairs;
  if constexpr (S == Signs::kLowRows)
    pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(four), _mm256_sign_epi8(w.w, four));
  else
    pairs = _mm256_maddubs_epi16(w.magnitude, S == Signs::kSigned ? _mm256_sign_epi8(four, w.w) : four);
  return _mm256_add_epi32(x, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif

inline Bytes load_bytes(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline void store_bytes(std::byte* p, Bytes x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }
inline Bytes load_codebook(const int8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

inline Bytes masked(Bytes w, int mask) {
  return _mm256_and_si256(w, _mm256_set1_epi8(static_cast<char>(mask)));
}
// The positions of the values of vector N among 16 activations: two bits of each byte, plus the group of
// four.
template <int N>
inline Bytes positions_of(Bytes packed) {
  constexpr int kGroups = 0x04040000 + (N % 2) * 0x08080808;
  return _mm256_or_si256(masked(_mm256_srli_epi16(packed, 2 * N), 3), _mm256_set1_epi32(kGroups));
}
// x[c] += w[c][0..3] . a[at[c][0..3]]
inline Ints dot_at(Ints x, Bytes w, Bytes at, Row a) {
  const __m256i row = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a.at)));
  const __m256i four = _mm256_sign_epi8(_mm256_shuffle_epi8(row, at), w);
#if defined(MAKAR_ISA_avxvnni)
  return _mm256_dpbusd_avx_epi32(x, _mm256_abs_epi8(w), four);
#else
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), four);
  return _mm256_add_epi32(x, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}

inline Bytes low_nibbles_16(Bytes w) { return masked(_mm256_slli_epi16(w, 4), 0xf0); }
inline Bytes high_nibbles_16(Bytes w) { return masked(w, 0xf0); }
inline Bytes low_nibbles(Bytes w) { return masked(w, 15); }
inline Bytes high_nibbles(Bytes w) { return masked(_mm256_srli_epi16(w, 4), 15); }
template <int At>
inline Bytes two_bits(Bytes w) {
  if constexpr (At < 4)
    return masked(_mm256_slli_epi16(w, 4 - At), 0x30);
  else
    return masked(_mm256_srli_epi16(w, At - 4), 0x30);
}
inline Bytes look_up(Bytes codebook, Bytes index) { return _mm256_shuffle_epi8(codebook, index); }
inline Bytes upper_six(Bytes w) { return masked(w, 0xfc); }
inline Bytes gather_six(Bytes a, Bytes b, Bytes c) {
  return _mm256_or_si256(
      masked(_mm256_slli_epi16(a, 6), 0xc0),
      _mm256_or_si256(masked(_mm256_slli_epi16(b, 4), 0x30), masked(_mm256_slli_epi16(c, 2), 0x0c)));
}

inline Floats zero_floats() { return _mm256_setzero_ps(); }
inline Floats load_floats(const float* p) { return _mm256_loadu_ps(p); }
inline void store_floats(float* p, Floats x) { _mm256_storeu_ps(p, x); }
inline Floats all_floats(float x) { return _mm256_set1_ps(x); }
inline Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
inline Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats fma(Floats a, float b, Floats c) { return _mm256_fmadd_ps(a, _mm256_set1_ps(b), c); }
inline Floats load_halves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// The bytes of all columns, plus `bias`.
inline Floats column_bytes(const std::byte* p, int bias) {
  const __m256i ints = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_cvtepi32_ps(_mm256_add_epi32(ints, _mm256_set1_epi32(bias)));
}

}  // namespace makar::kernels::MAKAR_ISA
#include "kernels/cpu/isa/quant_x86.h"
