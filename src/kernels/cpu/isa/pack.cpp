// Packs operands into panels [k][W] of W = kMr or kNr adjacent rows, for both stride orders.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/isa/quad.h"
#include "kernels/cpu/isa/sections.h"
#if defined(MAKAR_ISA_avx512)
#include "kernels/cpu/isa/pack_avx512.h"
#endif

namespace makar::kernels::MAKAR_ISA {
namespace {

// Prefetch distance: elements along a row, and rows. Rows of a matrix are pages apart, which no hardware
// prefetcher follows.
constexpr int64_t kPrefetchElements = 64, kPrefetchRows = 8;

// Transposes a strip of 4 rows by at most 16 k; rows from `valid_rows` on are zero. A strip uses whole cache
// lines of each row, whatever the stride.
template <int W, int Stored, class T>
inline void transpose_strip(const T* x, int64_t row_stride, int valid_rows, int64_t k, float* out) {
  int64_t p = 0;
  for (; p + 4 <= k; p += 4) {
    Quad v[4];
    for (int i = 0; i < 4; ++i) v[i] = i < valid_rows ? quad_load(x + i * row_stride + p) : quad_zero();
    quad_transpose(v);
    for (int i = 0; i < 4; ++i) {
      if constexpr (Stored == 4)
        quad_store(out + (p + i) * W, v[i]);
      else
        quad_store_low(out + (p + i) * W, v[i]);
    }
  }
  for (; p < k; ++p)
    for (int i = 0; i < Stored; ++i)
      out[p * W + i] = i < valid_rows ? quad_one(x + i * row_stride + p) : 0.0f;
}

#if defined(MAKAR_ISA_avx512)
constexpr bool kTransposesPanels = true;
#else
constexpr bool kTransposesPanels = false;
template <int W, class T>
inline void transpose_panel(const T*, int64_t, float*) {}

template <int W, class T>
inline void copy_row(const T* x, float* out) {
  for (int i = 0; i + 4 <= W; i += 4) quad_store(out + i, quad_load(x + i));
  for (int i = W / 4 * 4; i < W; ++i) out[i] = quad_one(x + i);
}
#endif

// Rows are contiguous along k: packs one panel with 16 x 16 or 4 x 4 transposes.
template <int W, class T>
void pack_transposed(const T* x, int64_t row_stride, int valid_rows, int64_t k, float* out) {
  for (int64_t p = 0; p < k; p += 16) {
    const int64_t k_count = std::min<int64_t>(16, k - p);
    for (int i = 0; i < valid_rows; ++i) __builtin_prefetch(x + i * row_stride + p + kPrefetchElements);
    if (kTransposesPanels && k_count == 16 && valid_rows == W) {
      transpose_panel<W>(x + p, row_stride, out + p * W);
      continue;
    }
    for (int i = 0; i + 4 <= W; i += 4) {
      const T* from = x + i * row_stride + p;
      if (valid_rows >= i + 4)
        transpose_strip<W, 4>(from, row_stride, 4, k_count, out + p * W + i);
      else
        transpose_strip<W, 4>(from, row_stride, valid_rows - i, k_count, out + p * W + i);
    }
    if constexpr (W % 4 != 0) {
      constexpr int i = W / 4 * 4;
      transpose_strip<W, W % 4>(x + i * row_stride + p, row_stride, std::min(valid_rows - i, W - i), k_count,
                                out + p * W + i);
    }
  }
}

// Rows are adjacent for each k: plain copies. Several panels are filled together to read long runs.
template <int W, class T>
void pack_copied(const T* x, int64_t k_stride, int64_t rows, int64_t k, float* out) {
  constexpr int kPanelsTogether = 4;
  for (int64_t r = 0; r < rows;) {
    const int64_t full_panels = std::min<int64_t>(kPanelsTogether, (rows - r) / W);
    for (int64_t p = 0; p < k && full_panels > 0; ++p) {
      const T* row = x + p * k_stride + r;
      for (int64_t i = 0; i < full_panels * W; i += 16)
        __builtin_prefetch(row + kPrefetchRows * k_stride + i);
      for (int64_t q = 0; q < full_panels; ++q) copy_row<W>(row + q * W, out + (q * k + p) * W);
    }
    out += full_panels * k * W, r += full_panels * W;
    if (const int64_t remaining = rows - r; remaining > 0 && remaining < W) {
      for (int64_t p = 0; p < k; ++p)
        for (int i = 0; i < W; ++i)
          out[p * W + i] = i < remaining ? quad_one(x + p * k_stride + r + i) : 0.0f;
      return;
    }
  }
}

template <int W, class T>
void pack(const T* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k, float* out) {
  if (k_stride == 1) {
    for (int64_t r = 0; r < rows; r += W, out += k * W)
      pack_transposed<W>(x + r * row_stride, row_stride, static_cast<int>(std::min<int64_t>(W, rows - r)), k,
                         out);
  } else if (row_stride == 1) {
    pack_copied<W>(x, k_stride, rows, k, out);
  } else {
    for (int64_t r = 0; r < rows; r += W, out += k * W)
      for (int64_t p = 0; p < k; ++p)
        for (int i = 0; i < W; ++i)
          out[p * W + i] = r + i < rows ? quad_one(x + (r + i) * row_stride + p * k_stride) : 0.0f;
  }
}

#if defined(MAKAR_ISA_neon)
// Transposes twelve rows by eight k: pairs of rows, then pairs of pairs, then fours.
inline void transpose_12x8(const uint16_t* x, int64_t row_stride, uint16_t* out) {
  uint16x8_t a[12];
  uint32x4_t b[12];
  for (int i = 0; i < 12; ++i) a[i] = vld1q_u16(x + i * row_stride);
  for (int i = 0; i < 12; i += 2) {
    b[i] = vreinterpretq_u32_u16(vtrn1q_u16(a[i], a[i + 1]));      // k 0 2 4 6
    b[i + 1] = vreinterpretq_u32_u16(vtrn2q_u16(a[i], a[i + 1]));  // k 1 3 5 7
  }
  for (int odd = 0; odd < 2; ++odd) {
    uint64x2_t low[3], high[3];  // of four rows: k 0 4 and 2 6, or 1 5 and 3 7
    for (int i = 0; i < 3; ++i) {
      const uint32x4_t p = b[i * 4 + odd], q = b[i * 4 + 2 + odd];
      low[i] = vreinterpretq_u64_u32(vtrn1q_u32(p, q)), high[i] = vreinterpretq_u64_u32(vtrn2q_u32(p, q));
    }
    const auto put = [&](int k, uint64x2_t eight, uint64x1_t four) {
      vst1q_u16(out + k * 12, vreinterpretq_u16_u64(eight));
      vst1_u16(out + k * 12 + 8, vreinterpret_u16_u64(four));
    };
    put(odd, vtrn1q_u64(low[0], low[1]), vget_low_u64(low[2]));
    put(odd + 2, vtrn1q_u64(high[0], high[1]), vget_low_u64(high[2]));
    put(odd + 4, vtrn2q_u64(low[0], low[1]), vget_high_u64(low[2]));
    put(odd + 6, vtrn2q_u64(high[0], high[1]), vget_high_u64(high[2]));
  }
}
static_assert(kNr == 12);
// Packs a full panel in steps of eight k; returns the number of k that it packed.
int64_t transpose_rows(const uint16_t* x, int64_t row_stride, int64_t k, uint16_t* out) {
  int64_t p = 0;
  for (; p + 8 <= k; p += 8) transpose_12x8(x + p, row_stride, out + p * kNr);
  return p;
}
#else
int64_t transpose_rows(const uint16_t*, int64_t, int64_t, uint16_t*) { return 0; }
#endif

void pack_b16(const uint16_t* x, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
              uint16_t* out) {
  constexpr int64_t kStrip = 32;  // k per strip: one cache line per row
  for (int64_t r = 0; r < rows; r += kNr, out += k * kNr) {
    const int valid_rows = static_cast<int>(std::min<int64_t>(kNr, rows - r));
    const int64_t packed_k =
        valid_rows == kNr && k_stride == 1 ? transpose_rows(x + r * row_stride, row_stride, k, out) : 0;
    for (int64_t p0 = packed_k; p0 < k; p0 += kStrip)
      for (int i = 0; i < kNr; ++i)
        for (int64_t p = p0; p < std::min(k, p0 + kStrip); ++p)
          out[p * kNr + i] = i < valid_rows ? x[(r + i) * row_stride + p * k_stride] : uint16_t{0};
  }
}

void pack_b_widen(DType type, const uint16_t* x, int64_t row_stride, int64_t k_stride, int64_t rows,
                  int64_t k, float* out) {
  if (type == DType::kF16)
    pack<kNr>(reinterpret_cast<const F16*>(x), row_stride, k_stride, rows, k, out);
  else
    pack<kNr>(reinterpret_cast<const BF16*>(x), row_stride, k_stride, rows, k, out);
}

template <class T>
void widen_as(const T* x, int64_t count, float* out) {
  int64_t i = 0;
#if defined(MAKAR_ISA_avx2) || defined(MAKAR_ISA_avx512)
  for (; i + kVecLanes <= count; i += kVecLanes) store(out + i, load(x + i));
#endif
  for (; i + 4 <= count; i += 4) quad_store(out + i, quad_load(x + i));
  for (; i < count; ++i) out[i] = quad_one(x + i);
}

void widen_row(DType type, const uint16_t* x, int64_t count, float* out) {
  if (type == DType::kF16)
    widen_as(reinterpret_cast<const F16*>(x), count, out);
  else
    widen_as(reinterpret_cast<const BF16*>(x), count, out);
}

}  // namespace

void fill_pack(Table& table) {
  table.pack_a = pack<kMr, float>;
  table.pack_b = pack<kNr, float>;
  table.pack_b16 = pack_b16;
  table.pack_b_widen = pack_b_widen;
  table.widen = widen_row;
}

}  // namespace makar::kernels::MAKAR_ISA
