// The results of every kernel of a table except matrix products by packed weights, for unusual sizes.
#pragma once
#include <string>
#include <vector>

#include "kernels/cpu/table.h"

namespace makar::kernels::test {

struct NamedResult {
  std::string name;
  std::vector<float> values;
};
using Results = std::vector<NamedResult>;

// Values between -scale and scale, computed without functions of the C library.
std::vector<float> spread(int64_t count, uint64_t seed, float scale = 2.0f);

void add_row_results(const Table& t, Results& to);        // elementwise, rows, positions, optimizers
void add_recurrent_results(const Table& t, Results& to);  // convolutions and scans
void add_attention_results(const Table& t, Results& to);  // forward, weights, backward, with a cache

}  // namespace makar::kernels::test
