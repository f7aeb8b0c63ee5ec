// Products of quantised weights. Within a part (16 or 32 k) the dot product is exact in integers; across
// parts and blocks of 64 k, sums are f32 in a fixed order for every form, row count and instruction set. With
// x_p the integer dot product of part p, s_p the weight scale, d the activation scale, S = 1.5 * 2^23 and
// base = -S (s_0 + s_1 + ...):
//   t = fma(S + x_p, s_p, t) from t = base on; with mins t = fma(min_p, sum_p, t); y = fma(t, d, y)
// An integer sum that starts at the bits of S reads as the float S + x, so no conversion is needed. This
// rounds t to a few units of the integer sums; rounding 64 activations to int8 already causes an error of
// twenty units or more. For 16-bit weights and activations (256 h + l each), x is 256 sum h h' + sum (h l' +
// l h'), without the products of low bytes, which are below 2^-16 of it.
#include <array>
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/parts.h"
#include "kernels/cpu/isa/quant_parts.h"
#if defined(MAKAR_ISA_neon)
#include "kernels/cpu/isa/quant_tile16_neon.h"
#endif

namespace makar::kernels::MAKAR_ISA {
namespace {

template <int R>
inline void dots(Ints (&x)[R], const std::byte* w, const std::byte* a) {
  MAKAR_UNROLLED
  for (int run = 0; run < kQuantBlock / kQuantRun; ++run) {
    Bytes steps[kSteps];
    read_run<QuantValues::kInt8>(w, run, Bytes(), steps);
    Bytes row[R];
    for (int i = 0; i < R; ++i) row[i] = load_bytes(a + i * kQuantBlock + run * kQuantRun);
    for (int i = 0; i < R; ++i) x[i] = dot<0>(x[i], steps[0], row[i]);
    for (int i = 0; i < R; ++i) x[i] = dot<1>(x[i], steps[1], row[i]);
    for (int i = 0; i < R; ++i) x[i] = dot<2>(x[i], steps[2], row[i]);
    for (int i = 0; i < R; ++i) x[i] = dot<3>(x[i], steps[3], row[i]);
  }
}

// One block of 16-bit values.
template <int R>
inline void one_wide_block(const std::byte* a, const std::byte* values, Floats scale, Floats (&acc)[R]) {
  const std::byte *low_a = a + R * kQuantBlock, *low = values + kQuantBlock * kQuantCols;
  const auto* d = reinterpret_cast<const float*>(a + 2 * R * kQuantBlock);
  Ints x[R], y[R];
  for (int i = 0; i < R; ++i) x[i] = plain_zero_ints(), y[i] = plain_zero_ints();
  dots<R>(x, values, a);
  dots<R>(y, values, low_a);
  dots<R>(y, low, a);
  for (int i = 0; i < R; ++i) acc[i] = fma(mul(rounded(sum(times_256(x[i]), y[i])), scale), d[i], acc[i]);
}

template <int Form, int R>
inline void one_block(const std::byte* a, const std::byte* values, const Scales<Form>& scales, int block,
                      Bytes book, Floats (&acc)[R]) {
  constexpr QuantForm F = kQuantForms[Form];
  constexpr int P = parts_of(F), kRuns = F.part / kQuantRun;
  const auto* d = reinterpret_cast<const float*>(a + R * kQuantBlock);
  Floats scale[P], min[P], t[R];
  scales.read(block, scale, min);
  if constexpr (F.values == QuantValues::kInt16) return one_wide_block<R>(a, values, scale[0], acc);
  const Floats base = seed_base(scale);
  MAKAR_UNROLLED
  for (int p = 0; p < P; ++p) {
    Ints x[R];
    for (int i = 0; i < R; ++i) x[i] = zero_ints();
    MAKAR_UNROLLED
    for (int run = p * kRuns; run < (p + 1) * kRuns; ++run) {
      Bytes w[kSteps];
      read_run<F.values>(values, run, book, w);
      for (int i = 0; i < R; ++i) {
        const Bytes row = load_bytes(a + i * kQuantBlock + run * kQuantRun);
        x[i] = dot<0>(x[i], w[0], row);
        x[i] = dot<1>(x[i], w[1], row);
        x[i] = dot<2>(x[i], w[2], row);
        x[i] = dot<3>(x[i], w[3], row);
      }
    }
    for (int i = 0; i < R; ++i) t[i] = fma(on_seed(x[i]), scale[p], p == 0 ? base : t[i]);
  }
  for (int p = 0; p < P && F.mins; ++p)
    for (int i = 0; i < R; ++i) t[i] = fma(min[p], d[(1 + p) * R + i], t[i]);
  for (int i = 0; i < R; ++i) acc[i] = fma(t[i], d[i], acc[i]);
}

constexpr int64_t kSoon = 512;  // prefetch distance in bytes

// R rows by one panel.
template <int Form, int R>
inline void one_panel(int64_t blocks, const std::byte* a, const std::byte* b, Bytes book, float* c,
                      int64_t ldc, bool accumulate, Ahead ahead) {
  constexpr QuantForm F = kQuantForms[Form];
  constexpr int kBlocks = blocks_of(F);
  Floats acc[R];
  for (int i = 0; i < R; ++i) acc[i] = accumulate ? load_floats(c + i * ldc) : zero_floats();
#if defined(MAKAR_ISA_neon)
  if constexpr (R == 4 && Form == kFormInt16) {
    tile16_of_four(blocks, a, b, acc, ahead);
    blocks = 0;
  }
#endif
  for (int64_t g = 0; g < blocks; g += kBlocks, b += group_bytes(F)) {
    const Scales<Form> scales(b);
    // Saves 2 % if memory-bound.
    if (R == 1 && Form == kFormInt8)
      for (int64_t at = 0; at < group_bytes(F); at += 64) __builtin_prefetch(b + kSoon + at);
    for (int block = 0; block < kBlocks; ++block, a += activation_bytes(F, R))
      one_block<Form, R>(a, b + scale_bytes(F) + block * value_bytes(F), scales, block, book, acc);
  }
  for (int i = 0; i < R; ++i) store_floats(c + i * ldc, acc[i]);
}

template <int Form, int R>
void panels(const QuantProduct& q) {
  const auto* a = static_cast<const std::byte*>(q.a);
  const auto* b = static_cast<const std::byte*>(q.b);
  const Bytes book = load_bytes(reinterpret_cast<const std::byte*>(q.book));
  Ahead ahead{q.ahead ? static_cast<const std::byte*>(q.ahead) : b, q.ahead_step};
  for (int64_t col = 0; col < q.cols; col += kQuantCols, b += q.b_panel, ahead.at += q.ahead_panel) {
    float* c = q.c + col;
    if (q.cols - col >= kQuantCols) {
      one_panel<Form, R>(q.blocks, a, b, book, c, q.ldc, q.accumulate, ahead);
      continue;
    }
    const size_t bytes = sizeof(float) * static_cast<size_t>(q.cols - col);
    float buffer[R * kQuantCols] = {};
    for (int i = 0; i < R && q.accumulate; ++i) std::memcpy(buffer + i * kQuantCols, c + i * q.ldc, bytes);
    one_panel<Form, R>(q.blocks, a, b, book, buffer, kQuantCols, q.accumulate, ahead);
    for (int i = 0; i < R; ++i) std::memcpy(c + i * q.ldc, buffer + i * kQuantCols, bytes);
  }
}

template <int Form>
void expand(int64_t blocks, const std::byte* b, Bytes book, std::byte* out) {
  constexpr QuantForm F = kQuantForms[Form], W = kQuantForms[wide_form(F)];
  for (int64_t g = 0; g < blocks; g += blocks_of(F), b += group_bytes(F)) {
    const Scales<Form> scales(b);
    for (int block = 0; block < blocks_of(F); ++block, out += group_bytes(W)) {
      store_scales(scales, block, reinterpret_cast<float*>(out));
      MAKAR_UNROLLED
      for (int run = 0; run < kQuantBlock / kQuantRun; ++run) {
        Bytes w[kSteps];
        read_run<F.values>(b + scale_bytes(F) + block * value_bytes(F), run, book, w);
        for (int s = 0; s < kSteps; ++s) store_bytes(out + scale_bytes(W) + (run * kSteps + s) * 16, w[s]);
      }
    }
  }
}

using PanelsFn = void (*)(const QuantProduct&);
using ExpandFn = void (*)(int64_t, const std::byte*, Bytes, std::byte*);
template <int... F>
constexpr std::array<std::array<PanelsFn, kQuantRows>, sizeof...(F)> panels_table(
    std::integer_sequence<int, F...>) {
  return {{{panels<F, 1>, panels<F, 2>, panels<F, 3>, panels<F, 4>}...}};
}
template <int... F>
constexpr std::array<ExpandFn, sizeof...(F)> expand_table(std::integer_sequence<int, F...>) {
  return {expand<F>...};
}
constexpr auto kPanels = panels_table(std::make_integer_sequence<int, kQuantFormCount>());
constexpr auto kExpand = expand_table(std::make_integer_sequence<int, kFormWide>());

void quant_product(const QuantProduct& q) { kPanels[q.form][q.rows - 1](q); }

void quant_expand(int form, int64_t blocks, const void* b, const int8_t* book, void* out) {
  kExpand[form](blocks, static_cast<const std::byte*>(b),
                load_bytes(reinterpret_cast<const std::byte*>(book)), static_cast<std::byte*>(out));
}

}  // namespace

void fill_quant(Table& table) {
  table.quant_product = quant_product;
  table.quant_expand = quant_expand;
#if defined(MAKAR_ISA_neon)
  table.int16_is_faster = true;
#endif
}

}  // namespace makar::kernels::MAKAR_ISA
