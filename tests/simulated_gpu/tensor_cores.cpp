#include "tensor_cores.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace makar::simulated_gpu {
namespace {

float widen(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
// Biased; 1 for a subnormal number.
int exponent_of(uint32_t bits) { return std::max<int>(bits >> 23 & 255, 1); }

// The registers of all lanes, as they are exchanged.
struct MmaOperands {
  float d[4];
  uint32_t a[4], b[2];
};
struct Int8Operands {
  uint32_t a[4], b[2];
};

// Values of bf16 as f32, with their exponents. A product's exponent is the sum of two: low with a factor of 0
// (kNothing), high with a factor that is not finite, whatever the other one is.
struct Values {
  static constexpr int kNothing = -1000, kNotFinite = 4000;
  float x[16];
  int exponent[16];

  void set(int i, uint16_t bits) {
    x[i] = widen(bits);
    exponent[i] = x[i] == 0             ? kNothing
                  : std::isfinite(x[i]) ? exponent_of(std::bit_cast<uint32_t>(x[i])) - 127
                                        : kNotFinite;
  }
};

constexpr int kKept = 25;  // bits below the highest exponent

// The same sum in numbers that hold every case.
float sum_slowly(float c, const Values& a, const Values& b, int highest) {
  bool finite = std::isfinite(c);
  float plain = c;
  for (int i = 0; i < 16; ++i) {
    finite = finite && std::isfinite(a.x[i]) && std::isfinite(b.x[i]);
    plain += a.x[i] * b.x[i];
  }
  if (!finite) return plain;
  const int unit = highest - kKept;
  auto sum = static_cast<int64_t>(std::ldexp(static_cast<double>(c), -unit));
  for (int i = 0; i < 16; ++i)
    sum += static_cast<int64_t>(std::ldexp(static_cast<double>(a.x[i]) * static_cast<double>(b.x[i]), -unit));
  const double exact = std::ldexp(static_cast<double>(sum), unit);
  const auto rounded = static_cast<float>(exact);
  return std::fabs(static_cast<double>(rounded)) > std::fabs(exact) ? std::nextafter(rounded, 0.0f) : rounded;
}

// c + a[0] b[0] + ... + a[15] b[15] as the tensor cores of Hopper add them: every product and c is cut off 25
// bits below the highest of their exponents, and the sum is rounded towards zero (reported by MMA-Sim, arXiv
// 2511.10909).
float sum_of_16(float c, const Values& a, const Values& b) {
  int highest = c == 0 ? Values::kNothing : exponent_of(std::bit_cast<uint32_t>(c)) - 127;
  for (int i = 0; i < 16; ++i) highest = std::max(highest, a.exponent[i] + b.exponent[i]);
  if (highest < -500) return c;  // all products are 0
  if (highest < -90 || highest > 100) return sum_slowly(c, a, b, highest);
  const float scale = std::bit_cast<float>(static_cast<uint32_t>(kKept - highest + 127) << 23);
  int32_t parts[2] = {};  // each of at most 8 products below 2^27
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 8; ++i)
      parts[half] += static_cast<int32_t>(a.x[8 * half + i] * b.x[8 * half + i] * scale);
  const int64_t sum = int64_t{static_cast<int32_t>(c * scale)} + parts[0] + parts[1];
  uint64_t size = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  const int excess = std::bit_width(size) - 24;
  if (excess > 0) size = size >> excess << excess;
  const float out = static_cast<float>(size) / scale;
  return sum < 0 ? -out : out;
}

}  // namespace

void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  MmaOperands own{{d[0], d[1], d[2], d[3]}, {a[0], a[1], a[2], a[3]}, {b0, b1}};
  static_assert(sizeof own <= WarpExchange::kBytes);
  Block& block = Block::current();
  unsigned parity = 0;
  const WarpExchange& x =
      block.exchange("mma", 0xFFFFFFFFu, &own, sizeof own, parity, [](WarpExchange& all, unsigned at) {
        Values left[16], right[8];  // by row
        float sums[16][8];
        for (int t = 0; t < 32; ++t) {
          MmaOperands o;
          std::memcpy(&o, all.values[at][t], sizeof o);
          const int row = t / 4, k = t % 4 * 2;
          for (int i = 0; i < 4; ++i)
            for (int half = 0; half < 2; ++half)
              left[row + i % 2 * 8].set(k + i / 2 * 8 + half, static_cast<uint16_t>(o.a[i] >> 16 * half));
          for (int i = 0; i < 2; ++i)
            for (int half = 0; half < 2; ++half)
              right[row].set(k + i * 8 + half, static_cast<uint16_t>(o.b[i] >> 16 * half));
          for (int e = 0; e < 4; ++e) sums[row + e / 2 * 8][k + e % 2] = o.d[e];
        }
        for (int r = 0; r < 16; ++r)
          for (int c = 0; c < 8; ++c) sums[r][c] = sum_of_16(sums[r][c], left[r], right[c]);
        for (int t = 0; t < 32; ++t) {
          float out[4];
          for (int e = 0; e < 4; ++e) out[e] = sums[t / 4 + e / 2 * 8][t % 4 * 2 + e % 2];
          std::memcpy(all.results[at][t], out, sizeof out);
        }
      });
  std::memcpy(d, x.results[parity][block.lane()], sizeof d);
}

