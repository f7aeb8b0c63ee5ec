// Four rows by one panel of 16-bit weights, scheduled by hand: the formula of quant.cpp, the same bits.
//
// A group is two blocks with sums of their own (v12..v15, then v0..v3), so that what is left to do for one in
// floats - converting, scaling, adding: 12 of the 208 instructions of a block that need a pipe - is done in
// one bunch while the dot products of the other go on. Weights and rows of the next run are loaded as soon as
// those of this one are used, one load after each instruction.
#pragma once
#include "kernels/cpu/isa/quant_neon.h"
#include "kernels/quant_form.h"

namespace makar::kernels::MAKAR_ISA {

// clang-format off
// High weights in v20..v23, low ones in v16..v19; high activations in v8..v11, low ones in v4..v7.
#define MAKAR_HIGH "v8", "v9", "v10", "v11"
#define MAKAR_LOW "v4", "v5", "v6", "v7"
// What follows each of four instructions: nothing, or the load of a row from `at` of `from`.
#define MAKAR_NO "", "", "", ""
#define MAKAR_ROWS(a0, a1, a2, a3, from, at)                                                              \
  "ldr " a0 ", [" from ", #(" at ")]\n", "ldr " a1 ", [" from ", #(" at " + 64)]\n",                      \
  "ldr " a2 ", [" from ", #(" at " + 128)]\n", "ldr " a3 ", [" from ", #(" at " + 192)]\n"
#define MAKAR_HIGH_ROWS(from, at) MAKAR_ROWS("q8", "q9", "q10", "q11", from, at)
#define MAKAR_LOW_ROWS(from, at) MAKAR_ROWS("q4", "q5", "q6", "q7", from, at " + 256")
#define MAKAR_JOIN(l0, l1, l2, l3) l0 l1 l2 l3
#define MAKAR_CALL(macro, ...) macro(__VA_ARGS__)
// One step; then what is wanted next comes to the register of its weights.
#define MAKAR_STEP(w, lane, next, a0, a1, a2, a3, l0, l1, l2, l3, x0, x1, x2, x3)                         \
  "sdot " x0 ".4s, v" w ".16b, " a0 ".4b[" lane "]\n" l0 "sdot " x1 ".4s, v" w ".16b, " a1 ".4b[" lane "]\n" l1 \
  "sdot " x2 ".4s, v" w ".16b, " a2 ".4b[" lane "]\n" l2 "sdot " x3 ".4s, v" w ".16b, " a3 ".4b[" lane "]\n" l3 \
  "ldr q" w ", [%[b], #(" next " + 16 * " lane ")]\n"
// A run of high weights by high activations.
#define MAKAR_RUN_1(next, first, last, ...)                                                               \
  MAKAR_CALL(MAKAR_STEP, "20", "0", next, MAKAR_HIGH, first, __VA_ARGS__)                                 \
  MAKAR_CALL(MAKAR_STEP, "21", "1", next, MAKAR_HIGH, MAKAR_NO, __VA_ARGS__)                              \
  MAKAR_CALL(MAKAR_STEP, "22", "2", next, MAKAR_HIGH, MAKAR_NO, __VA_ARGS__)                              \
  MAKAR_CALL(MAKAR_STEP, "23", "3", next, MAKAR_HIGH, last, __VA_ARGS__)
// A run of high by low and of low by high.
#define MAKAR_RUN_2(next_high, next_low, low, high, ...)                                                  \
  MAKAR_CALL(MAKAR_STEP, "20", "0", next_high, MAKAR_LOW, MAKAR_NO, __VA_ARGS__)                          \
  MAKAR_CALL(MAKAR_STEP, "21", "1", next_high, MAKAR_LOW, MAKAR_NO, __VA_ARGS__)                          \
  MAKAR_CALL(MAKAR_STEP, "22", "2", next_high, MAKAR_LOW, MAKAR_NO, __VA_ARGS__)                          \
  MAKAR_CALL(MAKAR_STEP, "23", "3", next_high, MAKAR_LOW, low, __VA_ARGS__)                               \
  MAKAR_CALL(MAKAR_STEP, "16", "0", next_low, MAKAR_HIGH, MAKAR_NO, __VA_ARGS__)                          \
  MAKAR_CALL(MAKAR_STEP, "17", "1", next_low, MAKAR_HIGH, MAKAR_NO, __VA_ARGS__)                          \
  MAKAR_CALL(MAKAR_STEP, "18", "2", next_low, MAKAR_HIGH, MAKAR_NO, __VA_ARGS__)                          \
  MAKAR_CALL(MAKAR_STEP, "19", "3", next_low, MAKAR_HIGH, high, __VA_ARGS__)
#define MAKAR_TIMES_256(x0, x1, x2, x3)                                                                   \
  "shl " x0 ".4s, " x0 ".4s, #8\n shl " x1 ".4s, " x1 ".4s, #8\n"                                         \
  "shl " x2 ".4s, " x2 ".4s, #8\n shl " x3 ".4s, " x3 ".4s, #8\n"
#define MAKAR_NOTHING(x0, x1, x2, x3)                                                                     \
  "movi " x0 ".4s, #0\n movi " x1 ".4s, #0\n movi " x2 ".4s, #0\n movi " x3 ".4s, #0\n"
// y += (x s) d, with s in `scale` and the d of four rows at `d`.
#define MAKAR_FINISH(d, scale, x0, x1, x2, x3)                                                            \
  "ldr q28, " d "\n"                                                                                      \
  "scvtf " x0 ".4s, " x0 ".4s\n scvtf " x1 ".4s, " x1 ".4s\n"                                             \
  "scvtf " x2 ".4s, " x2 ".4s\n scvtf " x3 ".4s, " x3 ".4s\n"                                             \
  "fmul " x0 ".4s, " x0 ".4s, " scale ".4s\n fmul " x1 ".4s, " x1 ".4s, " scale ".4s\n"                   \
  "fmul " x2 ".4s, " x2 ".4s, " scale ".4s\n fmul " x3 ".4s, " x3 ".4s, " scale ".4s\n"                   \
  "fmla %[y0].4s, " x0 ".4s, v28.s[0]\n fmla %[y1].4s, " x1 ".4s, v28.s[1]\n"                             \
  "fmla %[y2].4s, " x2 ".4s, v28.s[2]\n fmla %[y3].4s, " x3 ".4s, v28.s[3]\n"
#define MAKAR_AHEAD                                                                                       \
  "prfm pldl2keep, [%[ahead]]\n prfm pldl2keep, [%[ahead], #64]\n prfm pldl2keep, [%[ahead], #128]\n"     \
  "add %[ahead], %[ahead], %[stride]\n"
// One block whose weights stand at w and activations at a; `other` finishes the one before, `next` has the
// high weights of the one after, `at` of `from` its rows.
#define MAKAR_BLOCK(w, a, next, from, at, other, ...)                                                        \
  MAKAR_NOTHING(__VA_ARGS__)                                                                              \
  MAKAR_RUN_1(w " + 64", MAKAR_NO, MAKAR_HIGH_ROWS("%[a]", a " + 16"), __VA_ARGS__)                       \
  MAKAR_RUN_1(w " + 128", MAKAR_NO, MAKAR_HIGH_ROWS("%[a]", a " + 32"), __VA_ARGS__)                      \
  other                                                                                                   \
  MAKAR_RUN_1(w " + 192", MAKAR_NO, MAKAR_HIGH_ROWS("%[a]", a " + 48"), __VA_ARGS__) MAKAR_AHEAD          \
  "ldr q16, [%[b], #(" w " + 256)]\n ldr q17, [%[b], #(" w " + 272)]\n"                                   \
  "ldr q18, [%[b], #(" w " + 288)]\n ldr q19, [%[b], #(" w " + 304)]\n"                                   \
  MAKAR_RUN_1(w, MAKAR_LOW_ROWS("%[a]", a), MAKAR_HIGH_ROWS("%[a]", a), __VA_ARGS__)                      \
  MAKAR_TIMES_256(__VA_ARGS__)                                                                            \
  MAKAR_RUN_2(w " + 64", w " + 320", MAKAR_LOW_ROWS("%[a]", a " + 16"), MAKAR_HIGH_ROWS("%[a]", a " + 16"), __VA_ARGS__) \
  MAKAR_RUN_2(w " + 128", w " + 384", MAKAR_LOW_ROWS("%[a]", a " + 32"), MAKAR_HIGH_ROWS("%[a]", a " + 32"), __VA_ARGS__) \
  MAKAR_RUN_2(w " + 192", w " + 448", MAKAR_LOW_ROWS("%[a]", a " + 48"), MAKAR_HIGH_ROWS("%[a]", a " + 48"), __VA_ARGS__) \
  MAKAR_RUN_2(next, w, MAKAR_NO, MAKAR_HIGH_ROWS(from, at), __VA_ARGS__)
// clang-format on

// y += the product of 4 rows of activations and the panel b of kFormInt16; an even number of blocks, not 0.
inline void tile16_of_four(int64_t blocks, const std::byte* a, const std::byte* b, Floats (&y)[4],
                           Ahead ahead) {
  constexpr QuantForm F = kQuantForms[kFormInt16];
  static_assert(scale_bytes(F) == 16 && group_bytes(F) == 1040 && activation_bytes(F, 4) == 528);
  int64_t groups = blocks / 2;
  alignas(16) const float none[4] = {};
  const float* d = none;
  const std::byte* after;
  // clang-format off
  // Scales of the second block of the group before are in v29; there is none at first. The last loads of a
  // group are of its own weights again, so that nothing beyond the panel is read; the group after begins with
  // loads of its own.
  asm volatile(
      "movi v29.4s, #0\n" MAKAR_NOTHING("v0", "v1", "v2", "v3")
      MAKAR_CALL(MAKAR_JOIN, MAKAR_HIGH_ROWS("%[a]", "0"))
      "1:\n add %[an], %[a], #1056\n cmp %[n], #1\n csel %[an], %[a], %[an], eq\n"
      "ldr q20, [%[b], #16]\n ldr q21, [%[b], #32]\n ldr q22, [%[b], #48]\n ldr q23, [%[b], #64]\n"
      MAKAR_BLOCK("16", "0", "528", "%[a]", "528", MAKAR_FINISH("[%[d]]", "v29", "v0", "v1", "v2", "v3"),
                  "v12", "v13", "v14", "v15")
      "ldr q29, [%[b]]\n fcvtl v27.4s, v29.4h\n fcvtl2 v29.4s, v29.8h\n"
      MAKAR_BLOCK("528", "528", "16", "%[an]", "0", MAKAR_FINISH("[%[a], #512]", "v27", "v12", "v13", "v14", "v15"),
                  "v0", "v1", "v2", "v3")
      "add %[d], %[a], #1040\n mov %[a], %[an]\n add %[b], %[b], #1040\n"
      "subs %[n], %[n], #1\n b.ne 1b\n"
      MAKAR_FINISH("[%[d]]", "v29", "v0", "v1", "v2", "v3")
      : [n] "+&r"(groups), [a] "+&r"(a), [b] "+&r"(b), [d] "+&r"(d), [ahead] "+&r"(ahead.at), [y0] "+&w"(y[0]),
        [an] "=&r"(after), [y1] "+&w"(y[1]), [y2] "+&w"(y[2]), [y3] "+&w"(y[3])
      : [stride] "r"(ahead.step)
      : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",
        "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v27", "v28", "v29");
  // clang-format on
}

#undef MAKAR_HIGH
#undef MAKAR_LOW
#undef MAKAR_NO
#undef MAKAR_ROWS
#undef MAKAR_HIGH_ROWS
#undef MAKAR_LOW_ROWS
#undef MAKAR_JOIN
#undef MAKAR_CALL
#undef MAKAR_STEP
#undef MAKAR_RUN_1
#undef MAKAR_RUN_2
#undef MAKAR_TIMES_256
#undef MAKAR_NOTHING
#undef MAKAR_FINISH
#undef MAKAR_AHEAD
#undef MAKAR_BLOCK

}  // namespace makar::kernels::MAKAR_ISA
