// Products of quantized weights. Within a part (16, 32 or 64 k), the dot product is exact in integers; across
// parts and blocks of 64 k, sums are f32 in a fixed order for every form, row count and instruction set. With
// x_p the integer dot product of part p, s_p the weight scale, d the activation scale, S = 1.5 * 2^23 and
// base = -S (s_0 + s_1 + ...):
//   t = base; t = fma(S + x_p, s_p, t); with mins t = fma(min_p, sum_p, t); y = fma(t, d, y)
// An integer sum that starts at the bits of S reads as the float S + x, so no conversion is needed. This
// rounds t to a few units of the integer sums; rounding 64 activations to int8 already causes an error of
// twenty units or more. For 16-bit weights and activations (256 h + l each), x is 256 sum h h' + sum (h l' +
// l h'), without the products of low bytes, which are below 2^-16 of x.
#include <array>
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/quant_parts.h"
#include "kernels/cpu/isa/sections.h"
#if defined(MAKAR_ISA_neon)
#include "kernels/cpu/isa/quant_tile16_neon.h"
#endif

namespace makar::kernels::MAKAR_ISA {
namespace {

// One block of R rows of activations; 8 rows are in two panels.
template <int R>
struct RowsBlock {
  static constexpr int kPanelRows = R > kQuantRows ? kQuantRows : R;
  const std::byte* panel[R / kPanelRows];

