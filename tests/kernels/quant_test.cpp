// Products with quantized weights: against decode_blocks in double, within a bound that is derived below; and
// the numbers contract, bit for bit over rows, threads and instruction sets.
#include "kernels/cpu/quant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/all_tables.h"
#include "kernels/cpu/gemm.h"
#include "kernels/decode_blocks.h"
#include "kernels/quant_blocks.h"

namespace makar::kernels {
namespace {

using namespace test;

struct Weights {
  DType type;
  int64_t n, k;
  std::vector<uint8_t> blocks;
  std::vector<float> decoded;
  Weights(DType t, int64_t rows, int64_t cols) : type(t), n(rows), k(cols) {
    blocks = random_blocks(t, n * k, 5);
    decoded.resize(static_cast<size_t>(n * k));
    decode_blocks(t, blocks.data(), n * k, decoded.data());
  }
  QuantMatrix pack(ThreadPool& pool, const Table& table = cpu()) const {
    return QuantMatrix::pack(pool, type, blocks.data(), n, k, table);
  }
};

std::vector<float> product(ThreadPool& pool, const std::vector<float>& x, int64_t m, const QuantMatrix& w,
                           const float* bias = nullptr, float start = 0) {
  constexpr float kGuard = 1234.5f;
  const int64_t ldc = w.n() + 3;
  std::vector<float> c(static_cast<size_t>(m * ldc), kGuard), y;
  for (int64_t i = 0; i < m; ++i) std::fill_n(&c[i * ldc], w.n(), start);
  quant_gemm(pool, m, {x.data(), DType::kF32, w.k(), 1}, w, {c.data(), ldc, start != 0, bias});
  for (int64_t i = 0; i < m; ++i) {
    y.insert(y.end(), &c[i * ldc], &c[i * ldc] + w.n());
    for (int64_t j = w.n(); j < ldc; ++j) EXPECT_EQ(c[i * ldc + j], kGuard);
  }
  return y;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::string type_name(const testing::TestParamInfo<DType>& info) { return name(info.param); }

class Quant : public testing::TestWithParam<DType> {
 protected:
  int64_t unit() const { return layout_of(GetParam()).elements; }
};
INSTANTIATE_TEST_SUITE_P(Types, Quant, testing::ValuesIn(block_types()), type_name);

// 2:4 sparse weights give the same bits as their dense Q8_0 form, for few and many rows.
TEST(QuantSparse, HasTheBitsOfTheDenseType) {
  ThreadPool pool(2);
  const int64_t n = 37, k = 352;
  const Weights sparse(DType::kQ8_24, n, k);
  std::vector<uint8_t> dense;
  for (size_t at = 0; at < sparse.blocks.size(); at += sizeof(BlockQ8_24)) {
    BlockQ8_24 from;
    std::memcpy(&from, &sparse.blocks[at], sizeof from);
    BlockQ8_0 to{from.d, {}};
    from.dense(to.qs);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&to);
    dense.insert(dense.end(), bytes, bytes + sizeof to);
  }
  for (const Table* table : all_tables()) {
    const QuantMatrix a = sparse.pack(pool, *table),
                      b = QuantMatrix::pack(pool, DType::kQ8_0, dense.data(), n, k, *table);
    EXPECT_LT(a.bytes() * 3, b.bytes() * 2);
    for (const int64_t m : {1, 2, 3, 4, 5, 8, 9, 17, 40}) {
      const auto x = random_floats(m * k, static_cast<uint64_t>(m));
      EXPECT_TRUE(same_bits(product(pool, x, m, a), product(pool, x, m, b))) << m;
    }
  }
}

// The activations as the kernel rounds them: d * round(x / d), in double.
std::vector<double> round_activations(const std::vector<float>& x, int64_t k, float levels,
                                      std::vector<double>& steps) {
  std::vector<double> out(x.size());
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(k))
    for (int64_t b = 0; b < k; b += 64) {
      const int64_t end = std::min(k, b + 64);
      float largest = 0;
      for (int64_t i = b; i < end; ++i) largest = std::max(largest, std::fabs(x[row + i]));
      for (int64_t i = b; i < end; ++i)
        out[row + i] = std::nearbyint(static_cast<double>(x[row + i]) * (levels / largest)) *
                       static_cast<double>(largest / levels);
      steps.push_back(largest / static_cast<double>(levels));
    }
  return out;
}

// With x' the rounded activations: |y - x' W| is only f32 rounding, and |y - x W| adds at most half a step of
// its block per activation: sum over k of step / 2 * |w|. The integer sums are read as floats around 1.5 *
// 2^23 (cpu/isa/quant.cpp), which rounds the sum of a block to a few units: less than a step times half of
// the block's largest weight. 16-bit weights have one more loss: a weight is rounded to at most 2^-15 of the
// largest of its 64, and the product of two low bytes is dropped: a step times 2^14 units of the weight,
// which are at most 2^-14 of that largest.
TEST_P(Quant, EqualsTheProductOfRoundedActivations) {
  ThreadPool pool(2);
  for (const int64_t k : {unit(), unit() * 3, int64_t{2304}}) {
    const int64_t n = 37, m = 11;
    const Weights w(GetParam(), n, k);
    const auto x = random_floats(m * k, 9);
    std::vector<double> steps;
    const bool int16 = GetParam() == DType::kF16_64;
    const auto rounded_x = round_activations(x, k, int16 ? 127.0f * 256.0f : 127.0f, steps);
    const auto y = product(pool, x, m, w.pack(pool));
    const int64_t blocks = (k + 63) / 64;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double exact = 0, want = 0, size = 0, noise = 0, lost = 0, largest = 0;
        for (int64_t p = 0; p < k; ++p) {
          const double weight = w.decoded[j * k + p], step = steps[i * blocks + p / 64];
          if (p % 64 == 0) {
            largest = 0;
            for (int64_t q = p; q < std::min(k, p + 64); ++q)
              largest = std::max<double>(largest, std::fabs(w.decoded[j * k + q]));
            lost += step * largest * 0.5;
          }
          if (int16) lost += largest * (0x1p-15 * std::fabs(rounded_x[i * k + p]) + step);
          exact += x[i * k + p] * weight, want += rounded_x[i * k + p] * weight;
          size += std::fabs(rounded_x[i * k + p] * weight);
          noise += step * 0.5 * std::fabs(weight);
        }
        // Types with mins lose digits between scale * q and the min, at most twice `size`.
        const double rounding = size * 4e-6 + 1e-6 + lost, got = y[i * n + j];
        EXPECT_LE(std::fabs(got - want), rounding) << k << ' ' << i << ' ' << j;
        EXPECT_LE(std::fabs(got - exact), noise * 1.0001 + rounding) << k << ' ' << i << ' ' << j;
      }
  }
}

