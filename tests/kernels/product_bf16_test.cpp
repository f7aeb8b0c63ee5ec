// Products of bf16 against the order that cpu/isa/product_bf16.cpp defines, in scalar code; the same bits on
// every instruction set, for every batch and number of threads.
#include "kernels/cpu/product_bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/all_tables.h"

namespace makar::kernels {
namespace {

using test::all_tables;

struct Case {
  int64_t m, n, k;
  bool a_across, b_across;  // adjacent rows at each k, as in gradients
  DType type;
  bool accumulate, bias;
};

std::vector<uint16_t> values(int64_t count, uint64_t seed) {
  const Rng rng(seed, Purpose::kInit);
  std::vector<uint16_t> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); ++i) {
    const auto x = static_cast<float>(rng.normal(i));
    v[i] = to_bf16(std::ldexp(x, static_cast<int>(i % 11) - 5));
  }
  return v;
}

struct Inputs {
  std::vector<uint16_t> a, b, bias, start;
  explicit Inputs(const Case& c)
      : a(values(c.m * c.k, 1)), b(values(c.n * c.k, 2)), bias(values(c.n, 3)), start(values(c.m * c.n, 4)) {}
};

Operand operand(const uint16_t* x, int64_t rows, int64_t k, bool across) {
  return {x, DType::kBF16, across ? 1 : k, across ? rows : 1};
}

float sum_of(const Case& c, const Inputs& in, int64_t i, int64_t j) {
  const auto at = [&](const std::vector<uint16_t>& x, int64_t line, int64_t lines, int64_t p, bool across) {
    return p < c.k ? from_bf16(x[static_cast<size_t>(across ? p * lines + line : line * c.k + p)]) : 0.0f;
  };
  float sum = 0;
  for (int64_t t = 0; t < c.k; t += kTileK) {
    float parts[2] = {};
    for (int64_t p = t; p < t + kTileK; ++p)
      parts[p % 2] = std::fma(at(in.a, i, c.m, p, c.a_across), at(in.b, j, c.n, p, c.b_across), parts[p % 2]);
    sum += parts[0] + parts[1];
  }
  return sum;
}

// C as f32 values, with its rows ldc apart in memory that must not change between them.
std::vector<float> run(ThreadPool& pool, const Case& c, const Inputs& in, const Table& table, int64_t rows) {
  const int64_t ldc = c.n + 3;
  constexpr uint16_t kGuard = 0x4242;
  const auto size = static_cast<size_t>(rows * ldc);
  std::vector<uint16_t> half(size, kGuard);
  std::vector<float> whole(size, from_bf16(kGuard));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      half[static_cast<size_t>(i * ldc + j)] = in.start[static_cast<size_t>(i * c.n + j)];
      whole[static_cast<size_t>(i * ldc + j)] = from_bf16(in.start[static_cast<size_t>(i * c.n + j)]);
    }
  product_bf16(
      pool,
      {rows, c.n, c.k, operand(in.a.data(), c.m, c.k, c.a_across), operand(in.b.data(), c.n, c.k, c.b_across),
       c.type == DType::kF32 ? static_cast<void*>(whole.data()) : half.data(), c.type, ldc, c.accumulate,
       c.bias ? reinterpret_cast<const Bf16*>(in.bias.data()) : nullptr},
      table);
  std::vector<float> out;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < ldc; ++j) {
      const auto at = static_cast<size_t>(i * ldc + j);
      const float x = c.type == DType::kF32 ? whole[at] : from_bf16(half[at]);
      if (j < c.n)
        out.push_back(x);
      else
        EXPECT_EQ(x, from_bf16(kGuard)) << "written outside of C";
    }
  return out;
}

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * 4) == 0;
}

constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16;
const Case kCases[] = {
    {1, 1, 1, false, false, kF32, false, false},       {1, 40, 64, false, false, kBF16, false, true},
    {5, 7, 33, false, false, kBF16, true, false},      {16, 16, 32, false, false, kF32, true, false},
    {17, 33, 31, true, true, kF32, false, false},      {64, 96, 128, true, false, kBF16, false, true},
    {70, 50, 2100, true, true, kF32, true, false},     {33, 600, 48, false, true, kBF16, true, false},
    {200, 40, 4128, false, false, kF32, false, false}, {2, 3, 0, false, false, kBF16, false, true},
};

TEST(ProductBf16, EqualsTheDefinedOrderOnEveryInstructionSet) {
  ThreadPool one(1), three(3);
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.m << " x " << c.n << " x " << c.k);
    const Inputs in(c);
    std::vector<float> expected;
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        const float sum = sum_of(c, in, i, j), start = from_bf16(in.start[static_cast<size_t>(i * c.n + j)]),
                    bias = from_bf16(in.bias[static_cast<size_t>(j)]);
        const auto rounded = [](float x) { return from_bf16(to_bf16(x)); };
        float y = c.bias ? sum + bias : sum;
        if (c.accumulate) y = start + (c.type == kF32 ? sum : rounded(sum));
        expected.push_back(c.type == kF32 ? y : rounded(y));
      }
    for (const Table* table : all_tables()) {
      SCOPED_TRACE(table->isa);
      EXPECT_TRUE(same_bits(run(one, c, in, *table, c.m), expected));
      EXPECT_TRUE(same_bits(run(three, c, in, *table, c.m), expected));
    }
  }
}

