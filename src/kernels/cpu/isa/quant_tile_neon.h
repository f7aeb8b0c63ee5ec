// Four rows by one panel of int8 without mins, scheduled by hand: the formula of quant.cpp, the same bits.
//
// On Neoverse-N1 a multiplication between dot products takes the place of two of them, because its result
// comes a cycle or two later and meets theirs at the end of the pipe; multiplications in a row take one each.
// So the float work of a block, 12 operations beside 64 dot products, is done in one bunch between its two
// parts, in an order in which nothing waits:
//   t' = fma(seed + x_1, s_1, t') of the block before, t = fma(seed + x_0, s_0, base) of this one, y += t' d
// The sums t take turns in two sets of registers, so blocks go in pairs; an odd one goes first, through the
// second half. Weights of the next run are loaded as soon as those of this one are used. Meanwhile up to 192
// bytes of what is wanted next are asked for. 125 of the 159 GOP/s of dot products alone from the first
// cache, 121 with rows from the second.
#pragma once
#include "kernels/cpu/isa/quant_neon.h"
#include "kernels/quant_form.h"

namespace makar::kernels::MAKAR_ISA {

// clang-format off
// Rows of 16 k in v8, v9, v24, v25.
#define MAKAR_ROWS(at)                                                                                    \
  "ldr q8, [%[a], #(" at ")]\n ldr q9, [%[a], #(" at " + 64)]\n"                                          \
  "ldr q24, [%[a], #(" at " + 128)]\n ldr q25, [%[a], #(" at " + 192)]\n"
// One step of four columns by four k for four rows; then the same step of the next run comes to its register.
#define MAKAR_STEP(w, lane, next, x0, x1, x2, x3)                                                         \
  "sdot " x0 ".4s, v" w ".16b, v8.4b[" lane "]\n sdot " x1 ".4s, v" w ".16b, v9.4b[" lane "]\n"           \
  "sdot " x2 ".4s, v" w ".16b, v24.4b[" lane "]\n sdot " x3 ".4s, v" w ".16b, v25.4b[" lane "]\n"         \
  "ldr q" w ", [" next " + 16 * " lane ")]\n"
#define MAKAR_RUN(at, next, half, ...)                                                                    \
  MAKAR_ROWS(at)                                                                                          \
  MAKAR_STEP("20", "0", next, __VA_ARGS__) MAKAR_STEP("21", "1", next, __VA_ARGS__) half                  \
  MAKAR_STEP("22", "2", next, __VA_ARGS__) MAKAR_STEP("23", "3", next, __VA_ARGS__)
// Loaded, because loads are free here and moves between registers are not.
#define MAKAR_SEEDS(x0, x1, x2, x3)                                                                       \
  "ldr " x0 ", [%[seed]]\n ldr " x1 ", [%[seed]]\n ldr " x2 ", [%[seed]]\n ldr " x3 ", [%[seed]]\n"
// The scales: s_0 to v27, base = -seed (s_0 + s_1) to memory; and, once v29 is used, s_1 to v29. Halves are
// converted a block ahead, right after the bunch.
#define MAKAR_FLOAT_SCALES "ldr q27, [%[b]]\n add %[base], %[b], #32\n"
#define MAKAR_FLOAT_SECOND "ldr q29, [%[b], #16]\n"
#define MAKAR_HALF_SCALES(from)                                                                           \
  "ldr q28, [%[base], #32]\n ldur q27, [" from "]\n fcvtl2 v30.4s, v27.8h\n fcvtl v27.4s, v27.4h\n"       \
  "str q30, [%[base], #16]\n fadd v30.4s, v27.4s, v30.4s\n fmul v30.4s, v30.4s, v28.4s\n str q30, [%[base]]\n"
#define MAKAR_HALF_SECOND "ldr q29, [%[base], #16]\n" MAKAR_HALF_SCALES("%[next], #-16")
#define MAKAR_PART_1(t0, t1, t2, t3)                                                                      \
  "fmla " t0 ".4s, v16.4s, v29.4s\n fmla " t1 ".4s, v17.4s, v29.4s\n"                                     \
  "fmla " t2 ".4s, v18.4s, v29.4s\n fmla " t3 ".4s, v19.4s, v29.4s\n ldr q28, [%[d]]\n"
#define MAKAR_PART_0(t0, t1, t2, t3)                                                                      \
  "ldr q" t0 ", [%[base]]\n ldr q" t1 ", [%[base]]\n ldr q" t2 ", [%[base]]\n ldr q" t3 ", [%[base]]\n"   \
  "fmla v" t0 ".4s, v12.4s, v27.4s\n fmla v" t1 ".4s, v13.4s, v27.4s\n"                                   \
  "fmla v" t2 ".4s, v14.4s, v27.4s\n fmla v" t3 ".4s, v15.4s, v27.4s\n"
#define MAKAR_ADD(t0, t1, t2, t3)                                                                         \
  "fmla %[y0].4s, " t0 ".4s, v28.s[0]\n fmla %[y1].4s, " t1 ".4s, v28.s[1]\n"                             \
  "fmla %[y2].4s, " t2 ".4s, v28.s[2]\n fmla %[y3].4s, " t3 ".4s, v28.s[3]\n"
#define MAKAR_FIRST_SET "v4", "v5", "v6", "v7"
#define MAKAR_SECOND_SET "v10", "v11", "v26", "v31"
// One block; `before` holds t of the one before, `now` (numbers of registers) gets this one's.
#define MAKAR_BLOCK(scales, second, before, ...)                                                          \
  MAKAR_SEEDS("q12", "q13", "q14", "q15")                                                                 \
  MAKAR_RUN("0", "%[v], #(64", "", "v12", "v13", "v14", "v15")                                            \
  MAKAR_RUN("16", "%[v], #(128", scales, "v12", "v13", "v14", "v15")                                      \
  MAKAR_PART_1(before) MAKAR_PART_0(__VA_ARGS__) MAKAR_ADD(before) second                                 \
  "prfm pldl2keep, [%[ahead]]\n prfm pldl2keep, [%[ahead], #64]\n prfm pldl2keep, [%[ahead], #128]\n"     \
  "add %[ahead], %[ahead], %[stride]\n"                                                                   \
  MAKAR_SEEDS("q16", "q17", "q18", "q19")                                                                 \
  MAKAR_RUN("32", "%[v], #(192", "", "v16", "v17", "v18", "v19")                                          \
  MAKAR_RUN("48", "%[next], #(0", "", "v16", "v17", "v18", "v19")                                         \
  "add %[d], %[a], #256\n add %[a], %[a], #272\n add %[b], %[b], %[step]\n mov %[v], %[next]\n"
#define MAKAR_LAST(before) MAKAR_PART_1(before) MAKAR_ADD(before)
#define MAKAR_PANEL(start, scales, second)                                                                \
  asm volatile(start                                                                                      \
      "movi v4.4s, #0\n movi v5.4s, #0\n movi v6.4s, #0\n movi v7.4s, #0\n"                               \
      "movi v10.4s, #0\n movi v11.4s, #0\n movi v26.4s, #0\n movi v31.4s, #0\n movi v29.4s, #0\n"         \
      MAKAR_SEEDS("q16", "q17", "q18", "q19")                                                             \
      "ldr q20, [%[v]]\n ldr q21, [%[v], #16]\n ldr q22, [%[v], #32]\n ldr q23, [%[v], #48]\n"            \
      "tbnz %[n], #0, 2f\n"                                                                               \
      "1:\n add %[next], %[v], %[step]\n"                                                                 \
      MAKAR_BLOCK(scales, second, MAKAR_FIRST_SET, "10", "11", "26", "31")                                \
      "sub %[n], %[n], #1\n"                                                                              \
      "2:\n add %[next], %[v], %[step]\n cmp %[n], #1\n csel %[next], %[v], %[next], eq\n" /* the last */ \
      MAKAR_BLOCK(scales, second, MAKAR_SECOND_SET, "4", "5", "6", "7")                                   \
      "subs %[n], %[n], #1\n b.gt 1b\n"                                                                   \
      MAKAR_LAST(MAKAR_FIRST_SET)                                                                         \
      : [n] "+r"(blocks), [a] "+r"(a), [b] "+r"(b), [v] "+r"(values), [d] "+r"(d), [base] "+r"(base),     \
        [next] "=&r"(next), [ahead] "+r"(ahead.at), [y0] "+w"(y[0]), [y1] "+w"(y[1]), [y2] "+w"(y[2]),    \
        [y3] "+w"(y[3])                                                                                   \
      : [seed] "r"(kSeed), [stride] "r"(ahead.step), [step] "i"(group_bytes(F))                           \
      : "memory", "cc", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",     \
        "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", \
        "v30", "v31")
// clang-format on

// y += the product of 4 rows of activations and the panel b of kFormWide or kFormInt8; blocks > 0.
template <int Form>
inline void tile_of_four(int64_t blocks, const std::byte* a, const std::byte* b, Floats (&y)[4],
                         Ahead ahead) {
  constexpr QuantForm F = kQuantForms[Form];
  static_assert(F.values == QuantValues::kInt8 && F.part == 32 && !F.mins && activation_bytes(F, 4) == 272);
  static_assert(F.scales == QuantScales::kFloat || scale_bytes(F) == 16);
  // The scales of the rows before the first block; base, s_1 and -seed where scales are halves.
  alignas(16) const float none[4] = {};
  alignas(16) float scratch[12] = {0, 0, 0, 0, 0, 0, 0, 0, -0x1.8p23f, -0x1.8p23f, -0x1.8p23f, -0x1.8p23f};
  const float *d = none, *base = scratch;
  const std::byte *values = b + scale_bytes(F), *next;
  if constexpr (F.scales == QuantScales::kFloat)
    MAKAR_PANEL("", MAKAR_FLOAT_SCALES, MAKAR_FLOAT_SECOND);
  else
    MAKAR_PANEL(MAKAR_HALF_SCALES("%[b], #0"), "", MAKAR_HALF_SECOND);
}

#undef MAKAR_ROWS
#undef MAKAR_STEP
#undef MAKAR_RUN
#undef MAKAR_SEEDS
#undef MAKAR_FLOAT_SCALES
#undef MAKAR_FLOAT_SECOND
#undef MAKAR_HALF_SCALES
#undef MAKAR_HALF_SECOND
#undef MAKAR_PART_1
#undef MAKAR_PART_0
#undef MAKAR_ADD
#undef MAKAR_FIRST_SET
#undef MAKAR_SECOND_SET
#undef MAKAR_BLOCK
#undef MAKAR_LAST
#undef MAKAR_PANEL

}  // namespace makar::kernels::MAKAR_ISA
