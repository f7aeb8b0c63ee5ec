// Four rows by pairs of blocks of one panel of int8 without mins, scheduled by hand: the formula of quant.cpp,
// the same bits.
//
// On Neoverse-N1 a multiplication between dot products takes the place of two of them, because its result
// comes a cycle or two later and meets theirs at the end of the pipe; multiplications in a row take one each.
// So the float work of two blocks, 24 operations beside 128 dot products, is done in one bunch at their end,
// in an order in which nothing waits. The scales stand in registers of the rows meanwhile, the second sums t
// in those of the first integer sums. Weights of the next run are loaded as soon as those of this one are
// used. Meanwhile up to 192 bytes a block of what is wanted next are asked for. 129 of the 159 GOP/s of dot
// products alone from the first cache, 124 with rows from the second.
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
  "sdot v" x0 ".4s, v" w ".16b, v8.4b[" lane "]\n sdot v" x1 ".4s, v" w ".16b, v9.4b[" lane "]\n"         \
  "sdot v" x2 ".4s, v" w ".16b, v24.4b[" lane "]\n sdot v" x3 ".4s, v" w ".16b, v25.4b[" lane "]\n"       \
  "ldr q" w ", [" next " + 16 * " lane ")]\n"
#define MAKAR_RUN(at, next, ...)                                                                          \
  MAKAR_ROWS(at)                                                                                          \
  MAKAR_STEP("20", "0", next, __VA_ARGS__) MAKAR_STEP("21", "1", next, __VA_ARGS__)                       \
  MAKAR_STEP("22", "2", next, __VA_ARGS__) MAKAR_STEP("23", "3", next, __VA_ARGS__)
// The same to four registers: loaded, because loads are free here and moves between registers are not.
#define MAKAR_ALL(from, x0, x1, x2, x3)                                                                   \
  "ldr q" x0 ", " from "\n ldr q" x1 ", " from "\n ldr q" x2 ", " from "\n ldr q" x3 ", " from "\n"
// A part: 32 k of the rows at `at` by the weights that are loaded, those at `half`, and those at `next` loaded.
#define MAKAR_PART(at, half, next, ...)                                                                   \
  MAKAR_ALL("[%[seed]]", __VA_ARGS__)                                                                     \
  MAKAR_RUN(at, half, __VA_ARGS__) MAKAR_RUN(at " + 16", next, __VA_ARGS__)
#define MAKAR_AHEAD                                                                                       \
  "prfm pldl2keep, [%[ahead]]\n prfm pldl2keep, [%[ahead], #64]\n prfm pldl2keep, [%[ahead], #128]\n"     \
  "add %[ahead], %[ahead], %[stride]\n"
#define MAKAR_FMLA(t0, t1, t2, t3, x0, x1, x2, x3, s)                                                     \
  "fmla v" t0 ".4s, v" x0 ".4s, " s ".4s\n fmla v" t1 ".4s, v" x1 ".4s, " s ".4s\n"                       \
  "fmla v" t2 ".4s, v" x2 ".4s, " s ".4s\n fmla v" t3 ".4s, v" x3 ".4s, " s ".4s\n"
#define MAKAR_ADD(t0, t1, t2, t3, d)                                                                      \
  "fmla %[y0].4s, v" t0 ".4s, " d ".s[0]\n fmla %[y1].4s, v" t1 ".4s, " d ".s[1]\n"                       \
  "fmla %[y2].4s, v" t2 ".4s, " d ".s[2]\n fmla %[y3].4s, v" t3 ".4s, " d ".s[3]\n"
#define MAKAR_A0 "12", "13", "14", "15"
#define MAKAR_A1 "16", "17", "18", "19"
#define MAKAR_B0 "4", "5", "6", "7"
#define MAKAR_B1 "26", "27", "30", "31"
#define MAKAR_T "10", "11", "28", "29"
#define MAKAR_CALL(macro, ...) macro(__VA_ARGS__)
// clang-format on

