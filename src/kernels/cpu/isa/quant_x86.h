// Four columns in AVX2 registers. Bytes are widened to 16 bits and multiplied in pairs, so that no product
// saturates; the pairs are added when the part is done.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace makar::kernels::MAKAR_ISA {

using Bytes = __m128i;
using Ints = __m256i;  // two partial sums per column
using Floats = __m128;

inline Ints zero_ints() { return _mm256_setzero_si256(); }
inline __m128i columns(Ints x) {
  const __m256i pairs = _mm256_hadd_epi32(x, x);  // columns 0 1 0 1 | 2 3 2 3
  return _mm_unpacklo_epi64(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
}
inline Floats to_floats(Ints x) { return _mm_cvtepi32_ps(columns(x)); }
// 1.5 * 2^23 + x.
inline Floats on_seed(Ints x) { return _mm_cvtepi32_ps(_mm_add_epi32(columns(x), _mm_set1_epi32(3 << 22))); }

inline Ints plain_zero_ints() { return zero_ints(); }
inline Ints times_256(Ints x) { return _mm256_slli_epi32(x, 8); }
inline Ints sum(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
inline Floats rounded(Ints x) { return to_floats(x); }

inline Bytes load_bytes(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
inline void store_bytes(std::byte* p, Bytes x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), x); }
template <int L>
inline Ints dot(Ints x, Bytes w, Bytes a) {
  const __m128i lane = _mm_shuffle_epi32(a, L * 0x55);
  return _mm256_add_epi32(x, _mm256_madd_epi16(_mm256_cvtepi8_epi16(w), _mm256_cvtepi8_epi16(lane)));
}

inline Bytes both(Bytes w, int mask) { return _mm_and_si128(w, _mm_set1_epi8(static_cast<char>(mask))); }
inline Bytes low_nibbles_16(Bytes w) { return both(_mm_slli_epi16(w, 4), 0xf0); }
inline Bytes high_nibbles_16(Bytes w) { return both(w, 0xf0); }
inline Bytes low_nibbles(Bytes w) { return both(w, 15); }
inline Bytes high_nibbles(Bytes w) { return both(_mm_srli_epi16(w, 4), 15); }
template <int At>
inline Bytes two_bits(Bytes w) {
  if constexpr (At < 4)
    return both(_mm_slli_epi16(w, 4 - At), 0x30);
  else
    return both(_mm_srli_epi16(w, At - 4), 0x30);
}
inline Bytes look_up(Bytes book, Bytes index) { return _mm_shuffle_epi8(book, index); }
inline Bytes upper_six(Bytes w) { return both(w, 0xfc); }
inline Bytes gather_six(Bytes a, Bytes b, Bytes c) {
  return _mm_or_si128(both(_mm_slli_epi16(a, 6), 0xc0),
                      _mm_or_si128(both(_mm_slli_epi16(b, 4), 0x30), both(_mm_slli_epi16(c, 2), 0x0c)));
}

inline Floats zero_floats() { return _mm_setzero_ps(); }
inline Floats load_floats(const float* p) { return _mm_loadu_ps(p); }
inline void store_floats(float* p, Floats x) { _mm_storeu_ps(p, x); }
inline Floats all_floats(float x) { return _mm_set1_ps(x); }
inline Floats add(Floats a, Floats b) { return _mm_add_ps(a, b); }
inline Floats mul(Floats a, Floats b) { return _mm_mul_ps(a, b); }
inline Floats fma(Floats a, Floats b, Floats c) { return _mm_fmadd_ps(a, b, c); }
inline Floats fma(Floats a, float b, Floats c) { return _mm_fmadd_ps(a, _mm_set1_ps(b), c); }
inline Floats load_halves(const std::byte* p) {
  return _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}

struct TwoFloats {
  Floats low, high;
};
inline __m256 eight_bytes(const std::byte* p, int bias) {
  const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_cvtepi32_ps(_mm256_add_epi32(wide, _mm256_set1_epi32(bias)));
}
// The same roundings as the other instruction sets, including infinities and signs of zero.
inline TwoFloats scaled_bytes(const std::byte* p, Floats d) {
  const __m256 x = eight_bytes(p, 1 << 23);
  const Floats base = _mm_mul_ps(d, _mm_set1_ps(-0x1p23f));
  return {_mm_fmadd_ps(_mm256_castps256_ps128(x), d, base),
          _mm_fmadd_ps(_mm256_extractf128_ps(x, 1), d, base)};
}
inline TwoFloats scaled_biased_bytes(const std::byte* p, Floats d) {
  const __m256 x = eight_bytes(p, -128);
  return {_mm_mul_ps(_mm256_castps256_ps128(x), d), _mm_mul_ps(_mm256_extractf128_ps(x, 1), d)};
}

}  // namespace makar::kernels::MAKAR_ISA
