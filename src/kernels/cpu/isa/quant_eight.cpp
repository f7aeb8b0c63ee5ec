// Products of eight rows and quantized weights, for instruction sets with a tile of eight rows.
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/isa/sections.h"
#if defined(MAKAR_ISA_neon)
#include "kernels/cpu/isa/quant_parts.h"
#include "kernels/cpu/isa/quant_tile_neon.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

// The scales of a panel as floats, for QuantProduct::scales.
template <int Form>
void unpack_scales(int64_t blocks, const std::byte* b, float* out) {
  constexpr QuantForm F = kQuantForms[Form];
  for (int64_t g = 0; g < blocks; g += blocks_of(F), b += group_bytes(F)) {
    const Scales<Form> scales(b);
    for (int block = 0; block < blocks_of(F); ++block, out += expanded_scales(F))
      store_scales(scales, block, out);
  }
}

// Copies four floats, or fewer at the edge.
inline void copy_columns(const float* from, int64_t count, float* to) {
  if (count >= kQuantCols) return store_floats(to, load_floats(from));
  std::copy_n(from, count, to);
}

// Multiplies eight rows by all panels.
template <int Form>
void eight(const QuantProduct& q) {
  constexpr QuantForm F = kQuantForms[Form];
  const auto* b = static_cast<const std::byte*>(q.b);
  EightRows r;
  r.blocks = q.blocks, r.group = blocks_of(F), r.gap = scale_bytes(F);
  r.a = static_cast<const std::byte*>(q.a), r.a_second = r.a + q.a_panel;
  r.scale_step = q.scales ? expanded_scales(F) * int64_t{sizeof(float)} : group_bytes(F);
  r.prefetch = {q.prefetch ? static_cast<const std::byte*>(q.prefetch) : b, q.prefetch_step};
  alignas(16) float y[8 * kQuantCols] = {};
  r.y = y;
  const float* scales = q.scales;
  for (int64_t col = 0; col < q.cols; col += kQuantCols, b += q.b_panel, r.prefetch.at += q.prefetch_panel) {
    float* c = q.c + col;
    for (int i = 0; i < 8; ++i) {
      store_floats(y + i * kQuantCols, zero_floats());
      if (q.accumulate) copy_columns(c + i * q.ldc, q.cols - col, y + i * kQuantCols);
    }
    r.values = b + scale_bytes(F), r.scales = scales ? reinterpret_cast<const std::byte*>(scales) : b;
    eight_rows_by_panel<Form>(r);
    for (int i = 0; i < 8; ++i) copy_columns(y + i * kQuantCols, q.cols - col, c + i * q.ldc);
    if (scales) scales += q.scale_panel;
  }
}

using PanelsFn = void (*)(const QuantProduct&);
using ScalesFn = void (*)(int64_t, const std::byte*, float*);
template <int Form>
constexpr PanelsFn eight_of() {
  if constexpr (takes_eight(kQuantForms[Form]))
    return eight<Form>;
  else
    return nullptr;
}
template <int... F>
constexpr std::array<PanelsFn, sizeof...(F)> eight_table(std::integer_sequence<int, F...>) {
  return {eight_of<F>()...};
}
template <int... F>
constexpr std::array<ScalesFn, sizeof...(F)> scales_table(std::integer_sequence<int, F...>) {
  return {unpack_scales<F>...};
}
constexpr auto kEight = eight_table(std::make_integer_sequence<int, kQuantFormCount>());
constexpr auto kScales = scales_table(std::make_integer_sequence<int, kFormExpanded>());

}  // namespace

void fill_quant_eight(Table& table) {
  table.quant_takes_eight = [](int form) { return takes_eight(kQuantForms[form]); };
  table.quant_eight = [](const QuantProduct& q) { kEight[q.form](q); };
  table.quant_scales = [](int form, int64_t blocks, const void* b, float* out) {
    kScales[form](blocks, static_cast<const std::byte*>(b), out);
  };
}

}  // namespace makar::kernels::MAKAR_ISA
#else
namespace makar::kernels::MAKAR_ISA {
void fill_quant_eight(Table&) {}
}  // namespace makar::kernels::MAKAR_ISA
#endif