void mma_int8(int (&d)[4], std::initializer_list<uint32_t> a, std::initializer_list<uint32_t> b, int c) {
  Int8Operands own{};
  std::copy(a.begin(), a.end(), own.a);
  std::copy(b.begin(), b.end(), own.b);
  const int depth = a.size() == 4 ? 32 : 16;
  Block& block = Block::current();
  unsigned parity = 0;
  const WarpExchange& x = block.exchange(
      "mma of int8", 0xFFFFFFFFu, &own, sizeof own, parity, [depth, c](WarpExchange& all, unsigned at) {
        int8_t left[16][32] = {}, right[8][32] = {};
        for (int t = 0; t < 32; ++t) {
          Int8Operands o;
          std::memcpy(&o, all.values[at][t], sizeof o);
          const int row = t / 4, k = t % 4 * 4;
          for (int i = 0; i < depth / 8; ++i) std::memcpy(&left[row + i % 2 * 8][k + i / 2 * 16], &o.a[i], 4);
          for (int i = 0; i < depth / 16; ++i) std::memcpy(&right[row][k + i * 16], &o.b[i], 4);
        }
        for (int t = 0; t < 32; ++t) {
          int out[4];
          for (int e = 0; e < 4; ++e) {
            const int r = t / 4 + e / 2 * 8, col = t % 4 * 2 + e % 2;
            out[e] = c;
            for (int k = 0; k < depth; ++k) out[e] += left[r][k] * right[col][k];
          }
          std::memcpy(all.results[at][t], out, sizeof out);
        }
      });
  std::memcpy(d, x.results[parity][block.lane()], sizeof d);
}

void load_matrices(uint32_t (&r)[4], uint32_t address, bool transposed) {
  Block& block = Block::current();
  const std::byte* row = block.at(address, 16);
  unsigned parity = 0;
  const WarpExchange& x =
      block.exchange("ldmatrix", 0xFFFFFFFFu, row, 16, parity);  // each lane brings its row
  const unsigned t = block.lane();
  for (unsigned i = 0; i < 4; ++i) {
    uint16_t two[2];
    for (unsigned j = 0; j < 2; ++j) {
      const unsigned of_row = transposed ? t % 4 * 2 + j : t / 4, column = transposed ? t / 4 : t % 4 * 2 + j;
      std::memcpy(&two[j], x.values[parity][8 * i + of_row] + 2 * column, 2);
    }
    r[i] = static_cast<uint32_t>(two[1]) << 16 | two[0];
  }
}

void do_copy(const Copy16& copy) {
  if (copy.from)
    std::memcpy(copy.to, copy.from, 16);
  else
    std::memset(copy.to, 0, 16);
}

namespace {

// Sixteen k of a row of a box: the descriptor's address is that of the first row, 128 bytes per row, with 16
// bytes c of row r at c ^ r % 8.
void box_row(uint64_t descriptor, unsigned row, Values& to) {
  Block& block = Block::current();
  const uint32_t start = static_cast<uint32_t>(descriptor & 0x3FFF) << 4;
  if ((descriptor >> 62) != 1 || (descriptor >> 32 & 0x3FFF) != 1024 >> 4)
    block.fault("a wgmma descriptor that the simulated GPU does not know");
  for (unsigned half = 0; half < 2; ++half) {
    // The swizzle is a function of the address: bits 4 to 6 ^= bits 7 to 9.
    uint32_t at = start + row / 8 * 1024 + row % 8 * 128 + half * 16;
    at ^= (at >> 7 & 7) << 4;
    uint16_t bits[8];
    std::memcpy(bits, block.at(Block::whole_address(at), 16), 16);
    for (unsigned i = 0; i < 8; ++i) to.set(static_cast<int>(half * 8 + i), bits[i]);
  }
}

}  // namespace

void do_product(const GroupProduct& p) {
  const Block& block = Block::current();
  const unsigned lane = block.lane(), warp = block.warp() % 4;
  Values a[2];
  for (unsigned half = 0; half < 2; ++half) box_row(p.a, 16 * warp + lane / 4 + 8 * half, a[half]);
  for (int j = 0; j < p.columns / 8; ++j)
    for (unsigned e = 0; e < 2; ++e) {
      Values b;
      box_row(p.b, static_cast<unsigned>(8 * j) + 2 * (lane % 4) + e, b);
      for (unsigned half = 0; half < 2; ++half) {
        float& sum = p.d[static_cast<unsigned>(4 * j) + 2 * half + e];
        sum = sum_of_16(sum, a[half], b);
      }
    }
}

void copy_box(uint32_t to, const CUtensorMap& map, uint32_t barrier, int k, int row) {
  Block& block = Block::current();
  if (to % 1024 != 0) block.fault("a box begins at an address that is not a multiple of 1,024");
  block.at(to, 16), block.at(to + static_cast<uint32_t>(map.box_rows) * 128 - 16, 16);
  block.in_background([=, map = map] {
    Block& b = Block::current();
    for (int r = 0; r < map.box_rows; ++r)
      for (int c = 0; c < 8; ++c) {
        std::byte* at = b.at(to + static_cast<uint32_t>(r * 128 + ((c ^ (r % 8)) << 4)), 16);
        for (int i = 0; i < 8; ++i) {
          const int64_t column = k + c * 8 + i, line = row + r;
          const bool inside = column >= 0 && column < map.k && line >= 0 && line < map.rows;
          uint16_t value = 0;
          if (inside)
            std::memcpy(&value, static_cast<const std::byte*>(map.data) + 2 * (line * map.k + column), 2);
          std::memcpy(at + 2 * i, &value, 2);
        }
      }
    b.copied(barrier, map.box_rows * 128);
  });
}

void copy_bytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  Block& block = Block::current();
  if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0)
    block.fault("a copy whose size or address is not a multiple of 16");
  block.at(to, 16), block.at(to + bytes - 16, 16);
  block.in_background([=] {
    Block& b = Block::current();
    std::memcpy(b.at(to, 16), from, bytes);
    b.copied(barrier, static_cast<int32_t>(bytes));
  });
}

}  // namespace makar::simulated_gpu
