// Matrix products of bf16 with sums in f32, in one fixed order along k for every output (decision 0016,
// cpu/isa/product_bf16.cpp): the bits of an output do not depend on the other rows and columns, on threads,
// or on the instruction set.
#pragma once
#include "base/thread_pool.h"
#include "kernels/bf16_args.h"
#include "kernels/cpu/gemm.h"

namespace makar::kernels {

// Tests pass other kernel tables to compare their bits.
void product_bf16(ThreadPool& pool, const ProductBf16& args, const Table& table = cpu());
// By packed weights of type bf16, as the same product by unpacked weights.
void product_bf16(ThreadPool& pool, int64_t m, const Bf16* a, const PackedMatrix& b, const float* bias,
                  Bf16* c);

}  // namespace makar::kernels
