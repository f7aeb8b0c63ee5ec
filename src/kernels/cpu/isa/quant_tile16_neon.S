// Four rows of 16-bit activations by one panel of four columns of 16-bit weights, for NEON with dot products.
// quant_tile16_neon.h declares the function and its arguments; the result is bit-identical to the formula of quant.cpp.
//
// Both sides are split into a high and a low byte. Per block of 64 k: four runs of high by high, the sums times 256, then four
// runs of high by low and low by high. A run is four steps of 4 k; a step is one sdot per row.
//
// Registers:
//   v12-v15, v0-v3  sums of rows 0-3, of the first and of the second block of a group
//   v8-v11, v4-v7   16 activations of each row: high bytes, low bytes
//   v20-v23, v16-v19  weights: high bytes, low bytes; one step each
//   v24, v25, v26, v30  y of rows 0-3
//   v27, v29  scales of the columns for the first and the second block; v28  scales of the rows
//   x0 groups left   x1 activations   x2 weights   x3 next activations   x4 row scales of the block before
//   x5 prefetch      x6 prefetch step   x7 y [4][4]
//
// How it was tuned (Neoverse-N1): two blocks have separate sums, so that the float work of one (12 of 208 instructions
// that need a SIMD pipe) is grouped between the dot products of the other; weights and rows of the next run are loaded as
// soon as those of this run are used, one load after each instruction.
// Measure a change with ./dev bench quant; test_kernels compares the bits with portable code.

