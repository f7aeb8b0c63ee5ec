// Eight rows of int8 activations by one panel of four columns of quantized weights, for NEON with dot products.
// quant_tile_neon.h declares these functions and their arguments; the results are bit-identical to the formula of quant.cpp.
//
// Per block of 64 k: four runs of 16 k, a run is four steps of 4 k, a step is one sdot per row. Integer sums start from
// kSeed (1.5 * 2^23 as an integer), so that they read as floats; the sums of a part are then scaled into t, and t times the
// scale of each row is added to y.
//
// Registers:
//   v0-v7    F: integer sums of rows 0-7, first part of the block
//   v8-v15   S: integer sums, second part; with four parts per block: t
//   v16-v23  T: 16 activations of each row; at the end of a block of two parts: t
//   v24-v27  weights: one step each, 4 columns by 4 k
//   v28, v29, v31  scales; v30  the mask of 4-bit weights
//   x0 blocks left    x1 rows 0-3       x2 rows 4-7       x3 weights      x4 scales
//   x5 next x1        x6 next x2        x7 next x3        x8 prefetch     x9 blocks left in the group
//   x10 seed          x11 prefetch step x12 group         x13 gap         x14 scale step    x15 y [8][4]
//
// How it was tuned (Neoverse-N1, 159 GOP/s of sdot alone; this reaches 125 with int8, 114 with 4 bits):
//   - A multiplication between dot products costs two issue slots, because its result is available a cycle or two later;
//     consecutive multiplications cost one slot each. So the float work of a block is grouped at its end.
//   - Everything needed next (weights, rows, seeds) is loaded as soon as its register is free, one load after each
//     instruction; several loads in a row stall the pipes (7 %).
//   - Moves between registers cost an issue slot, loads do not: seeds are loaded from memory.
// Measure a change with ./dev bench quant; test_kernels compares the bits with portable code.

.macro name_rows
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    F\i .req v\i
    qF\i .req q\i
  .endr
.endm
  name_rows
S0 .req v8
S1 .req v9
S2 .req v10
S3 .req v11
S4 .req v12
S5 .req v13
S6 .req v14
S7 .req v15
T0 .req v16
T1 .req v17
T2 .req v18
T3 .req v19
T4 .req v20
T5 .req v21
T6 .req v22
T7 .req v23
qS0 .req q8
qS1 .req q9
qS2 .req q10
qS3 .req q11
qS4 .req q12
qS5 .req q13
qS6 .req q14
qS7 .req q15
qT0 .req q16
qT1 .req q17
qT2 .req q18
qT3 .req q19
qT4 .req q20
qT5 .req q21
qT6 .req q22
qT7 .req q23

// --- one load for row i; any of them may follow an instruction for that row ---
.macro nothing i
.endm
.macro seed_F i
  ldr qF\i, [x10]
.endm
.macro seed_S i
  ldr qS\i, [x10]
