// See cuda_runtime.h.
#pragma once
#include <cstdint>

struct alignas(64) CUtensorMap {
  const void* data;
  int64_t rows, k;
  int box_rows;
};
