// Stand-ins for the instructions of AVX-VNNI, AVX-512 VNNI and AMX, so that any processor with AVX2 or
// AVX-512 runs the kernels of these sets in tests. cmake/isa.cmake compiles the kernels a second time with
// this file included first. Semantics: "Operation" of each instruction in volume 2 of Intel's Software
// Developer's Manual.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace makar::kernels::MAKAR_ISA::stand_ins {

// VPDPBUSD: x += the four products of unsigned bytes u by signed bytes s in each lane of 32 bits, without
// saturation. Bytes of even and odd index are widened to 16 bits; products of pairs then fit 32 bits exactly.
inline __m256i dpbusd_256(__m256i x, __m256i u, __m256i s) {
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(255)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
  return _mm256_add_epi32(x, _mm256_add_epi32(even, odd));
}

#if defined(__AVX512F__)
inline __m512i dpbusd_512(__m512i x, __m512i u, __m512i s) {
  const __m512i even = _mm512_madd_epi16(_mm512_and_si512(u, _mm512_set1_epi16(255)),
                                         _mm512_srai_epi16(_mm512_slli_epi16(s, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(u, 8), _mm512_srai_epi16(s, 8));
  return _mm512_add_epi32(x, _mm512_add_epi32(even, odd));
}

// --- AMX: eight tiles of up to 16 rows of up to 64 bytes ---
struct Tiles {
  bool configured = false;
  int rows[8] = {}, row_bytes[8] = {};
  alignas(64) uint8_t data[8][16][64] = {};
};
inline thread_local Tiles tiles;

// The processor raises an exception where `allowed` is false.
inline void must(bool allowed, const char* what) {
  if (allowed) return;
  std::fprintf(stderr, "AMX stand-in: %s\n", what);
  std::abort();
}
inline void must_be_shaped(int t) {
  must(tiles.configured && tiles.rows[t] > 0 && tiles.row_bytes[t] > 0, "a tile without a shape");
}

inline void load_tile_config(const void* from) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  must(bytes[0] == 1, "palette");
  tiles = Tiles();
  tiles.configured = true;
  for (int t = 0; t < 8; ++t) {
    uint16_t row_bytes;
    std::memcpy(&row_bytes, bytes + 16 + 2 * t, 2);
    tiles.row_bytes[t] = row_bytes, tiles.rows[t] = bytes[48 + t];
    must(row_bytes <= 64 && bytes[48 + t] <= 16, "a shape beyond 16 rows of 64 bytes");
    must((row_bytes == 0) == (bytes[48 + t] == 0), "a tile with rows or bytes only");
  }
}
inline void release_tiles() { tiles = Tiles(); }
inline void zero_tile(int t) {
  must_be_shaped(t);
  std::memset(tiles.data[t], 0, sizeof tiles.data[t]);
}
inline void load_tile(int t, const void* from, int64_t stride) {
  zero_tile(t);
  for (int i = 0; i < tiles.rows[t]; ++i)
    std::memcpy(tiles.data[t][i], static_cast<const uint8_t*>(from) + i * stride,
                static_cast<size_t>(tiles.row_bytes[t]));
}
inline void store_tile(int t, void* to, int64_t stride) {
  must_be_shaped(t);
  for (int i = 0; i < tiles.rows[t]; ++i)
    std::memcpy(static_cast<uint8_t*>(to) + i * stride, tiles.data[t][i],
                static_cast<size_t>(tiles.row_bytes[t]));
}

inline void must_multiply(int c, int a, int b) {
  must_be_shaped(c), must_be_shaped(a), must_be_shaped(b);
  must(c != a && c != b && a != b, "a product of a tile with itself");
  must(tiles.row_bytes[c] == tiles.row_bytes[b] && tiles.rows[c] == tiles.rows[a] &&
           tiles.row_bytes[a] / 4 == tiles.rows[b] && tiles.row_bytes[a] % 4 == 0 &&
           tiles.row_bytes[c] % 4 == 0,
       "a product of tiles whose shapes do not agree");
}
// The four bytes of row i of tile t at position p, in all lanes.
inline __m512i four_bytes(int t, int i, int p) {
  int32_t x;
  std::memcpy(&x, tiles.data[t][i] + 4 * p, 4);
  return _mm512_set1_epi32(x);
}

// TDPBSSD: 32-bit sums in c += signed bytes of a by signed bytes of b.
inline void dpbssd(int c, int a, int b) {
  must_multiply(c, a, b);
  const auto low = [](__m512i x) { return _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8); };
  const auto high = [](__m512i x) { return _mm512_srai_epi16(x, 8); };
  for (int i = 0; i < tiles.rows[c]; ++i) {
    __m512i sum = _mm512_load_si512(tiles.data[c][i]);
    for (int p = 0; p < tiles.rows[b]; ++p) {
      const __m512i x = four_bytes(a, i, p), y = _mm512_load_si512(tiles.data[b][p]);
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(low(x), low(y)));
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(high(x), high(y)));
    }
    _mm512_store_si512(tiles.data[c][i], sum);
  }
}

// The sums of TDPBF16PS: products of even and of odd index each in sequence from zero with fused
// multiply-add; c then grows by even + odd.
[[gnu::noinline]] inline void add_bf16_products(int c, int a, int b) {
  const auto even_of = [](__m512i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); };
  const auto odd_of = [](__m512i x) {
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  };
  for (int i = 0; i < tiles.rows[c]; ++i) {
    __m512 even = _mm512_setzero_ps(), odd = even;
    for (int p = 0; p < tiles.rows[b]; ++p) {
      const __m512i x = four_bytes(a, i, p), y = _mm512_load_si512(tiles.data[b][p]);
      even = _mm512_fmadd_ps(even_of(x), even_of(y), even);
      odd = _mm512_fmadd_ps(odd_of(x), odd_of(y), odd);
    }
    const __m512 sum = _mm512_load_ps(tiles.data[c][i]);
    _mm512_store_ps(tiles.data[c][i], _mm512_add_ps(sum, _mm512_add_ps(even, odd)));
  }
}
// TDPBF16PS rounds to nearest even and reads and writes subnormal numbers as zero, whatever MXCSR says.
inline void dpbf16ps(int c, int a, int b) {
  constexpr unsigned kDefault = 0x1f80, kZeroInputs = 1u << 6, kZeroResults = 1u << 15;
  must_multiply(c, a, b);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(kDefault | kZeroInputs | kZeroResults);
  add_bf16_products(c, a, b);
  _mm_setcsr(before);
}
#endif

}  // namespace makar::kernels::MAKAR_ISA::stand_ins

#undef _mm256_dpbusd_avx_epi32
#undef _mm512_dpbusd_epi32
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_dpbf16ps
#define _mm256_dpbusd_avx_epi32 stand_ins::dpbusd_256
#define _mm512_dpbusd_epi32 stand_ins::dpbusd_512
#define _tile_loadconfig stand_ins::load_tile_config
#define _tile_release stand_ins::release_tiles
#define _tile_zero stand_ins::zero_tile
#define _tile_loadd stand_ins::load_tile
#define _tile_stored stand_ins::store_tile
#define _tile_dpbssd stand_ins::dpbssd
#define _tile_dpbf16ps stand_ins::dpbf16ps