  const std::byte* row(int i) const { return panel[i / kPanelRows] + i % kPanelRows * kQuantBlock; }
  const std::byte* low_row(int i) const { return row(i) + kPanelRows * kQuantBlock; }  // of 16-bit values
  // The n-th number of row i after the values: the scale, then sums or initial sums (quant_form.h).
  template <class T>
  const T* number(const QuantForm& f, int n, int i) const {
    return reinterpret_cast<const T*>(panel[i / kPanelRows] + kPanelRows * activation_values(f)) +
           n * kPanelRows + i % kPanelRows;
  }
  void next(const QuantForm& f) {
    for (const std::byte*& p : panel) p += activation_bytes(f, kPanelRows);
  }
};

// One run: x += the products of four steps.
template <Signs S, int R, class RowAt>
inline void dot_run(Ints (&x)[R], const Bytes (&steps)[kSteps], const RowAt& row_at) {
  Factor w[kSteps];
  MAKAR_UNROLLED
  for (int s = 0; s < kSteps; ++s) w[s] = factor<S>(steps[s]);
  if constexpr (R <= kQuantRows) {
    MAKAR_UNROLLED
    for (int i = 0; i < R; ++i) {
      const Row row = load_row(row_at(i));
      x[i] = dot<0, S>(x[i], w[0], row);
      x[i] = dot<1, S>(x[i], w[1], row);
      x[i] = dot<2, S>(x[i], w[2], row);
      x[i] = dot<3, S>(x[i], w[3], row);
    }
  } else {
    MAKAR_UNROLLED
    for (int i = 0; i < R; ++i) x[i] = dot<0, S>(x[i], w[0], load_row(row_at(i)));
    MAKAR_UNROLLED
    for (int i = 0; i < R; ++i) x[i] = dot<1, S>(x[i], w[1], load_row(row_at(i)));
    MAKAR_UNROLLED
    for (int i = 0; i < R; ++i) x[i] = dot<2, S>(x[i], w[2], load_row(row_at(i)));
    MAKAR_UNROLLED
    for (int i = 0; i < R; ++i) x[i] = dot<3, S>(x[i], w[3], load_row(row_at(i)));
  }
}

// One block of 16-bit values.
template <int R>
inline void one_int16_block(const RowsBlock<R>& a, const std::byte* values, Floats scale, Floats (&acc)[R]) {
  constexpr QuantForm F = kQuantForms[kFormInt16];
  const std::byte* low = values + kQuantBlock * kQuantCols;
  Ints x[R], y[R];
  MAKAR_UNROLLED
  for (int i = 0; i < R; ++i) {
    x[i] = first_plain(a.template number<int32_t>(F, 1, i));
    y[i] = first_plain(a.template number<int32_t>(F, 2, i));
  }
  MAKAR_UNROLLED
  for (int run = 0; run < kQuantBlock / kQuantRun; ++run) {
    Bytes high_steps[kSteps], low_steps[kSteps];
    read_run<QuantValues::kInt8>(values, run, Bytes(), high_steps);
    read_run<QuantValues::kInt8>(low, run, Bytes(), low_steps);
    dot_run<Signs::kSigned, R>(x, high_steps, [&](int i) { return a.row(i) + run * kQuantRun; });
    dot_run<Signs::kLowRows, R>(y, high_steps, [&](int i) { return a.low_row(i) + run * kQuantRun; });
    dot_run<Signs::kSigned, R>(y, low_steps, [&](int i) { return a.row(i) + run * kQuantRun; });
  }
  MAKAR_UNROLLED
  for (int i = 0; i < R; ++i)
    acc[i] =
        fma(mul(to_floats(sum(times_256(x[i]), y[i])), scale), *a.template number<float>(F, 0, i), acc[i]);
}

// Vector N (0..3) of a part of 32 k with 2 of 4 values: x += its products with the activations at its
// positions.
template <int N, int R>
inline void dot_sparse(Ints (&x)[R], const RowsBlock<R>& a, const std::byte* values, Bytes positions,
                       int part) {
  const Bytes w = load_bytes(values + (part * 4 + N) * kStepBytes), at = positions_of<N>(positions);
  MAKAR_UNROLLED
  for (int i = 0; i < R; ++i) x[i] = dot_at(x[i], w, at, load_row(a.row(i) + (part * 2 + N / 2) * kQuantRun));
}

template <int Form, int R>
inline void one_block(const RowsBlock<R>& a, const std::byte* values, const Scales<Form>& scales, int block,
                      Bytes codebook, Floats (&acc)[R]) {
  constexpr QuantForm F = kQuantForms[Form];
  constexpr int P = parts_of(F), kRuns = F.part / kQuantRun;
  constexpr bool kSparse = F.values == QuantValues::kSparse8;  // dot_at() needs no bias
  constexpr Signs S = F.mins || kSparse ? Signs::kUnsigned : Signs::kSigned;
  Floats scale[P], min[P], t[R];
  scales.read(block, scale, min);
  if constexpr (F.values == QuantValues::kInt16) return one_int16_block<R>(a, values, scale[0], acc);
  const Floats base = seed_base(scale);
  MAKAR_UNROLLED
  for (int p = 0; p < P; ++p) {
    Ints x[R];
    MAKAR_UNROLLED
    for (int i = 0; i < R; ++i) x[i] = first_ints<S>(a.template number<int32_t>(F, 1 + p, i));
    if constexpr (kSparse) {
      const Bytes positions = load_bytes(values + (8 + p) * kStepBytes);
      dot_sparse<0, R>(x, a, values, positions, p), dot_sparse<1, R>(x, a, values, positions, p);
      dot_sparse<2, R>(x, a, values, positions, p), dot_sparse<3, R>(x, a, values, positions, p);
    }
    MAKAR_UNROLLED
    for (int run = p * kRuns; run < (kSparse ? 0 : (p + 1) * kRuns); ++run) {
      Bytes w[kSteps];
      read_run<F.values>(values, run, codebook, w);
      dot_run<S, R>(x, w, [&](int i) { return a.row(i) + run * kQuantRun; });
    }
    MAKAR_UNROLLED
    for (int i = 0; i < R; ++i) t[i] = fma(seed_plus(x[i]), scale[p], p == 0 ? base : t[i]);
  }
  MAKAR_UNROLLED
  for (int p = 0; p < (F.mins ? P : 0); ++p)
    for (int i = 0; i < R; ++i) t[i] = fma(min[p], *a.template number<float>(F, 1 + p, i), t[i]);
  MAKAR_UNROLLED
  for (int i = 0; i < R; ++i) acc[i] = fma(t[i], *a.template number<float>(F, 0, i), acc[i]);
}

// Prefetch distance in bytes for panels that are read in place; 0: none. On ARM, memory bandwidth does not
// limit the other forms. On x86, a product of one row with Q8_0 on one thread read 16.7 GB/s with prefetches
// 16 KB ahead into the L2 cache, 12.3 GB/s with 4 KB ahead into the L1 cache (Xeon with AMX); Q4_K showed no
// clear difference.
template <int Form, int R>
constexpr int64_t prefetch_distance() {
#if defined(MAKAR_ISA_neon) || defined(MAKAR_ISA_portable)
  return R == 1 && (Form == kFormInt8 || Form == kFormSparse8) ? 512 : 0;
#else
  return R <= kQuantRows && kQuantForms[Form].scales != QuantScales::kFloat ? 16384 : 0;
#endif
}
#if defined(MAKAR_ISA_neon) || defined(MAKAR_ISA_portable)
constexpr int kPrefetchLevel = 3;  // the L1 cache
#else
constexpr int kPrefetchLevel = 2;
#endif

// R rows by one panel.
template <int Form, int R>
inline void one_panel(int64_t blocks, RowsBlock<R> a, const std::byte* b, Bytes codebook, float* c,
                      int64_t ldc, bool accumulate, Prefetch prefetch) {
  constexpr QuantForm F = kQuantForms[Form];
  constexpr int kBlocks = blocks_of(F);
  Floats acc[R];
  MAKAR_UNROLLED
  for (int i = 0; i < R; ++i) acc[i] = accumulate ? load_floats(c + i * ldc) : zero_floats();
#if defined(MAKAR_ISA_neon)
  if constexpr (R == 4 && Form == kFormInt16) {
    tile16_of_four(blocks, a.panel[0], b, acc, prefetch);
    blocks = 0;
  }
#endif
  for (int64_t g = 0; g < blocks; g += kBlocks, b += group_bytes(F)) {
    const Scales<Form> scales(b);
    if constexpr (prefetch_distance<Form, R>() > 0)
      for (int64_t at = 0; at < group_bytes(F); at += 64)
        __builtin_prefetch(b + prefetch_distance<Form, R>() + at, 0, kPrefetchLevel);
    for (int block = 0; block < kBlocks; ++block, a.next(F)) {
      if constexpr (R > kQuantRows) {
        for (int64_t at = 0; at < prefetch.step; at += 64) __builtin_prefetch(prefetch.at + at, 0, 2);
        prefetch.at += prefetch.step;
      }
      one_block<Form, R>(a, b + scale_bytes(F) + block * value_bytes(F), scales, block, codebook, acc);
    }
  }
  MAKAR_UNROLLED
  for (int i = 0; i < R; ++i) store_floats(c + i * ldc, acc[i]);
}

template <int Form, int R>
void panels(const QuantProduct& q) {
  RowsBlock<R> a;
  for (const std::byte*& panel : a.panel)
    panel = static_cast<const std::byte*>(q.a) + (&panel - a.panel) * q.a_panel;
  const auto* b = static_cast<const std::byte*>(q.b);
  const Bytes codebook = load_codebook(q.codebook);
  Prefetch prefetch{q.prefetch ? static_cast<const std::byte*>(q.prefetch) : b,
                    q.prefetch ? q.prefetch_step : 0};
  for (int64_t col = 0; col < q.cols; col += kQuantCols, b += q.b_panel, prefetch.at += q.prefetch_panel) {
    float* c = q.c + col;
    if (q.cols - col >= kQuantCols) {
      one_panel<Form, R>(q.blocks, a, b, codebook, c, q.ldc, q.accumulate, prefetch);
      continue;
    }
    const size_t bytes = sizeof(float) * static_cast<size_t>(q.cols - col);
    float buffer[R * kQuantCols] = {};
    for (int i = 0; i < R && q.accumulate; ++i) std::memcpy(buffer + i * kQuantCols, c + i * q.ldc, bytes);
    one_panel<Form, R>(q.blocks, a, b, codebook, buffer, kQuantCols, q.accumulate, prefetch);
    for (int i = 0; i < R; ++i) std::memcpy(c + i * q.ldc, buffer + i * kQuantCols, bytes);
  }
}

template <int Form>
void expand(int64_t blocks, const std::byte* b, Bytes codebook, std::byte* out) {
  constexpr QuantForm F = kQuantForms[Form], W = kQuantForms[expanded_form(F)];
  for (int64_t g = 0; g < blocks; g += blocks_of(F), b += group_bytes(F)) {
    const Scales<Form> scales(b);
    for (int block = 0; block < blocks_of(F); ++block, out += group_bytes(W)) {
      store_scales(scales, block, reinterpret_cast<float*>(out));
      MAKAR_UNROLLED
      for (int run = 0; run < kQuantBlock / kQuantRun; ++run) {
        Bytes w[kSteps];
        read_run<F.values>(b + scale_bytes(F) + block * value_bytes(F), run, codebook, w);
        for (int s = 0; s < kSteps; ++s)
          store_bytes(out + scale_bytes(W) + (run * kSteps + s) * kStepBytes, w[s]);
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
#if defined(MAKAR_ISA_avx512vnni)
template <int... F>
constexpr std::array<PanelsFn, sizeof...(F)> eight_table(std::integer_sequence<int, F...>) {
  return {panels<F, 8>...};
}
constexpr auto kEight = eight_table(std::make_integer_sequence<int, kQuantFormCount>());
#endif
constexpr auto kPanels = panels_table(std::make_integer_sequence<int, kQuantFormCount>());
constexpr auto kExpand = expand_table(std::make_integer_sequence<int, kFormExpanded>());

void quant_product(const QuantProduct& q) { kPanels[q.form][q.rows - 1](q); }

void quant_expand(int form, int64_t blocks, const void* b, const int8_t* codebook, void* out) {
  kExpand[form](blocks, static_cast<const std::byte*>(b), load_codebook(codebook),
                static_cast<std::byte*>(out));
}

}  // namespace

void fill_quant(Table& table) {
  table.quant_cols = kQuantCols;
  table.quant_initial_sums = kQuantInitialSums;
  table.quant_product = quant_product;
  table.quant_expand = quant_expand;
#if defined(MAKAR_ISA_avx512vnni)
  table.quant_takes_eight = [](int) { return true; };
  table.quant_eight = [](const QuantProduct& q) { kEight[q.form](q); };
#endif
#if defined(MAKAR_ISA_neon)
  table.int16_is_faster = true;
#endif
}

}  // namespace makar::kernels::MAKAR_ISA