// --- four loads that may follow the four dot products of a step ---
.macro high_rows base, offset, i
  .if \i == 0
    ldr q8, [\base, #(\offset)]
  .elseif \i == 1
    ldr q9, [\base, #(\offset + 64)]
  .elseif \i == 2
    ldr q10, [\base, #(\offset + 128)]
  .else
    ldr q11, [\base, #(\offset + 192)]
  .endif
.endm
.macro low_rows base, offset, i
  .if \i == 0
    ldr q4, [\base, #(\offset + 256)]
  .elseif \i == 1
    ldr q5, [\base, #(\offset + 320)]
  .elseif \i == 2
    ldr q6, [\base, #(\offset + 384)]
  .else
    ldr q7, [\base, #(\offset + 448)]
  .endif
.endm
// `after` is none, high or low: the rows that are loaded, from `base` at `offset`.
.macro load_row after, base, offset, i
  .ifc \after, high
    high_rows \base, (\offset), \i
  .endif
  .ifc \after, low
    low_rows \base, (\offset), \i
  .endif
.endm

// --- one step; then its weight register is loaded with the weights needed next ---
.macro step_high x0, x1, x2, x3, w, lane, next, after, base, offset
  sdot v\x0\().4s, v\w\().16b, v8.4b[\lane]
  load_row \after, \base, (\offset), 0
  sdot v\x1\().4s, v\w\().16b, v9.4b[\lane]
  load_row \after, \base, (\offset), 1
  sdot v\x2\().4s, v\w\().16b, v10.4b[\lane]
  load_row \after, \base, (\offset), 2
  sdot v\x3\().4s, v\w\().16b, v11.4b[\lane]
  load_row \after, \base, (\offset), 3
  ldr q\w, [x2, #(\next + 16 * \lane)]
.endm
.macro step_low x0, x1, x2, x3, w, lane, next, after, base, offset
  sdot v\x0\().4s, v\w\().16b, v4.4b[\lane]
  load_row \after, \base, (\offset), 0
  sdot v\x1\().4s, v\w\().16b, v5.4b[\lane]
  load_row \after, \base, (\offset), 1
  sdot v\x2\().4s, v\w\().16b, v6.4b[\lane]
  load_row \after, \base, (\offset), 2
  sdot v\x3\().4s, v\w\().16b, v7.4b[\lane]
  load_row \after, \base, (\offset), 3
  ldr q\w, [x2, #(\next + 16 * \lane)]
.endm
// High weights by high activations. The loads that `first` names follow the first step; the loads of the high rows at `offset`
// follow the last.
.macro run_high x0, x1, x2, x3, next, first, first_offset, offset
  step_high \x0, \x1, \x2, \x3, 20, 0, (\next), \first, x1, (\first_offset)
  step_high \x0, \x1, \x2, \x3, 21, 1, (\next), none, x1, 0
  step_high \x0, \x1, \x2, \x3, 22, 2, (\next), none, x1, 0
  step_high \x0, \x1, \x2, \x3, 23, 3, (\next), high, x1, (\offset)
.endm
// High weights by low activations, then low weights by high activations.
.macro run_mixed x0, x1, x2, x3, next_high, next_low, low, base, offset
  step_low \x0, \x1, \x2, \x3, 20, 0, (\next_high), none, x1, 0
  step_low \x0, \x1, \x2, \x3, 21, 1, (\next_high), none, x1, 0
  step_low \x0, \x1, \x2, \x3, 22, 2, (\next_high), none, x1, 0
  step_low \x0, \x1, \x2, \x3, 23, 3, (\next_high), \low, x1, (\offset)
  step_high \x0, \x1, \x2, \x3, 16, 0, (\next_low), none, x1, 0
  step_high \x0, \x1, \x2, \x3, 17, 1, (\next_low), none, x1, 0
  step_high \x0, \x1, \x2, \x3, 18, 2, (\next_low), none, x1, 0
  step_high \x0, \x1, \x2, \x3, 19, 3, (\next_low), high, \base, (\offset)
.endm

.macro zeros x0, x1, x2, x3
  movi v\x0\().4s, #0
  movi v\x1\().4s, #0
  movi v\x2\().4s, #0
  movi v\x3\().4s, #0
.endm
// y += sums * column scales * row scale.
.macro finish_block row_scales, offset, scale, x0, x1, x2, x3
  ldr q28, [\row_scales, #\offset]
  scvtf v\x0\().4s, v\x0\().4s
  scvtf v\x1\().4s, v\x1\().4s
  scvtf v\x2\().4s, v\x2\().4s
  scvtf v\x3\().4s, v\x3\().4s
  fmul v\x0\().4s, v\x0\().4s, v\scale\().4s
  fmul v\x1\().4s, v\x1\().4s, v\scale\().4s
  fmul v\x2\().4s, v\x2\().4s, v\scale\().4s
  fmul v\x3\().4s, v\x3\().4s, v\scale\().4s
  fmla v24.4s, v\x0\().4s, v28.s[0]
  fmla v25.4s, v\x1\().4s, v28.s[1]
  fmla v26.4s, v\x2\().4s, v28.s[2]
  fmla v30.4s, v\x3\().4s, v28.s[3]
.endm
.macro prefetch
  prfm pldl2keep, [x5]
  prfm pldl2keep, [x5, #64]
  prfm pldl2keep, [x5, #128]
  add x5, x5, x6
.endm

// The first two high runs of a block whose weights are at \w of x2 and activations at \a of x1.
.macro block_begin w, a, x0, x1, x2, x3
  zeros \x0, \x1, \x2, \x3
  run_high \x0, \x1, \x2, \x3, (\w + 64), none, 0, (\a + 16)
  run_high \x0, \x1, \x2, \x3, (\w + 128), none, 0, (\a + 32)
.endm
// The rest of the block. The high weights of the next block are at \next of x2, its rows at \at of \base.
.macro block_end w, a, next, base, at, x0, x1, x2, x3
  run_high \x0, \x1, \x2, \x3, (\w + 192), none, 0, (\a + 48)
  prefetch
  ldr q16, [x2, #(\w + 256)]
  ldr q17, [x2, #(\w + 272)]
  ldr q18, [x2, #(\w + 288)]
  ldr q19, [x2, #(\w + 304)]
  run_high \x0, \x1, \x2, \x3, \w, low, \a, \a
  shl v\x0\().4s, v\x0\().4s, #8
  shl v\x1\().4s, v\x1\().4s, #8
  shl v\x2\().4s, v\x2\().4s, #8
  shl v\x3\().4s, v\x3\().4s, #8
  run_mixed \x0, \x1, \x2, \x3, (\w + 64), (\w + 320), low, x1, (\a + 16)
  run_mixed \x0, \x1, \x2, \x3, (\w + 128), (\w + 384), low, x1, (\a + 32)
  run_mixed \x0, \x1, \x2, \x3, (\w + 192), (\w + 448), low, x1, (\a + 48)
  run_mixed \x0, \x1, \x2, \x3, \next, \w, none, \base, \at
.endm

// void makar_tile_int16(const FourRows*). The last loads of a group repeat its own weights, so that nothing beyond the
// panel is read; the next group begins with its own loads.
  .text
  .p2align 4
  .global makar_tile_int16
  .hidden makar_tile_int16
  .type makar_tile_int16, %function
makar_tile_int16:
  stp d8, d9, [sp, #-80]!
  stp d10, d11, [sp, #16]
  stp d12, d13, [sp, #32]
  stp d14, d15, [sp, #48]
  stp xzr, xzr, [sp, #64]  // row scales of the block before the first
  ldp x1, x2, [x0, #8]     // activations, weights
  ldp x7, x5, [x0, #24]    // y, prefetch
  ldr x6, [x0, #40]        // prefetch step
  ldr x0, [x0]             // groups
  ldp q24, q25, [x7]
  ldr q26, [x7, #32]
  ldr q30, [x7, #48]
  add x4, sp, #64
  movi v29.4s, #0
  zeros 0, 1, 2, 3
  .irp i, 0, 1, 2, 3
    high_rows x1, 0, \i
  .endr
1:
  add x3, x1, #1056
  cmp x0, #1
  csel x3, x1, x3, eq
  ldr q20, [x2, #16]
  ldr q21, [x2, #32]
  ldr q22, [x2, #48]
  ldr q23, [x2, #64]
  block_begin 16, 0, 12, 13, 14, 15
  finish_block x4, 0, 29, 0, 1, 2, 3
  block_end 16, 0, 528, x1, 528, 12, 13, 14, 15
  ldr q29, [x2]
  fcvtl v27.4s, v29.4h
  fcvtl2 v29.4s, v29.8h
  block_begin 528, 528, 0, 1, 2, 3
  finish_block x1, 512, 27, 12, 13, 14, 15
  block_end 528, 528, 16, x3, 0, 0, 1, 2, 3
  add x4, x1, #1040
  mov x1, x3
  add x2, x2, #1040
  subs x0, x0, #1
  b.ne 1b
  finish_block x4, 0, 29, 0, 1, 2, 3
  stp q24, q25, [x7]
  str q26, [x7, #32]
  str q30, [x7, #48]
  ldp d10, d11, [sp, #16]
  ldp d12, d13, [sp, #32]
  ldp d14, d15, [sp, #48]
  ldp d8, d9, [sp], #80
  ret
  .size makar_tile_int16, . - makar_tile_int16

.section .note.GNU-stack, "", %progbits