TEST_P(Quant, SameBitsForAnyBatchThreadCountAndInstructionSet) {
  const int64_t k = unit() == 32 ? 2336 : 2304, n = 70, max_rows = 75;
  const Weights w(GetParam(), n, k);
  const auto x = random_floats(max_rows * k, 3), bias = random_floats(n, 4);
  ThreadPool one(1), two(2), five(5);
  const QuantMatrix packed = w.pack(one);
  const auto all_rows = product(one, x, max_rows, packed, bias.data(), 0.25f);
  const auto rows = [&](int64_t first, int64_t m) {
    return std::vector<float>(x.begin() + first * k, x.begin() + (first + m) * k);
  };
  for (const Table* table : all_tables()) {
    const QuantMatrix other = w.pack(two, *table);
    for (ThreadPool* pool : {&one, &two, &five})
      EXPECT_TRUE(same_bits(product(*pool, x, max_rows, other, bias.data(), 0.25f), all_rows)) << table->isa;
    for (const int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 33}) {
      const int64_t first = m % 5;
      const auto part = product(two, rows(first, m), m, other, bias.data(), 0.25f);
      const std::vector<float> want(all_rows.begin() + first * n, all_rows.begin() + (first + m) * n);
      EXPECT_TRUE(same_bits(part, want)) << table->isa << " rows " << m;
    }
  }
}

TEST_P(Quant, AColumnDoesNotDependOnOthers) {
  ThreadPool pool(2);
  const int64_t k = unit() * 2, n = 9;
  const Weights w(GetParam(), n, k);
  const auto x = random_floats(10 * k, 3);
  const auto all_rows = product(pool, x, 10, w.pack(pool));
  for (const int64_t first : {0, 1, 3, 8})
    for (int64_t count = 1; first + count <= n; count += 3) {
      const auto* from = w.blocks.data() + bytes_of(w.type, first * k);
      const auto part = product(pool, x, 10, QuantMatrix::pack(pool, w.type, from, count, k));
      for (int64_t i = 0; i < 10; ++i)
        EXPECT_EQ(0, std::memcmp(&part[i * count], &all_rows[i * n + first], sizeof(float) * count));
    }
}

