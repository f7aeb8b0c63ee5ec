// Products of bf16 in tiles of 16 lines by 32 k, in the order of the AMX instruction, bit for bit: within a
// tile, the products of even k and those of odd k are added in sequence from zero, with fused
// multiply-add; then even + odd is added to the sum of the tiles before. As in AMX, values below 2^-126 are
// read as zero, and sums below it become zero.
#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/cpu/isa/gemm_tiles.h"
#include "kernels/cpu/isa/math.h"
#include "kernels/cpu/isa/sections.h"
#include "kernels/cpu/isa/unrolled.h"
#include "kernels/cpu/tile_bf16.h"
#if defined(MAKAR_ISA_avx512)
#include "kernels/cpu/isa/pack_avx512.h"
#endif

namespace makar::kernels::MAKAR_ISA {
namespace {

// While it exists, arithmetic of this thread flushes subnormal operands and results to zero.
class FlushSubnormals {
 public:
#if defined(__x86_64__)
  FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kZeroInputs | kZeroResults); }
  ~FlushSubnormals() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kZeroInputs = 1u << 6, kZeroResults = 1u << 15;
  unsigned before_;
#elif defined(__aarch64__)
  FlushSubnormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" : : "r"(before_ | kFlushToZero) : "memory");
  }
  ~FlushSubnormals() { asm volatile("msr fpcr, %0" : : "r"(before_) : "memory"); }

 private:
  static constexpr uint64_t kFlushToZero = uint64_t{1} << 24;
  uint64_t before_;
#endif
};

uint32_t pair(const uint16_t* x, int64_t k_stride) { return x[0] | static_cast<uint32_t>(x[k_stride]) << 16; }

// Writes pairs[i][j] to out[j][i].
void transpose_pairs(const std::byte* pairs, int64_t stride, uint32_t* out) {
#if defined(MAKAR_ISA_avx512)
  __m512 rows[16];
  MAKAR_UNROLLED
  for (int i = 0; i < 16; ++i) rows[i] = _mm512_loadu_ps(pairs + i * stride);
  transpose_16(rows, [&](int j, __m512 column) { _mm512_storeu_ps(out + j * 16, column); });
#else
  for (int i = 0; i < kTileLines; ++i)
    for (int j = 0; j < kTilePairs; ++j) std::memcpy(out + j * 16 + i, pairs + i * stride + j * 4, 4);
#endif
}

// A whole tile of lines that are contiguous along k.
void pack_along_k(const uint16_t* x, int64_t row_stride, bool pairs_first, uint32_t* out) {
  const auto* from = reinterpret_cast<const std::byte*>(x);
  if (pairs_first) return transpose_pairs(from, row_stride * 2, out);
  for (int i = 0; i < kTileLines; ++i) std::memcpy(out + i * kTilePairs, from + i * row_stride * 2, 64);
}
// A whole tile of lines that are adjacent at each k.
void pack_across_k(const uint16_t* x, int64_t k_stride, bool pairs_first, uint32_t* out) {
  uint32_t by_pair[kTilePairs][kTileLines];
  uint32_t* to = pairs_first ? out : by_pair[0];
  for (int p = 0; p < kTilePairs; ++p) {
    const uint16_t *even = x + 2 * p * k_stride, *odd = even + k_stride;
    for (int i = 0; i < kTileLines; ++i)
      to[p * kTileLines + i] = even[i] | static_cast<uint32_t>(odd[i]) << 16;
  }
  if (!pairs_first) transpose_pairs(reinterpret_cast<const std::byte*>(by_pair), sizeof(by_pair[0]), out);
}

void pack_tiles(const uint16_t* x, int64_t row_stride, int64_t k_stride, int lines, int64_t k,
                bool pairs_first, void* tiles) {
  auto* out = static_cast<uint32_t*>(tiles);
  for (int64_t p = 0; p < k; p += kTileK, out += kTileLines * kTilePairs) {
    const uint16_t* from = x + p * k_stride;
    if (lines == kTileLines && k - p >= kTileK && k_stride == 1) {
      pack_along_k(from, row_stride, pairs_first, out);
    } else if (lines == kTileLines && k - p >= kTileK && row_stride == 1) {
      pack_across_k(from, k_stride, pairs_first, out);
    } else {
      std::memset(out, 0, kTileBytes);
      for (int i = 0; i < lines; ++i)
        for (int q = 0; q < kTilePairs && p + 2 * q < k; ++q) {
          const uint16_t* at = from + i * row_stride + 2 * q * k_stride;
          out[pairs_first ? q * kTileLines + i : i * kTilePairs + q] =
              p + 2 * q + 1 < k ? pair(at, k_stride) : *at;
        }
    }
  }
}

