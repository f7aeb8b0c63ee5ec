// The arguments of whole-op kernels, as plain values. Every pointer, including index arrays, is an address in
// device memory; sizes and options are passed by value. Arrays are row-major f32 unless a type is named.
// "(+)=" means "=", or "+=" if `accumulate` is set. Outputs do not overlap inputs unless a comment allows it.
#pragma once
#include "kernels/args/attention.h"
#include "kernels/args/elementwise.h"
#include "kernels/args/experts.h"
#include "kernels/args/losses.h"
#include "kernels/args/norms.h"
#include "kernels/args/optimizers.h"
#include "kernels/args/products.h"
#include "kernels/args/recurrent.h"
#include "kernels/args/rows.h"
#include "kernels/args/types.h"
