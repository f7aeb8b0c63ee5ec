// Matrix instructions and copies of the simulated GPU.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <initializer_list>

#include "block.h"

namespace makar::simulated_gpu {

void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
// 16 or 32 k, by the number of registers.
void mma_int8(int (&d)[4], std::initializer_list<uint32_t> a, std::initializer_list<uint32_t> b, int c);
void load_matrices(uint32_t (&r)[4], uint32_t address, bool transposed);

void do_copy(const Copy16& copy);
void do_product(const GroupProduct& product);

void copy_box(uint32_t to, const CUtensorMap& map, uint32_t barrier, int k, int row);
void copy_bytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier);

}  // namespace makar::simulated_gpu