struct Stepped {
  const std::byte* at;
  int64_t step;  // bytes from one block to the next
};

constexpr int64_t kTileScales = 3 * 4;  // floats for a block: s_0, s_1, base of four columns

// y += the product of 4 rows of activations and an even number of blocks of a panel; blocks > 0.
inline void tile_of_four(int64_t blocks, const std::byte* a, Stepped values, Stepped scales, Floats (&y)[4],
                         Ahead ahead) {
  static_assert(activation_bytes(kQuantForms[kFormWide], 4) == 272);
  const std::byte *second, *second_scales, *next;
  // clang-format off
  asm volatile(
      "ldr q20, [%[v]]\n ldr q21, [%[v], #16]\n ldr q22, [%[v], #32]\n ldr q23, [%[v], #48]\n"
      "1:\n add %[w], %[v], %[step]\n add %[next], %[w], %[step]\n add %[r], %[s], %[scale_step]\n"
      "subs %[n], %[n], #2\n csel %[next], %[v], %[next], eq\n"  // the last loads what it has
      MAKAR_CALL(MAKAR_PART, "0", "%[v], #(64", "%[v], #(128", MAKAR_A0) MAKAR_AHEAD
      MAKAR_CALL(MAKAR_PART, "32", "%[v], #(192", "%[w], #(0", MAKAR_A1)
      MAKAR_CALL(MAKAR_PART, "272", "%[w], #(64", "%[w], #(128", MAKAR_B0) MAKAR_AHEAD
      MAKAR_CALL(MAKAR_PART, "272 + 32", "%[w], #(192", "%[next], #(0", MAKAR_B1)
      "ldr q8, [%[s]]\n ldr q9, [%[s], #16]\n ldr q24, [%[r]]\n ldr q25, [%[r], #16]\n"
      MAKAR_CALL(MAKAR_ALL, "[%[s], #32]", MAKAR_T)
      MAKAR_CALL(MAKAR_FMLA, MAKAR_T, MAKAR_A0, "v8")
      MAKAR_CALL(MAKAR_ALL, "[%[r], #32]", MAKAR_A0)
      MAKAR_CALL(MAKAR_FMLA, MAKAR_T, MAKAR_A1, "v9")
      "ldr q16, [%[a], #256]\n ldr q17, [%[a], #(272 + 256)]\n"
      MAKAR_CALL(MAKAR_FMLA, MAKAR_A0, MAKAR_B0, "v24")
      MAKAR_CALL(MAKAR_FMLA, MAKAR_A0, MAKAR_B1, "v25")
      MAKAR_CALL(MAKAR_ADD, MAKAR_T, "v16") MAKAR_CALL(MAKAR_ADD, MAKAR_A0, "v17")
      "add %[a], %[a], #(2 * 272)\n mov %[v], %[next]\n add %[s], %[r], %[scale_step]\n"
      "cbnz %[n], 1b\n"
      : [n] "+r"(blocks), [a] "+r"(a), [v] "+r"(values.at), [s] "+r"(scales.at), [w] "=&r"(second),
        [r] "=&r"(second_scales), [next] "=&r"(next), [ahead] "+r"(ahead.at), [y0] "+w"(y[0]),
        [y1] "+w"(y[1]), [y2] "+w"(y[2]), [y3] "+w"(y[3])
      : [seed] "r"(kSeed), [stride] "r"(ahead.step), [step] "r"(values.step), [scale_step] "r"(scales.step)
      : "memory", "cc", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
        "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
        "v30", "v31");
  // clang-format on
}

#undef MAKAR_ROWS
#undef MAKAR_STEP
#undef MAKAR_RUN
#undef MAKAR_ALL
#undef MAKAR_PART
#undef MAKAR_AHEAD
#undef MAKAR_FMLA
#undef MAKAR_ADD
#undef MAKAR_A0
#undef MAKAR_A1
#undef MAKAR_B0
#undef MAKAR_B1
#undef MAKAR_T
#undef MAKAR_CALL

}  // namespace makar::kernels::MAKAR_ISA
