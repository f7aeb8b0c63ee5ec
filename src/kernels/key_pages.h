// Writing keys and values into the pages of a cache, in the layout of KeyPages.
#pragma once
#include "kernels/kernels.h"

namespace makar::kernels {

// Floats of one head's tile of keys, and of values.
int64_t key_tile_floats(int64_t dim, const Table& table = cpu());
int64_t value_tile_floats(int64_t dim, const Table& table = cpu());

// Key and value number `at` of a tile, one head, `dim` floats each.
void store_key(const float* k, int64_t dim, int64_t at, float* tile, const Table& table = cpu());
void store_value(const float* v, int64_t dim, int64_t at, float* tile, const Table& table = cpu());

}  // namespace makar::kernels