TEST(ProductBf16, ARowDoesNotDependOnTheBatch) {
  ThreadPool pool(2);
  const Case c{300, 530, 700, false, false, kBF16, false, true};
  const Inputs in(c);
  const std::vector<float> all = run(pool, c, in, cpu(), c.m);
  for (const Table* table : all_tables())
    for (const int64_t rows : {1, 2, 15, 16, 17, 33, 130})
      EXPECT_TRUE(same_bits(run(pool, c, in, *table, rows), {all.begin(), all.begin() + rows * c.n}))
          << table->isa << ' ' << rows;
}

TEST(ProductBf16, PackedWeightsGiveTheSameBits) {
  ThreadPool pool(2);
  const Case c{37, 100, 301, false, false, kBF16, false, true};
  const Inputs in(c);
  std::vector<float> bias(in.bias.size());
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = from_bf16(in.bias[i]);
  for (const Table* table : all_tables()) {
    const PackedMatrix b = PackedMatrix::pack(pool, operand(in.b.data(), c.n, c.k, false), c.n, c.k, *table);
    const std::vector<float> expected = run(pool, c, in, *table, c.m);
    for (const int64_t rows : {1, 2, 3, 4, 5, 16, 37}) {
      std::vector<uint16_t> y(static_cast<size_t>(rows * c.n));
      product_bf16(pool, rows, reinterpret_cast<const Bf16*>(in.a.data()), b, bias.data(),
                   reinterpret_cast<Bf16*>(y.data()));
      std::vector<float> wide(y.size());
      for (size_t i = 0; i < y.size(); ++i) wide[i] = from_bf16(y[i]);
      EXPECT_TRUE(same_bits(wide, {expected.begin(), expected.begin() + rows * c.n}))
          << table->isa << ' ' << rows;
    }
  }
}

TEST(ProductBf16, AnyStrides) {
  ThreadPool pool(1);
  const Case c{21, 35, 75, false, false, kBF16, false, false};
  const Inputs in(c);
  // A with an odd distance between rows; B with gaps between all values.
  const int64_t a_row = c.k + 2, b_row = 2 * c.k + 1;
  std::vector<uint16_t> a(static_cast<size_t>(c.m * a_row)), b(static_cast<size_t>(c.n * b_row));
  for (int64_t p = 0; p < c.k; ++p) {
    for (int64_t i = 0; i < c.m; ++i)
      a[static_cast<size_t>(i * a_row + p)] = in.a[static_cast<size_t>(i * c.k + p)];
    for (int64_t j = 0; j < c.n; ++j)
      b[static_cast<size_t>(j * b_row + 2 * p)] = in.b[static_cast<size_t>(j * c.k + p)];
  }
  for (const Table* table : all_tables()) {
    std::vector<uint16_t> y(static_cast<size_t>(c.m * c.n));
    product_bf16(pool,
                 {c.m,
                  c.n,
                  c.k,
                  {a.data(), kBF16, a_row, 1},
                  {b.data(), kBF16, b_row, 2},
                  y.data(),
                  kBF16,
                  c.n,
                  false,
                  nullptr},
                 *table);
    std::vector<float> wide(y.size());
    for (size_t i = 0; i < y.size(); ++i) wide[i] = from_bf16(y[i]);
    EXPECT_TRUE(same_bits(wide, run(pool, c, in, *table, c.m))) << table->isa;
  }
}

// Values whose products and sums are near and below the smallest normal number.
TEST(ProductBf16, TinyValuesGiveTheSameBits) {
  ThreadPool pool(2);
  const Case c{20, 48, 96, false, false, kF32, false, false};
  Inputs in(c);
  const auto scale = [](std::vector<uint16_t>& x, int exponent) {
    for (uint16_t& v : x) v = to_bf16(std::ldexp(from_bf16(v), exponent));
  };
  scale(in.a, -66), scale(in.b, -60);
  in.a[5] = 0x0001, in.a[6] = 0x8040;  // subnormal
  const std::vector<float> expected = run(pool, c, in, *available()[0], c.m);
  int64_t zeros = 0, tiny = 0;
  for (const float x : expected) zeros += x == 0, tiny += x != 0 && std::fabs(x) < 0x1p-110f;
  EXPECT_GT(zeros, 0);
  EXPECT_GT(tiny, 0);
  Case half = c;
  half.type = kBF16;
  for (const Table* table : all_tables()) {
    EXPECT_TRUE(same_bits(run(pool, c, in, *table, c.m), expected)) << table->isa;
    const std::vector<float> all = run(pool, half, in, *table, c.m);
    const PackedMatrix b = PackedMatrix::pack(pool, operand(in.b.data(), c.n, c.k, false), c.n, c.k, *table);
    for (const int64_t rows : {1, 4, 5, 20}) {
      std::vector<uint16_t> y(static_cast<size_t>(rows * c.n));
      product_bf16(pool, rows, reinterpret_cast<const Bf16*>(in.a.data()), b, nullptr,
                   reinterpret_cast<Bf16*>(y.data()));
      std::vector<float> wide(y.size());
      for (size_t i = 0; i < y.size(); ++i) wide[i] = from_bf16(y[i]);
      EXPECT_TRUE(same_bits(wide, {all.begin(), all.begin() + rows * c.n})) << table->isa << ' ' << rows;
    }
  }
}

TEST(ProductBf16, InfinitiesAndNansStayInTheirRow) {
  ThreadPool pool(1);
  const Case c{20, 20, 40, false, false, kBF16, false, false};
  Inputs in(c);
  in.a[3 * 40 + 5] = 0x7f80, in.a[7 * 40 + 9] = 0x7fc0;
  for (const Table* table : all_tables()) {
    const std::vector<float> y = run(pool, c, in, *table, c.m);
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(std::isfinite(y[i]), i / 20 != 3 && i / 20 != 7) << table->isa << ' ' << i;
  }
}

}  // namespace
}  // namespace makar::kernels