.endm
.macro base_T_32 i  // initial t: after two scales
  ldr qT\i, [x4, #32]
.endm
.macro base_T_64 i  // initial t: after two scales and two mins, or four scales
  ldr qT\i, [x4, #64]
.endm
.macro base_S_64 i
  ldr qS\i, [x4, #64]
.endm
.macro load_F i
  ldr qF\i, [x15, #(16 * \i)]
.endm
.macro load_S i
  ldr qS\i, [x15, #(16 * \i)]
.endm
.macro store_F i
  str qF\i, [x15, #(16 * \i)]
.endm
.macro store_S i
  str qS\i, [x15, #(16 * \i)]
.endm
.macro row_from low, high, offset, i
  .if \i < 4
    ldr qT\i, [\low, #(\offset + 64 * (\i & 3))]
  .else
    ldr qT\i, [\high, #(\offset + 64 * (\i & 3))]
  .endif
.endm
.macro rows_0 i
  row_from x1, x2, 0, \i
.endm
.macro rows_1 i
  row_from x1, x2, 16, \i
.endm
.macro rows_2 i
  row_from x1, x2, 32, \i
.endm
.macro rows_3 i
  row_from x1, x2, 48, \i
.endm
.macro rows_next i
  row_from x5, x6, 0, \i
.endm
.macro each_row what
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    \what \i
  .endr
.endm

// --- weights of one step into v\w: int8, or one half of bytes with two 4-bit values ---
.macro int8 w, base, offset
  ldr q\w, [\base, #(\offset)]
.endm
.macro signed4_even w, base, offset
  ldr q\w, [\base, #(\offset)]
  shl v\w\().16b, v\w\().16b, #4
.endm
.macro signed4_odd w, base, offset
  ldr q\w, [\base, #(\offset)]
  and v\w\().16b, v\w\().16b, v30.16b
.endm
.macro unsigned4_even w, base, offset
  ldr q\w, [\base, #(\offset)]
  and v\w\().16b, v\w\().16b, v30.16b
.endm
.macro unsigned4_odd w, base, offset
  ldr q\w, [\base, #(\offset)]
  ushr v\w\().16b, v\w\().16b, #4
.endm

// --- one step; then its register is loaded with the weights of the same step of the next run ---
.macro dot_row sums, w, lane, after, i
  sdot \sums\i\().4s, v\w\().16b, T\i\().4b[\lane]
  \after \i
.endm
.macro step sums, w, lane, after, get, base, offset
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    dot_row \sums, \w, \lane, \after, \i
  .endr
  \get \w, \base, \offset + 16 * \lane
.endm
// One run. The load `first` follows the first step of each row, the load `last` follows the last step.
.macro run sums, first, last, get, base, offset
  step \sums, 24, 0, \first, \get, \base, \offset
  step \sums, 25, 1, nothing, \get, \base, \offset
  step \sums, 26, 2, nothing, \get, \base, \offset
  step \sums, 27, 3, \last, \get, \base, \offset
.endm

// --- float work: t += sums * scale of each column; t += x * number of each row ---
.macro scaled_row t, sums, scale, after, i
  fmla \t\i\().4s, \sums\i\().4s, v\scale\().4s
  \after \i
.endm
.macro add_scaled t, sums, scale, after
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    scaled_row \t, \sums, \scale, \after, \i
  .endr
.endm
.macro by_row t, x, low, high, after, i
  .if \i < 4
    fmla \t\i\().4s, \x\().4s, v\low\().s[\i & 3]
  .else
    fmla \t\i\().4s, \x\().4s, v\high\().s[\i & 3]
  .endif
  \after \i
.endm
.macro add_by_row t, x, low, high, after
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    by_row \t, \x\i, \low, \high, \after, \i
  .endr
.endm
.macro add_same_by_row t, x, low, high
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    by_row \t, v\x, \low, \high, nothing, \i
  .endr
.endm

.macro prefetch
  prfm pldl2keep, [x8]
  prfm pldl2keep, [x8, #64]
  prfm pldl2keep, [x8, #128]
  prfm pldl2keep, [x8, #192]
  add x8, x8, x11
.endm

// A block of two parts of 32 k; at1 to at3: offsets of the weights of its later runs.
.macro two_parts even, odd, at1, at2, at3, base
  run F, nothing, rows_1, \odd, x3, \at1
  run F, seed_S, rows_2, \even, x3, \at2
  prefetch
  run S, nothing, rows_3, \odd, x3, \at3
  ldr q28, [x4]
  ldr q29, [x4, #16]
  ldr q31, [x1, #256]
  run S, nothing, \base, \even, x7, 0
.endm
// Without mins: t = base + F * scale + S * scale, y += t * row scale.
.macro finish_plain
  add_scaled T, F, 28, seed_F
  ldr q28, [x2, #256]
  add_scaled T, S, 29, load_S
  add_by_row S, T, 31, 28, rows_next
  each_row store_S
.endm
// With mins: also t += min * sum of the row's activations, for both parts.
.macro finish_mins
  add_scaled T, F, 28, nothing
  ldr q0, [x4, #32]
  ldr q1, [x4, #48]
  ldr q28, [x2, #256]
  ldr q2, [x1, #272]
  ldr q3, [x2, #272]
  ldr q4, [x1, #288]
  ldr q5, [x2, #288]
  add_scaled T, S, 29, load_S
  add_same_by_row T, 0, 2, 3
  add_same_by_row T, 1, 4, 5
  add_by_row S, T, 31, 28, rows_next
  each_row seed_F
  each_row store_S
.endm
// One of four parts of 16 k: one run, then t (in S) += F * scale.
.macro quarter rows, base, offset, scale, after
  ldr q28, [x4, #\scale]
  run F, nothing, \rows, int8, \base, \offset
  add_scaled S, F, 28, \after
.endm
.macro four_parts
  each_row base_S_64
  quarter rows_1, x3, 64, 0, seed_F
  prefetch
  quarter rows_2, x3, 128, 16, seed_F
  quarter rows_3, x3, 192, 32, seed_F
  ldr q31, [x1, #256]
  ldr q29, [x2, #256]
  quarter rows_next, x7, 0, 48, load_F
  add_by_row F, S, 31, 29, nothing
  each_row store_F
  each_row seed_F
.endm

// --- functions: void NAME(const EightRows*) ---
.macro begin name, get, mask=0
  .text
  .p2align 4
  .global \name
  .hidden \name
  .type \name, %function
\name:
  stp d8, d9, [sp, #-64]!
  stp d10, d11, [sp, #16]
  stp d12, d13, [sp, #32]
  stp d14, d15, [sp, #48]
  ldp x1, x2, [x0, #8]     // rows 0-3, rows 4-7
  ldp x3, x12, [x0, #24]   // weights, group
  ldp x13, x4, [x0, #40]   // gap, scales
  ldp x14, x15, [x0, #56]  // scale step, y
  ldp x8, x11, [x0, #72]   // prefetch, its step
  ldr x10, [x0, #88]       // seed
  ldr x0, [x0]             // blocks
  mov x9, x12
  movi v30.16b, #\mask
  \get 24, x3, 0
  \get 25, x3, 16
  \get 26, x3, 32
  \get 27, x3, 48
  each_row seed_F
  each_row rows_0
1:
.endm
// Addresses of the next block; the last block loads itself again.
.macro find_next value_bytes, row_bytes
  subs x9, x9, #1
  csel x7, x13, xzr, eq
  csel x9, x12, x9, eq
  add x7, x7, #\value_bytes
  add x7, x7, x3
  add x5, x1, #\row_bytes
  add x6, x2, #\row_bytes
  subs x0, x0, #1
  csel x7, x3, x7, eq
  csel x5, x1, x5, eq
  csel x6, x2, x6, eq
.endm
.macro finish name
  mov x1, x5
  mov x2, x6
  mov x3, x7
  add x4, x4, x14
  cbnz x0, 1b
  ldp d10, d11, [sp, #16]
  ldp d12, d13, [sp, #32]
  ldp d14, d15, [sp, #48]
  ldp d8, d9, [sp], #64
  ret
  .size \name, . - \name
.endm

begin makar_tile_int8, int8
  find_next 256, 272
  two_parts int8, int8, 64, 128, 192, base_T_32
  finish_plain
finish makar_tile_int8

begin makar_tile_int8_mins, int8
  find_next 256, 304
  two_parts int8, int8, 64, 128, 192, base_T_64
  finish_mins
finish makar_tile_int8_mins

begin makar_tile_int8_parts16, int8
  find_next 256, 272
  four_parts
finish makar_tile_int8_parts16

begin makar_tile_signed4, signed4_even, 0xf0
  find_next 128, 272
  two_parts signed4_even, signed4_odd, 0, 64, 64, base_T_32
  finish_plain
finish makar_tile_signed4

begin makar_tile_unsigned4_mins, unsigned4_even, 0x0f
  find_next 128, 304
  two_parts unsigned4_even, unsigned4_odd, 0, 64, 64, base_T_64
  finish_mins
finish makar_tile_unsigned4_mins

.section .note.GNU-stack, "", %progbits
