// Tiles of the matrix product and the loops over packed panels. The register tiles are in gemm_<isa>.h; this
// file handles the edges: fewer rows use a narrower tile, fewer columns go through a buffer. Neither changes
// the bits.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/gemm_tiles.h"
#include "kernels/cpu/isa/sections.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// Runs a kernel that writes `width` columns where c has only `cols` of them.
template <class Kernel>
[[gnu::noinline]] void through_buffer(int rows, int cols, int width, float* c, int64_t ldc, bool accumulate,
                                      const Kernel& kernel) {
  float buffer[kMr * 4 * kNr];
  if (accumulate) {
    std::memset(buffer, 0, sizeof(float) * static_cast<size_t>(rows) * width);
    for (int i = 0; i < rows; ++i) std::memcpy(buffer + i * width, c + i * ldc, sizeof(float) * cols);
  }
  kernel(buffer, width);
  for (int i = 0; i < rows; ++i) std::memcpy(c + i * ldc, buffer + i * width, sizeof(float) * cols);
}

template <int R, class T>
void tile_rows(int64_t k, const float* a, const void* panel, float* c, int64_t ldc, int cols, bool accumulate,
               TilePart part) {
  const T* b = static_cast<const T*>(panel);
  if (cols == kNr) return full_tile<R>(k, a, b, c, ldc, accumulate, part);
  through_buffer(R, cols, kNr, c, ldc, accumulate,
                 [&](float* to, int64_t ld) { full_tile<R>(k, a, b, to, ld, accumulate, part); });
}

// Index of a type in the kernel tables.
constexpr int index_of(DType type) { return type == DType::kF32 ? 0 : type == DType::kF16 ? 1 : 2; }

using TileFn = void (*)(int64_t, const float*, const void*, float*, int64_t, int, bool, TilePart);
template <class T, int... R>
constexpr std::array<TileFn, sizeof...(R)> tile_table(std::integer_sequence<int, R...>) {
  return {tile_rows<R + 1, T>...};
}
constexpr auto kTileRowCounts = std::make_integer_sequence<int, kMr>();
constexpr std::array<std::array<TileFn, kMr>, 3> kTiles = {
    tile_table<float>(kTileRowCounts), tile_table<F16>(kTileRowCounts), tile_table<BF16>(kTileRowCounts)};

void tile(DType type, int64_t k, const float* a, const void* b, float* c, int64_t ldc, int rows, int cols,
          bool accumulate, TilePart part) {
  kTiles[index_of(type)][rows - 1](k, a, b, c, ldc, cols, accumulate, part);
}

void product(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c, int64_t ldc,
             bool accumulate) {
  for (int64_t j = 0; j < n; j += kNr)
    for (int64_t i = 0; i < m; i += kMr)
      kTiles[0][std::min<int64_t>(kMr, m - i) - 1](k, a + i * k, b + j * k, c + i * ldc + j, ldc,
                                                   static_cast<int>(std::min<int64_t>(kNr, n - j)),
                                                   accumulate, {});
}

template <int M, int P, class T>
void rows_group(int64_t k, const float* a, int64_t lda, const T* b, int64_t panel, float* c, int64_t ldc,
                int64_t cols, bool accumulate) {
  if (cols >= P * kNr) return full_rows<M, P>(k, a, lda, b, panel, c, ldc, accumulate);
  through_buffer(M, static_cast<int>(cols), P * kNr, c, ldc, accumulate,
                 [&](float* to, int64_t ld) { full_rows<M, P>(k, a, lda, b, panel, to, ld, accumulate); });
}

template <int M, class T>
void rows_of(int64_t k, const float* a, int64_t lda, const void* panels, int64_t panel, float* c, int64_t ldc,
             int64_t n, bool accumulate) {
  constexpr int P = panels_at_once<M, T>();
  const T* b = static_cast<const T*>(panels);
  int64_t j = 0;
  for (; j + (P - 1) * kNr < n; j += P * kNr, b += P * panel)
    rows_group<M, P>(k, a, lda, b, panel, c + j, ldc, n - j, accumulate);
  for (; j < n; j += kNr, b += panel) rows_group<M, 1>(k, a, lda, b, panel, c + j, ldc, n - j, accumulate);
}

using RowsFn = void (*)(int64_t, const float*, int64_t, const void*, int64_t, float*, int64_t, int64_t, bool);
template <class T, int... M>
constexpr std::array<RowsFn, sizeof...(M)> rows_table(std::integer_sequence<int, M...>) {
  return {rows_of<M + 1, T>...};
}
constexpr auto kRowCounts = std::make_integer_sequence<int, kRowsMax>();
constexpr std::array<std::array<RowsFn, kRowsMax>, 3> kRows = {
    rows_table<float>(kRowCounts), rows_table<F16>(kRowCounts), rows_table<BF16>(kRowCounts)};

void rows(DType type, int m, int64_t n, int64_t k, const float* a, int64_t lda, const void* panels,
          int64_t panel, float* c, int64_t ldc, bool accumulate) {
  kRows[index_of(type)][m - 1](k, a, lda, panels, panel, c, ldc, n, accumulate);
}

#if defined(MAKAR_ISA_neon)
void row_f16(int64_t n, int64_t k, const float* a, const void* panels, int64_t panel, float* c,
             bool accumulate) {
  const auto* b = static_cast<const std::byte*>(panels);
  for (int64_t j = 0; j < n; j += kNr, b += panel * 2) {
    if (n - j >= kNr)
      half_panel(k, a, b, c + j, accumulate);
    else
      through_buffer(1, static_cast<int>(n - j), kNr, c + j, n, accumulate,
                     [&](float* to, int64_t) { half_panel(k, a, b, to, accumulate); });
  }
}
#endif

}  // namespace

void fill_gemm(Table& table) {
#if defined(MAKAR_ISA_neon)
  table.row_f16 = row_f16;
#endif
  table.mr = kMr;
  table.nr = kNr;
  table.kc = kKc;
  table.rows_max = kRowsMax;
  table.tile = tile;
  table.product = product;
  table.rows = rows;
}

}  // namespace makar::kernels::MAKAR_ISA
