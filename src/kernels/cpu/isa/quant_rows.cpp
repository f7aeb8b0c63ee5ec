// Activations to int8, a block of 64 k at a time: scale d = absmax / 127, value = x * (127 / absmax) rounded
// to the nearest, ties to even. A row's values depend on that row alone. A block with an infinity or a NaN
// gets the scale NaN, so that it shows in the result; one that is everywhere below 2^-100 counts as zero.
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/cpu/isa/parts.h"
#include "kernels/quant_form.h"

namespace makar::kernels::MAKAR_ISA {
namespace {

constexpr uint32_t kInfinity = 0x7f800000u, kTiny = 0x0d800000u;  // 2^-100
constexpr float kRound = 0x1.8p23f;  // adding it leaves the integer in the low bits, rounded to even

// Returns the scale.
inline float one_block(const float* x, int8_t* q) {
  uint32_t most = 0;
  for (int k = 0; k < kQuantBlock; ++k) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[k]) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
  if (most >= kInfinity || most < kTiny) {
    std::memset(q, 0, kQuantBlock);
    return most >= kInfinity ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const float absmax = std::bit_cast<float>(most), inverse = 127.0f / absmax;
  for (int k = 0; k < kQuantBlock; ++k)
    q[k] = static_cast<int8_t>(std::bit_cast<int32_t>(x[k] * inverse + kRound) - 0x4B400000);
  return absmax / 127.0f;
}

void quant_rows(int form, int unit, const float* x, int64_t row_stride, int rows, int64_t k, int64_t blocks,
                void* out) {
  const QuantForm& f = kQuantForms[form];
  const int parts = parts_of(f);
  auto* to = static_cast<std::byte*>(out);
  for (int64_t b = 0; b < blocks; ++b, to += activation_bytes(f, rows)) {
    auto* d = reinterpret_cast<float*>(to + rows * kQuantBlock);
    for (int i = 0; i < rows; ++i) {
      auto* q = reinterpret_cast<int8_t*>(to) + i * kQuantBlock;
      const float* row = x + i * row_stride + b * kQuantBlock;
      float rest[kQuantBlock] = {};
      if ((b + 1) * kQuantBlock > k) {
        std::memcpy(rest, row, sizeof(float) * static_cast<size_t>(k - b * kQuantBlock));
        row = rest;
      }
      d[i] = one_block(row, q) / static_cast<float>(unit);  // a power of two: exact
      for (int p = 0; p < parts && f.mins; ++p) {
        int32_t sum = 0;
        for (int j = 0; j < f.part; ++j) sum += q[p * f.part + j];
        d[(1 + p) * rows + i] = static_cast<float>(sum * unit);
      }
    }
  }
}

}  // namespace

void fill_quant_rows(Table& table) { table.quant_rows = quant_rows; }

}  // namespace makar::kernels::MAKAR_ISA