// R rows of a tile of A by a tile of B.
template <int R>
void add_rows(const uint32_t* a, const uint32_t* b, float* c, int64_t ldc) {
  float even[R][kTileLines] = {}, odd[R][kTileLines] = {};
  for (int p = 0; p < kTilePairs; ++p)
    for (int i = 0; i < R; ++i) {
      const uint32_t x = a[i * kTilePairs + p];
      const float x0 = std::bit_cast<float>(x << 16), x1 = std::bit_cast<float>(x & 0xffff0000u);
      for (int j = 0; j < kTileLines; ++j) {
        const uint32_t y = b[p * kTileLines + j];
        even[i][j] = madd(x0, std::bit_cast<float>(y << 16), even[i][j]);
        odd[i][j] = madd(x1, std::bit_cast<float>(y & 0xffff0000u), odd[i][j]);
      }
    }
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < kTileLines; ++j) c[i * ldc + j] += even[i][j] + odd[i][j];
}

void multiply_tiles(const TilesBf16& q) {
  const FlushSubnormals flush;
  constexpr int kRows = 4;
  for (int64_t r = 0; r < q.row_tiles; ++r)
    for (int s = 0; s < q.col_tiles; ++s) {
      float* c = q.c + r * kTileLines * kTileBlock + s * kTileLines;
      for (int i = 0; i < kTileLines && !q.accumulate; ++i) std::fill_n(c + i * kTileBlock, kTileLines, 0.0f);
      for (int64_t t = 0; t < q.tiles; ++t) {
        const auto* a = reinterpret_cast<const uint32_t*>(q.a + r * q.a_step + t * kTileBytes);
        const auto* b = reinterpret_cast<const uint32_t*>(q.b + s * q.b_step + t * kTileBytes);
        for (int i = 0; i < kTileLines; i += kRows)
          add_rows<kRows>(a + i * kTilePairs, b, c + i * kTileBlock, kTileBlock);
      }
    }
}

// R rows of A, lda apart, by one panel [k][kNr] of packed weights.
template <int R>
void row_sums(int64_t k, const uint16_t* a, int64_t lda, const uint16_t* panel, float* sums) {
  const auto element = [&](int i, int64_t p) {
    return std::bit_cast<float>(static_cast<uint32_t>(a[i * lda + p]) << 16);
  };
#if defined(MAKAR_ISA_avx2) || defined(MAKAR_ISA_avx512)
  Vec sum[R][kVecs];
  MAKAR_UNROLLED
  for (int i = 0; i < R * kVecs; ++i) sum[i / kVecs][i % kVecs] = zero();
  for (int64_t t = 0; t < k; t += kTileK) {
    Vec parts[2][R][kVecs];
    MAKAR_UNROLLED
    for (int i = 0; i < 2 * R * kVecs; ++i) parts[i % 2][i / 2 / kVecs][i / 2 % kVecs] = zero();
    const int64_t end = std::min<int64_t>(t + kTileK, k);
    for (int64_t p = t; p < end; p += 2) {
      MAKAR_UNROLLED
      for (int odd = 0; odd < 2; ++odd) {
        if (p + odd >= end) break;
        MAKAR_UNROLLED
        for (int i = 0; i < R; ++i) {
          const float x = element(i, p + odd);
          MAKAR_UNROLLED
          for (int j = 0; j < kVecs; ++j) {
            const Vec w = load(reinterpret_cast<const BF16*>(panel) + (p + odd) * kNr + j * kVecLanes);
            parts[odd][i][j] = fma(broadcast(&x), w, parts[odd][i][j]);
          }
        }
      }
    }
    MAKAR_UNROLLED
    for (int i = 0; i < R; ++i) {
      MAKAR_UNROLLED
      for (int j = 0; j < kVecs; ++j) sum[i][j] = sum[i][j] + (parts[0][i][j] + parts[1][i][j]);
    }
  }
  MAKAR_UNROLLED
  for (int i = 0; i < R; ++i) {
    MAKAR_UNROLLED
    for (int j = 0; j < kVecs; ++j) store(sums + i * kNr + j * kVecLanes, sum[i][j]);
  }
#else
  std::fill_n(sums, R * kNr, 0.0f);
  for (int64_t t = 0; t < k; t += kTileK) {
    float parts[2][R][kNr] = {};
    for (int64_t p = t; p < std::min<int64_t>(t + kTileK, k); ++p)
      for (int i = 0; i < R; ++i) {
        const float x = element(i, p);
        for (int j = 0; j < kNr; ++j) {
          const float w = std::bit_cast<float>(static_cast<uint32_t>(panel[p * kNr + j]) << 16);
          parts[p % 2][i][j] = madd(x, w, parts[p % 2][i][j]);
        }
      }
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < kNr; ++j) sums[i * kNr + j] += parts[0][i][j] + parts[1][i][j];
  }
