#include "kernels/key_pages.h"

#include <algorithm>

namespace makar::kernels {

int64_t key_tile_floats(int64_t dim, const Table&) { return kKeyTile * dim; }

int64_t value_tile_floats(int64_t dim, const Table& t) { return kKeyTile * ((dim + t.nr - 1) / t.nr * t.nr); }

void store_key(const float* k, int64_t dim, int64_t at, float* tile, const Table& t) {
  float* to = tile + at / t.nr * dim * t.nr + at % t.nr;
  for (int64_t d = 0; d < dim; ++d) to[d * t.nr] = k[d];
}

void store_value(const float* v, int64_t dim, int64_t at, float* tile, const Table& t) {
  for (int64_t d = 0; d < dim; d += t.nr)
    std::copy_n(v + d, std::min<int64_t>(t.nr, dim - d), tile + d * kKeyTile + at * t.nr);
}

}  // namespace makar::kernels