TEST_P(Quant, PackedMatrixSupportsBlockTypes) {
  ThreadPool pool(2);
  const Weights w(GetParam(), 20, unit() * 2);
  const auto x = random_floats(3 * w.k, 3);
  const auto packed = PackedMatrix::pack(pool, {w.blocks.data(), w.type, w.k, 1}, w.n, w.k);
  EXPECT_EQ(packed.type(), w.type);
  EXPECT_EQ(packed.bytes(), PackedMatrix::bytes_for(w.type, w.n, w.k));
  std::vector<float> y(static_cast<size_t>(3 * w.n));
  gemm(pool, 3, {x.data(), DType::kF32, w.k, 1}, packed, {y.data(), w.n});
  EXPECT_TRUE(same_bits(y, product(pool, x, 3, w.pack(pool))));
  // Rows of A that are interleaved.
  std::vector<float> transposed(x.size());
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t p = 0; p < w.k; ++p) transposed[p * 3 + i] = x[i * w.k + p];
  std::vector<float> z(y.size());
  gemm(pool, 3, {transposed.data(), DType::kF32, 1, 3}, packed, {z.data(), w.n});
  EXPECT_TRUE(same_bits(y, z));
}

// Several matrices of different types with one A: each equals its own product.
TEST(QuantTogether, EachEqualsItsOwnProduct) {
  const int64_t k = 768;
  const Weights parts[] = {{DType::kQ4_K, 70, k},   {DType::kQ8_0, 37, k}, {DType::kQ4_K, 9, k},
                           {DType::kF16_64, 21, k}, {DType::kQ4_K, 1, k},  {DType::kIQ2_XXS, 50, k}};
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::vector<PackedMatrix> packed;
    for (const Weights& w : parts)
      packed.push_back(PackedMatrix::pack(pool, {w.blocks.data(), w.type, k, 1}, w.n, k));
    for (const int64_t m : {1, 4, 5, 40}) {
      const auto x = random_floats(m * k, 3), bias = random_floats(70, 5);
      std::vector<std::vector<float>> together;
      std::vector<PackedProduct> products;
      for (const PackedMatrix& p : packed) together.emplace_back(static_cast<size_t>(m * p.n()));
      for (size_t i = 0; i < packed.size(); ++i)
        products.push_back({&packed[i], {together[i].data(), packed[i].n(), false, bias.data()}});
      gemm(pool, m, {x.data(), DType::kF32, k, 1}, products);
      for (size_t i = 0; i < packed.size(); ++i)
        EXPECT_TRUE(same_bits(together[i], product(pool, x, m, packed[i].quant(), bias.data())))
            << i << ' ' << m;
    }
  }
}

// Small weights next to large ones, subnormals, the largest value, and NaN.
TEST(QuantHalves, EveryF16IsCloseOrNan) {
  ThreadPool pool(1);
  std::vector<float> x(64, 0.0f);
  x[5] = 1.0f;
  for (uint32_t bits = 0; bits < 0x10000; bits += 3) {
    std::vector<uint16_t> w(64, 0);
    w[5] = static_cast<uint16_t>(bits);
    const auto alone = product(pool, x, 1, QuantMatrix::pack(pool, DType::kF16_64, w.data(), 1, 64));
    w[9] = static_cast<uint16_t>((bits & 0x7fff) < 0x7000 ? bits + 0x0c00 : bits);  // 8 times as large
    const auto with_neighbour = product(pool, x, 1, QuantMatrix::pack(pool, DType::kF16_64, w.data(), 1, 64));
    const float value = from_f16(w[5]);
    if (std::isfinite(value)) {
      EXPECT_NEAR(alone[0], value, std::fabs(value) * 1e-6f) << bits;
      EXPECT_NEAR(with_neighbour[0], value, std::fabs(value) * 1e-6f) << bits;
    } else {
      EXPECT_TRUE(std::isnan(alone[0]) && std::isnan(with_neighbour[0])) << bits;
    }
  }
}

// A NaN affects only its own row; tiny and zero blocks are zero.
TEST(QuantRows, UnusualActivationsAffectOnlyTheirRow) {
  ThreadPool pool(1);
  const Weights w(DType::kQ8_0, 8, 128);
  const auto packed = w.pack(pool);
  for (const Table* table : all_tables()) {
    const auto other = w.pack(pool, *table);
    std::vector<float> x = random_floats(3 * 128, 1);
    const auto expected = product(pool, x, 3, packed);
    for (const float special : {std::numeric_limits<float>::infinity(), std::nanf(""), -HUGE_VALF}) {
      auto bad = x;
      bad[130] = special;
      const auto y = product(pool, bad, 3, other);
      for (int j = 0; j < 8; ++j) {
        EXPECT_EQ(y[j], expected[j]);
        EXPECT_TRUE(std::isnan(y[8 + j]));
        EXPECT_EQ(y[16 + j], expected[16 + j]);
      }
    }
    for (const float tiny : {0.0f, -0.0f, 1e-40f, 0x1p-101f})
      for (const float v : product(pool, std::vector<float>(128, tiny), 1, other)) EXPECT_EQ(v, 0.0f);
  }
}

}  // namespace
}  // namespace makar::kernels
