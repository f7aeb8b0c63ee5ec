// Four rows by one panel of int8 without mins, scheduled by hand: the formula of quant.cpp, the same bits.
//
// On Neoverse-N1 a multiplication between dot products takes the place of two of them, because its result
// comes a cycle or two later and meets theirs at the end of the pipe; multiplications in a row take one each.
// So the float work is done in two bunches a block, late enough that everything in them is ready:
// - while part 0 is summed: t = fma(seed + x_1, s_1, t) of the block before;
// - while part 1 is summed: y += t d of the block before, and t = fma(seed + x_0, s_0, base) of this one.
// Between the two, up to 192 bytes of what is wanted next are asked for.
#pragma once
#include "kernels/cpu/isa/quant_neon.h"
#include "kernels/quant_form.h"

namespace makar::kernels::MAKAR_ISA {

// Rows of 16 k in v8, v9, v24, v25; weights in v20..v23; sums x0..x3.
#define MAKAR_LOAD_RUN(at_w, at_a)                              \
  "ldr q20, [%[v], #(" at_w ")]\n ldr q21, [%[v], #(" at_w      \
  " + 16)]\n"                                                   \
  "ldr q22, [%[v], #(" at_w " + 32)]\n ldr q23, [%[v], #(" at_w \
  " + 48)]\n"                                                   \
  "ldr q8, [%[a], #(" at_a ")]\n ldr q9, [%[a], #(" at_a        \
  " + 64)]\n"                                                   \
  "ldr q24, [%[a], #(" at_a " + 128)]\n ldr q25, [%[a], #(" at_a " + 192)]\n"
#define MAKAR_DOTS(w, lane, x0, x1, x2, x3)                                             \
  "sdot " x0 ".4s, " w ".16b, v8.4b[" lane "]\n sdot " x1 ".4s, " w ".16b, v9.4b[" lane \
  "]\n"                                                                                 \
  "sdot " x2 ".4s, " w ".16b, v24.4b[" lane "]\n sdot " x3 ".4s, " w ".16b, v25.4b[" lane "]\n"
#define MAKAR_DOTS_0(lane, w) MAKAR_DOTS(w, lane, "v12", "v13", "v14", "v15")
#define MAKAR_DOTS_1(lane, w) MAKAR_DOTS(w, lane, "v16", "v17", "v18", "v19")
#define MAKAR_SEEDS(x0, x1, x2, x3) \
  "ldr " x0 ", [%[seed]]\n ldr " x1 ", [%[seed]]\n ldr " x2 ", [%[seed]]\n ldr " x3 ", [%[seed]]\n"
#define MAKAR_FINISH_PART_1                                   \
  "fmla v4.4s, v16.4s, v29.4s\n fmla v5.4s, v17.4s, v29.4s\n" \
  "fmla v6.4s, v18.4s, v29.4s\n fmla v7.4s, v19.4s, v29.4s\n"
#define MAKAR_FINISH_BLOCK                                            \
  "ldr q28, [%[d]]\n"                                                 \
  "fmla %[y0].4s, v4.4s, v28.s[0]\n fmla %[y1].4s, v5.4s, v28.s[1]\n" \
  "fmla %[y2].4s, v6.4s, v28.s[2]\n fmla %[y3].4s, v7.4s, v28.s[3]\n"
// s_0 comes to v27, s_1 to v29, -seed (s_0 + s_1) to memory.
#define MAKAR_FLOAT_SCALES "ldr q27, [%[b]]\n ldr q29, [%[b], #16]\n add %[base], %[b], #32\n"
#define MAKAR_HALF_SCALES                                            \
  "ldr q27, [%[b]]\n fcvtl2 v29.4s, v27.8h\n fcvtl v27.4s, v27.4h\n" \
  "fadd v10.4s, v27.4s, v29.4s\n fmul v10.4s, v10.4s, v30.4s\n str q10, [%[base]]\n"

#define MAKAR_PANEL(scales) \
  asm volatile(                                                                                           \
      "movi v4.4s, #0\n movi v5.4s, #0\n movi v6.4s, #0\n movi v7.4s, #0\n movi v29.4s, #0\n"             \
      MAKAR_SEEDS("q16", "q17", "q18", "q19")                                                             \
      "ldr q30, [%[seed]]\n fneg v30.4s, v30.4s\n"                                                        \
      "1:\n"                                                                                              \
      MAKAR_SEEDS("q12", "q13", "q14", "q15")                                                             \
      MAKAR_LOAD_RUN("0", "0")                                                                            \
      MAKAR_DOTS_0("0", "v20") MAKAR_DOTS_0("1", "v21") MAKAR_DOTS_0("2", "v22") MAKAR_DOTS_0("3", "v23") \
      MAKAR_LOAD_RUN("64", "16")                                                                          \
      MAKAR_DOTS_0("0", "v20")                                                                            \
      MAKAR_FINISH_PART_1 scales                                                                          \
      MAKAR_DOTS_0("1", "v21") MAKAR_DOTS_0("2", "v22") MAKAR_DOTS_0("3", "v23")                          \
      "prfm pldl2keep, [%[ahead]]\n prfm pldl2keep, [%[ahead], #64]\n prfm pldl2keep, [%[ahead], #128]\n" \
      "add %[ahead], %[ahead], %[stride]\n"                                                               \
      MAKAR_SEEDS("q16", "q17", "q18", "q19")                                                             \
      MAKAR_LOAD_RUN("128", "32")                                                                         \
      MAKAR_DOTS_1("0", "v20") MAKAR_DOTS_1("1", "v21") MAKAR_DOTS_1("2", "v22") MAKAR_DOTS_1("3", "v23") \
      MAKAR_FINISH_BLOCK                                                                                  \
      "ldr q4, [%[base]]\n ldr q5, [%[base]]\n ldr q6, [%[base]]\n ldr q7, [%[base]]\n"                   \
      "fmla v4.4s, v12.4s, v27.4s\n fmla v5.4s, v13.4s, v27.4s\n"                                         \
      "fmla v6.4s, v14.4s, v27.4s\n fmla v7.4s, v15.4s, v27.4s\n"                                         \
      MAKAR_LOAD_RUN("192", "48")                                                                         \
      MAKAR_DOTS_1("0", "v20") MAKAR_DOTS_1("1", "v21") MAKAR_DOTS_1("2", "v22") MAKAR_DOTS_1("3", "v23") \
      "add %[d], %[a], #256\n add %[a], %[a], #272\n"                                                     \
      "add %[b], %[b], %[step]\n add %[v], %[v], %[step]\n"                                               \
      "subs %[n], %[n], #1\n b.ne 1b\n"                                                                   \
      MAKAR_FINISH_PART_1 MAKAR_FINISH_BLOCK                                        \
      : [n] "+r"(blocks), [a] "+r"(a), [b] "+r"(b), [v] "+r"(values), [d] "+r"(d), [base] "+r"(base), [ahead] "+r"(ahead.at), \
        [y0] "+w"(y[0]), [y1] "+w"(y[1]), [y2] "+w"(y[2]), [y3] "+w"(y[3])                                \
      : [seed] "r"(kSeed), [stride] "r"(ahead.step), [step] "i"(group_bytes(F))                                                     \
      : "memory", "cc", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v12", "v13", "v14", "v15", "v16",     \
        "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v27", "v28", "v29", "v30")

// y += the product of 4 rows of activations and the panel b of kFormWide or kFormInt8; blocks > 0.
template <int Form>
inline void tile_of_four(int64_t blocks, const std::byte* a, const std::byte* b, Floats (&y)[4],
                         Ahead ahead) {
  constexpr QuantForm F = kQuantForms[Form];
  static_assert(F.values == QuantValues::kInt8 && F.part == 32 && !F.mins && activation_bytes(F, 4) == 272);
  alignas(16) float scratch[4] = {};  // also the scales of the rows before the first block
  const float *d = scratch, *base = scratch;
  const std::byte* values = b + scale_bytes(F);
  if constexpr (F.scales == QuantScales::kFloat)
    MAKAR_PANEL(MAKAR_FLOAT_SCALES);
  else
    MAKAR_PANEL(MAKAR_HALF_SCALES);
}

#undef MAKAR_LOAD_RUN
#undef MAKAR_DOTS
#undef MAKAR_DOTS_0
#undef MAKAR_DOTS_1
#undef MAKAR_SEEDS
#undef MAKAR_FINISH_PART_1
#undef MAKAR_FINISH_BLOCK
#undef MAKAR_FLOAT_SCALES
#undef MAKAR_HALF_SCALES
#undef MAKAR_PANEL

}  // namespace makar::kernels::MAKAR_ISA
