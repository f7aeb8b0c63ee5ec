// Eight rows by one panel, scheduled by hand: the formula of quant.cpp, the same bits.
//
// On Neoverse-N1 a multiplication between dot products takes the place of two of them, because its result
// comes a cycle or two later and meets theirs at the end of the pipe; multiplications in a row take one each.
// So the float work of a block of two parts, 24 operations beside 128 dot products (40 with mins), is done in
// one bunch at its end, in an order in which nothing waits; of four parts each has its bunch. What is wanted
// next, weights, rows, starts of sums, is loaded (and unpacked) as soon as its register is free, one load
// after each instruction: in a row they would keep the pipes waiting. The sums of the rows stand in memory
// between the blocks. 125 of the 159 GOP/s of dot products alone with int8, 114 with 4 bits as they are.
#pragma once
#include "kernels/cpu/isa/quant_neon.h"
#include "kernels/quant_form.h"

namespace makar::kernels::MAKAR_ISA {

// A panel and two panels of four rows each, block by block.
struct EightRows {
  int64_t blocks;
  const std::byte *a, *other;  // rows 0..3 and 4..7
  const std::byte* values;
  int64_t group, gap;  // blocks that follow each other closely, and the bytes between them and the next ones
  const std::byte* scales;
  int64_t scale_step;
  float* y;  // [8][4]
  Ahead ahead;
};

// clang-format off
// Of row i: integer sums in v0..v7 (F) and v8..v15 (S), activations and then t in v16..v23 (T). Weights in v24..v27.
#define MAKAR_EIGHT(m, ...)                                                                               \
  m(0, __VA_ARGS__) m(1, __VA_ARGS__) m(2, __VA_ARGS__) m(3, __VA_ARGS__)                                 \
  m(4, __VA_ARGS__) m(5, __VA_ARGS__) m(6, __VA_ARGS__) m(7, __VA_ARGS__)
#define MAKAR_F(i) #i
#define MAKAR_S_0 "8"
#define MAKAR_S_1 "9"
#define MAKAR_S_2 "10"
#define MAKAR_S_3 "11"
#define MAKAR_S_4 "12"
#define MAKAR_S_5 "13"
#define MAKAR_S_6 "14"
#define MAKAR_S_7 "15"
#define MAKAR_S(i) MAKAR_S_##i
#define MAKAR_T_0 "16"
#define MAKAR_T_1 "17"
#define MAKAR_T_2 "18"
#define MAKAR_T_3 "19"
#define MAKAR_T_4 "20"
#define MAKAR_T_5 "21"
#define MAKAR_T_6 "22"
#define MAKAR_T_7 "23"
#define MAKAR_T(i) MAKAR_T_##i
// What follows an instruction for row i: loads, which are free here (and moves between registers are not).
#define MAKAR_NO(i)
#define MAKAR_SEED_F(i) "ldr q" MAKAR_F(i) ", [%[seed]]\n"
#define MAKAR_SEED_S(i) "ldr q" MAKAR_S(i) ", [%[seed]]\n"
#define MAKAR_BASE_32(i) "ldr q" MAKAR_T(i) ", [%[s], #32]\n"
#define MAKAR_BASE_64(i) "ldr q" MAKAR_T(i) ", [%[s], #64]\n"
#define MAKAR_BASE_S(i) "ldr q" MAKAR_S(i) ", [%[s], #64]\n"
#define MAKAR_LOAD_F(i) "ldr q" MAKAR_F(i) ", [%[y], #(16 * " #i ")]\n"
#define MAKAR_LOAD_S(i) "ldr q" MAKAR_S(i) ", [%[y], #(16 * " #i ")]\n"
#define MAKAR_STORE_F(i) "str q" MAKAR_F(i) ", [%[y], #(16 * " #i ")]\n"
#define MAKAR_STORE_S(i) "str q" MAKAR_S(i) ", [%[y], #(16 * " #i ")]\n"
#define MAKAR_ROW(i, panel, at) "ldr q" MAKAR_T(i) ", [%[" panel "], #(" at " + 64 * (" #i " & 3))]\n"
#define MAKAR_FOUR(i, a, e, at) MAKAR_ROW(i, MAKAR_HALF_##i(a, e), at)
#define MAKAR_HALF_0(a, e) a
#define MAKAR_HALF_1(a, e) a
#define MAKAR_HALF_2(a, e) a
#define MAKAR_HALF_3(a, e) a
#define MAKAR_HALF_4(a, e) e
#define MAKAR_HALF_5(a, e) e
#define MAKAR_HALF_6(a, e) e
#define MAKAR_HALF_7(a, e) e
#define MAKAR_ROWS_0(i) MAKAR_FOUR(i, "a", "e", "0")
#define MAKAR_ROWS_1(i) MAKAR_FOUR(i, "a", "e", "16")
#define MAKAR_ROWS_2(i) MAKAR_FOUR(i, "a", "e", "32")
#define MAKAR_ROWS_3(i) MAKAR_FOUR(i, "a", "e", "48")
#define MAKAR_ROWS_NEXT(i) MAKAR_FOUR(i, "an", "en", "0")
#define MAKAR_EACH(i, m) m(i)
// Weights for the even and the odd runs of a kind.
#define MAKAR_INT8(w, from) "ldr q" w ", " from "\n"
#define MAKAR_EVEN_SIGNED4(w, from) "ldr q" w ", " from "\n shl v" w ".16b, v" w ".16b, #4\n"
#define MAKAR_ODD_SIGNED4(w, from) "ldr q" w ", " from "\n and v" w ".16b, v" w ".16b, v30.16b\n"
#define MAKAR_EVEN_UNSIGNED4(w, from) "ldr q" w ", " from "\n and v" w ".16b, v" w ".16b, v30.16b\n"
#define MAKAR_ODD_UNSIGNED4(w, from) "ldr q" w ", " from "\n ushr v" w ".16b, v" w ".16b, #4\n"
// One step of four columns by four k; then the same step of the next run comes to its register.
#define MAKAR_SDOT(i, X, w, lane, after)                                                                  \
  "sdot v" X(i) ".4s, v" w ".16b, v" MAKAR_T(i) ".4b[" lane "]\n" after(i)
#define MAKAR_STEP(X, w, lane, after, get, from)                                                          \
  MAKAR_EIGHT(MAKAR_SDOT, X, w, lane, after) get(w, "[" from " + 16 * " lane ")]")
#define MAKAR_RUN(X, first, last, get, from)                                                              \
  MAKAR_STEP(X, "24", "0", first, get, from) MAKAR_STEP(X, "25", "1", MAKAR_NO, get, from)                \
  MAKAR_STEP(X, "26", "2", MAKAR_NO, get, from) MAKAR_STEP(X, "27", "3", last, get, from)
#define MAKAR_FMLA(i, t, x, s, after) "fmla v" t(i) ".4s, v" x(i) ".4s, v" s ".4s\n" after(i)
// t += x times a number of each row, from lo and hi; or the same x for all.
#define MAKAR_BY_ROW(i, t, x, lo, hi, after) MAKAR_BY_ROW_ALL(i, t, x(i), lo, hi, after)
#define MAKAR_BY_ROW_ALL(i, t, x, lo, hi, after)                                                          \
  "fmla v" t(i) ".4s, v" x ".4s, v" MAKAR_HALF_##i(lo, hi) ".s[" #i " & 3]\n" after(i)
#define MAKAR_AHEAD                                                                                       \
  "prfm pldl2keep, [%[ahead]]\n prfm pldl2keep, [%[ahead], #64]\n prfm pldl2keep, [%[ahead], #128]\n"     \
  "prfm pldl2keep, [%[ahead], #192]\n add %[ahead], %[ahead], %[stride]\n"
#define MAKAR_START(get)                                                                                  \
  get("24", "[%[v]]") get("25", "[%[v], #16]") get("26", "[%[v], #32]") get("27", "[%[v], #48]")          \
  MAKAR_EIGHT(MAKAR_EACH, MAKAR_SEED_F) MAKAR_EIGHT(MAKAR_EACH, MAKAR_ROWS_0)
// Where the next block stands; the last one loads what it has.
#define MAKAR_NEXT(bytes)                                                                                 \
  "subs %[g], %[g], #1\n csel %[next], %[gap], xzr, eq\n csel %[g], %[group], %[g], eq\n"                 \
  "add %[next], %[next], %[step]\n add %[next], %[next], %[v]\n"                                          \
  "add %[an], %[a], #" bytes "\n add %[en], %[e], #" bytes "\n subs %[n], %[n], #1\n"                     \
  "csel %[next], %[v], %[next], eq\n csel %[an], %[a], %[an], eq\n csel %[en], %[e], %[en], eq\n"
#define MAKAR_GO_ON                                                                                       \
  "mov %[a], %[an]\n mov %[e], %[en]\n mov %[v], %[next]\n"                                               \
  "add %[s], %[s], %[scale_step]\n cbnz %[n], 1b\n"
// A block of two parts of 32 k; at1 to at3: where the weights of its later runs stand.
#define MAKAR_TWO_PARTS(even, odd, at1, at2, at3, base)                                                   \
  MAKAR_RUN(MAKAR_F, MAKAR_NO, MAKAR_ROWS_1, odd, "%[v], #(" at1)                                         \
  MAKAR_RUN(MAKAR_F, MAKAR_SEED_S, MAKAR_ROWS_2, even, "%[v], #(" at2) MAKAR_AHEAD                        \
  MAKAR_RUN(MAKAR_S, MAKAR_NO, MAKAR_ROWS_3, odd, "%[v], #(" at3)                                         \
  "ldr q28, [%[s]]\n ldr q29, [%[s], #16]\n ldr q31, [%[a], #256]\n"                                      \
  MAKAR_RUN(MAKAR_S, MAKAR_NO, base, even, "%[next], #(0")
#define MAKAR_PLAIN_BUNCH                                                                                 \
  MAKAR_EIGHT(MAKAR_FMLA, MAKAR_T, MAKAR_F, "28", MAKAR_SEED_F) "ldr q28, [%[e], #256]\n"                 \
  MAKAR_EIGHT(MAKAR_FMLA, MAKAR_T, MAKAR_S, "29", MAKAR_LOAD_S)                                           \
  MAKAR_EIGHT(MAKAR_BY_ROW, MAKAR_S, MAKAR_T, "31", "28", MAKAR_ROWS_NEXT)                                \
  MAKAR_EIGHT(MAKAR_EACH, MAKAR_STORE_S)
#define MAKAR_MIN_BUNCH                                                                                   \
  MAKAR_EIGHT(MAKAR_FMLA, MAKAR_T, MAKAR_F, "28", MAKAR_NO)                                               \
  "ldr q0, [%[s], #32]\n ldr q1, [%[s], #48]\n ldr q28, [%[e], #256]\n"                                   \
  "ldr q2, [%[a], #272]\n ldr q3, [%[e], #272]\n ldr q4, [%[a], #288]\n ldr q5, [%[e], #288]\n"           \
  MAKAR_EIGHT(MAKAR_FMLA, MAKAR_T, MAKAR_S, "29", MAKAR_LOAD_S)                                           \
  MAKAR_EIGHT(MAKAR_BY_ROW_ALL, MAKAR_T, "0", "2", "3", MAKAR_NO)                                         \
  MAKAR_EIGHT(MAKAR_BY_ROW_ALL, MAKAR_T, "1", "4", "5", MAKAR_NO)                           \
  MAKAR_EIGHT(MAKAR_BY_ROW, MAKAR_S, MAKAR_T, "31", "28", MAKAR_ROWS_NEXT)                                \
  MAKAR_EIGHT(MAKAR_EACH, MAKAR_SEED_F) MAKAR_EIGHT(MAKAR_EACH, MAKAR_STORE_S)
// One of four parts of 16 k: t stands in S.
#define MAKAR_QUARTER(rows, from, s, after)                                                               \
  "ldr q28, [%[s], #" s "]\n" MAKAR_RUN(MAKAR_F, MAKAR_NO, rows, MAKAR_INT8, from)                        \
  MAKAR_EIGHT(MAKAR_FMLA, MAKAR_S, MAKAR_F, "28", after)
#define MAKAR_FOUR_PARTS                                                                                  \
  MAKAR_EIGHT(MAKAR_EACH, MAKAR_BASE_S)                                                                   \
  MAKAR_QUARTER(MAKAR_ROWS_1, "%[v], #(64", "0", MAKAR_SEED_F) MAKAR_AHEAD                                \
  MAKAR_QUARTER(MAKAR_ROWS_2, "%[v], #(128", "16", MAKAR_SEED_F)                                          \
  MAKAR_QUARTER(MAKAR_ROWS_3, "%[v], #(192", "32", MAKAR_SEED_F)                                          \
  "ldr q31, [%[a], #256]\n ldr q29, [%[e], #256]\n"                                                       \
  MAKAR_QUARTER(MAKAR_ROWS_NEXT, "%[next], #(0", "48", MAKAR_LOAD_F)                                      \
  MAKAR_EIGHT(MAKAR_BY_ROW, MAKAR_F, MAKAR_S, "31", "29", MAKAR_NO)                                       \
  MAKAR_EIGHT(MAKAR_EACH, MAKAR_STORE_F) MAKAR_EIGHT(MAKAR_EACH, MAKAR_SEED_F)
#define MAKAR_TILE(start, body, bytes)                                                                    \
  asm volatile(start "1:\n" MAKAR_NEXT(bytes) body MAKAR_GO_ON                                            \
      : [n] "+&r"(r.blocks), [a] "+&r"(r.a), [e] "+&r"(r.other), [v] "+&r"(r.values), [s] "+&r"(r.scales),     \
        [an] "=&r"(a), [en] "=&r"(other), [next] "=&r"(next), [ahead] "+&r"(r.ahead.at), [g] "+&r"(left)    \
      : [seed] "r"(kSeed), [stride] "r"(r.ahead.step), [step] "r"(value_bytes(F)), [group] "r"(r.group),  \
        [gap] "r"(r.gap), [scale_step] "r"(r.scale_step), [y] "r"(r.y), [mask] "r"(mask)                  \
      : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",  \
        "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", \
        "v27", "v28", "v29", "v30", "v31")
#define MAKAR_BYTES(base) MAKAR_TWO_PARTS(MAKAR_INT8, MAKAR_INT8, "64", "128", "192", base)
#define MAKAR_NIBBLES(even, odd, base) MAKAR_TWO_PARTS(even, odd, "0", "64", "64", base)
#define MAKAR_MASK "ld1r {v30.16b}, [%[mask]]\n"

constexpr bool takes_eight(const QuantForm& f) {
  if (f.part == 16) return f.values == QuantValues::kInt8 && !f.mins;
  return f.part == 32 && (f.values == QuantValues::kInt8 || (f.values == QuantValues::kSigned4 && !f.mins) ||
                          (f.values == QuantValues::kUnsigned4 && f.mins));
}

// y += the product; blocks > 0.
template <int Form>
inline void eight_rows_by_panel(EightRows r) {
  constexpr QuantForm F = kQuantForms[Form];
  static_assert(takes_eight(F) && activation_bytes(F, 4) == (F.mins ? 304 : 272));
  constexpr uint8_t mask_byte = F.values == QuantValues::kSigned4 ? 0xf0 : 0x0f;
  const uint8_t* mask = &mask_byte;
  const std::byte *a, *other, *next;
  int64_t left = r.group;
  if constexpr (F.part == 16)
    MAKAR_TILE(MAKAR_START(MAKAR_INT8), MAKAR_FOUR_PARTS, "272");
  else if constexpr (F.values == QuantValues::kSigned4)
    MAKAR_TILE(MAKAR_MASK MAKAR_START(MAKAR_EVEN_SIGNED4),
               MAKAR_NIBBLES(MAKAR_EVEN_SIGNED4, MAKAR_ODD_SIGNED4, MAKAR_BASE_32) MAKAR_PLAIN_BUNCH, "272");
  else if constexpr (F.values == QuantValues::kUnsigned4)
    MAKAR_TILE(MAKAR_MASK MAKAR_START(MAKAR_EVEN_UNSIGNED4),
               MAKAR_NIBBLES(MAKAR_EVEN_UNSIGNED4, MAKAR_ODD_UNSIGNED4, MAKAR_BASE_64) MAKAR_MIN_BUNCH, "304");
  else if constexpr (F.mins)
    MAKAR_TILE(MAKAR_START(MAKAR_INT8), MAKAR_BYTES(MAKAR_BASE_64) MAKAR_MIN_BUNCH, "304");
  else
    MAKAR_TILE(MAKAR_START(MAKAR_INT8), MAKAR_BYTES(MAKAR_BASE_32) MAKAR_PLAIN_BUNCH, "272");
}
// clang-format on

#undef MAKAR_EIGHT
#undef MAKAR_F
#undef MAKAR_S_0
#undef MAKAR_S_1
#undef MAKAR_S_2
#undef MAKAR_S_3
#undef MAKAR_S_4
#undef MAKAR_S_5
#undef MAKAR_S_6
#undef MAKAR_S_7
#undef MAKAR_S
#undef MAKAR_T_0
#undef MAKAR_T_1
#undef MAKAR_T_2
#undef MAKAR_T_3
#undef MAKAR_T_4
#undef MAKAR_T_5
#undef MAKAR_T_6
#undef MAKAR_T_7
#undef MAKAR_T
#undef MAKAR_NO
#undef MAKAR_SEED_F
#undef MAKAR_SEED_S
#undef MAKAR_BASE_32
#undef MAKAR_BASE_64
#undef MAKAR_BASE_S
#undef MAKAR_LOAD_F
#undef MAKAR_LOAD_S
#undef MAKAR_STORE_F
#undef MAKAR_STORE_S
#undef MAKAR_ROW
#undef MAKAR_FOUR
#undef MAKAR_HALF_0
#undef MAKAR_HALF_1
#undef MAKAR_HALF_2
#undef MAKAR_HALF_3
#undef MAKAR_HALF_4
#undef MAKAR_HALF_5
#undef MAKAR_HALF_6
#undef MAKAR_HALF_7
#undef MAKAR_ROWS_0
#undef MAKAR_ROWS_1
#undef MAKAR_ROWS_2
#undef MAKAR_ROWS_3
#undef MAKAR_ROWS_NEXT
#undef MAKAR_EACH
#undef MAKAR_INT8
#undef MAKAR_EVEN_SIGNED4
#undef MAKAR_ODD_SIGNED4
#undef MAKAR_EVEN_UNSIGNED4
#undef MAKAR_ODD_UNSIGNED4
#undef MAKAR_SDOT
#undef MAKAR_STEP
#undef MAKAR_RUN
#undef MAKAR_FMLA
#undef MAKAR_BY_ROW
#undef MAKAR_BY_ROW_ALL
#undef MAKAR_AHEAD
#undef MAKAR_START
#undef MAKAR_NEXT
#undef MAKAR_GO_ON
#undef MAKAR_TWO_PARTS
#undef MAKAR_PLAIN_BUNCH
#undef MAKAR_MIN_BUNCH
#undef MAKAR_QUARTER
#undef MAKAR_FOUR_PARTS
#undef MAKAR_TILE
#undef MAKAR_BYTES
#undef MAKAR_NIBBLES
#undef MAKAR_MASK

}  // namespace makar::kernels::MAKAR_ISA