#endif
}

void rows_bf16(int rows, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* panel, float* sums) {
  static_assert(kMaxRowsBf16 == 4);
  using Rows = void (*)(int64_t, const uint16_t*, int64_t, const uint16_t*, float*);
  constexpr Rows kRows[] = {row_sums<1>, row_sums<2>, row_sums<3>, row_sums<4>};
  const FlushSubnormals flush;
  kRows[rows - 1](k, a, lda, panel, sums);
}

// to_bf16() without a branch, so that loops over it are vectorised.
inline uint16_t rounded(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  const uint32_t nearest = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : nearest);
}
inline float widened(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

// Rows have 32 values or many more: loops without interleaving, whose vectors divide 32.
#if defined(__clang__)
#define MAKAR_SIMPLE_LOOP _Pragma("clang loop vectorize_width(16) interleave_count(1)")
#else
#define MAKAR_SIMPLE_LOOP
#endif

void store_row(const float* __restrict sums, const float* __restrict bias, bool accumulate, int64_t n,
               float* __restrict c) {
  if (accumulate) {
    MAKAR_SIMPLE_LOOP
    for (int64_t j = 0; j < n; ++j) c[j] += sums[j];
  } else if (bias) {
    MAKAR_SIMPLE_LOOP
    for (int64_t j = 0; j < n; ++j) c[j] = sums[j] + bias[j];
  } else {
    std::copy_n(sums, n, c);
  }
}
void store_row_bf16(const float* __restrict sums, const float* __restrict bias, bool accumulate, int64_t n,
                    uint16_t* __restrict c) {
  if (accumulate) {
    MAKAR_SIMPLE_LOOP
    for (int64_t j = 0; j < n; ++j) c[j] = rounded(widened(c[j]) + widened(rounded(sums[j])));
  } else if (bias) {
    MAKAR_SIMPLE_LOOP
    for (int64_t j = 0; j < n; ++j) c[j] = rounded(sums[j] + bias[j]);
  } else {
    MAKAR_SIMPLE_LOOP
    for (int64_t j = 0; j < n; ++j) c[j] = rounded(sums[j]);
  }
}

// y[j] += the rows of x in sequence.
template <class T>
void add_rows_to(const T* x, int64_t rows, int64_t stride, int64_t n, float* __restrict y) {
  for (int64_t i = 0; i < rows; ++i, x += stride) {
    MAKAR_SIMPLE_LOOP
    for (int64_t j = 0; j < n; ++j) {
      if constexpr (sizeof(T) == 4)
        y[j] += x[j];
      else
        y[j] += widened(x[j]);
    }
  }
}

}  // namespace

void fill_product_bf16(Table& table) {
  table.pack_tiles_bf16 = pack_tiles;
  table.multiply_tiles_bf16 = multiply_tiles;
  table.rows_bf16 = rows_bf16;
  table.store_sums = store_row;
  table.store_sums_bf16 = store_row_bf16;
  table.add_rows = add_rows_to<float>;
  table.add_rows_bf16 = add_rows_to<uint16_t>;
}

}  // namespace makar::kernels::MAKAR_ISA
