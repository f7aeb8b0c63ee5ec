// The matrix product against a reference in double, and the numbers contract: the bits of an output depend
// only on its row, its column and k; not on the batch, the blocking, the threads or the instruction set.
#include "kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <vector>

namespace makar::kernels {
namespace {

// Values with many different exponents, so that a different order of additions gives different bits.
std::vector<float> values(int64_t count, uint64_t seed) {
  std::vector<float> v(static_cast<size_t>(count));
  uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& f : v) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    const float unit = static_cast<float>(static_cast<int64_t>(x >> 40)) / float(1 << 23) - 1.0f;
    f = std::ldexp(unit, static_cast<int>(x % 7) - 3);
  }
  return v;
}

struct Matrix {                   // [rows, k] in one of the stride orders and types
  std::vector<float> f32;         // the exact values
  std::vector<uint16_t> encoded;  // their f16 or bf16 bits
  Operand operand;
  int64_t k = 0;

  Matrix(int64_t rows, int64_t cols, uint64_t seed, bool rows_contiguous = false, DType type = DType::kF32)
      : k(cols) {
    f32 = values(rows * cols, seed);
    operand.type = type;
    operand.row_stride = rows_contiguous ? 1 : cols;
    operand.k_stride = rows_contiguous ? rows : 1;
    if (type == DType::kF32) return;
    encoded.resize(f32.size());
    for (size_t i = 0; i < f32.size(); ++i) {
      encoded[i] = type == DType::kF16 ? to_f16(f32[i]) : to_bf16(f32[i]);
      f32[i] = type == DType::kF16 ? from_f16(encoded[i]) : from_bf16(encoded[i]);
    }
  }
  float operator()(int64_t r, int64_t p) const { return f32[r * operand.row_stride + p * operand.k_stride]; }
  Operand get() const {
    Operand o = operand;
    o.data = o.type == DType::kF32 ? static_cast<const void*>(f32.data()) : encoded.data();
    return o;
  }
  Operand row(int64_t r) const {
    Operand o = get();
    o.data = static_cast<const std::byte*>(o.data) + r * o.row_stride * size_of(o.type);
    return o;
  }
};

// The order required by the contract, in scalar code.
float in_sequence(const Matrix& a, const Matrix& b, int64_t i, int64_t j, float start) {
  for (int64_t p = 0; p < a.k; ++p) start = std::fma(a(i, p), b(j, p), start);
  return start;
}

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

constexpr float kGuard = 12345.0f;

struct Case {
  int64_t m, n, k;
  bool accumulate = false, bias = false;
  int64_t gap = 0;  // ldc - n
};

// Runs one product, plain or packed, and checks that nothing outside C is written.
std::vector<float> run(ThreadPool& pool, const Table& t, const Case& c, const Matrix& a, const Matrix& b,
                       bool packed) {
  const int64_t ldc = c.n + c.gap;
  std::vector<float> out(static_cast<size_t>((c.m + 1) * ldc), kGuard);
  const std::vector<float> start = values(c.m * c.n, 77), bias = values(c.n, 78);
  for (int64_t i = 0; i < c.m; ++i) std::copy_n(&start[i * c.n], c.n, &out[i * ldc]);
  const GemmOutput to{out.data(), ldc, c.accumulate, c.bias ? bias.data() : nullptr};
  if (packed)
    gemm(pool, c.m, a.get(), PackedMatrix::pack(pool, b.get(), c.n, c.k, t), to);
  else
    gemm(pool, c.m, c.n, c.k, a.get(), b.get(), to, t);
  std::vector<float> got;
  for (int64_t i = 0; i < c.m; ++i) {
    got.insert(got.end(), &out[i * ldc], &out[i * ldc] + c.n);
    for (int64_t j = c.n; j < ldc; ++j) EXPECT_EQ(out[i * ldc + j], kGuard);
  }
  for (int64_t j = 0; j < ldc; ++j) EXPECT_EQ(out[c.m * ldc + j], kGuard);
  return got;
}

std::vector<float> expected(const Case& c, const Matrix& a, const Matrix& b) {
  const std::vector<float> start = values(c.m * c.n, 77), bias = values(c.n, 78);
  std::vector<float> want(static_cast<size_t>(c.m * c.n));
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      float& w = want[i * c.n + j];
      w = in_sequence(a, b, i, j, c.accumulate ? start[i * c.n + j] : 0.0f);
      if (c.bias) w += bias[j];
    }
  return want;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {1, 1, 1},
      {1, 1, 0, true},
      {3, 5, 0, false, true},
      {1, 12, 64},
      {1, 100, 37},
      {2, 49, 33},
      {3, 24, 129},
      {4, 97, 16, true},
      {5, 13, 7},
      {6, 50, 511, false, true},
      {7, 61, 513},
      {8, 12, 100},
      {8, 1, 77, true, true},
      {9, 25, 40, false, false, 3},
      {13, 40, 1030},
      {15, 31, 3},
      {16, 96, 20},
      {33, 7, 65, true},
      {64, 65, 70, true, true, 5},
      {100, 3, 600},
      {257, 50, 130},
      {260, 1, 40, true},
      {300, 130, 700, true, true, 1},
      {513, 14, 1},
  };
  return all;
}

// One row by f16 weights has its own kernel: it must give the same bits for every f16 value, and leave
// weights and activations that it cannot handle to the general kernel.
TEST(Gemm, OneRowTimesEveryF16HasTheSameBits) {
  ThreadPool pool(2);
  const int64_t n = 67, k = 1000;  // 67000 f16 values: all of them
  std::vector<uint16_t> halves(static_cast<size_t>(n * k));
  for (const bool non_finite : {false, true})
    for (const float size : {1.0f, 3e4f, 4e4f, 1e-38f, 1e30f}) {
      for (size_t i = 0; i < halves.size(); ++i) {
        halves[i] = static_cast<uint16_t>(i * 40503u);
        if (!non_finite && (halves[i] & 0x7c00u) == 0x7c00u) halves[i] &= 0xbfffu;
      }
      auto x = values(k, 3);
      for (float& v : x) v *= size / 8;
      std::vector<float> want(static_cast<size_t>(n), 0.0f);
      for (int64_t j = 0; j < n; ++j)
        for (int64_t p = 0; p < k; ++p) want[j] = std::fma(x[p], from_f16(halves[j * k + p]), want[j]);
      for (const Table* t : available()) {
        std::vector<float> got(want.size());
        const auto packed = PackedMatrix::pack(pool, {halves.data(), DType::kF16, k, 1}, n, k, *t);
        EXPECT_EQ(packed.finite_f16(), !non_finite);
        EXPECT_EQ(packed.bytes(), PackedMatrix::bytes_for(DType::kF16, n, k, *t));
        gemm(pool, 1, {x.data(), DType::kF32, k, 1}, packed, {got.data(), n});
        for (int64_t j = 0; j < n; ++j)
          EXPECT_TRUE(got[j] == want[j] || (std::isnan(got[j]) && std::isnan(want[j]))) << t->isa << ' ' << j;
      }
    }
}

TEST(Gemm, EqualsAChainOfFusedMultiplyAdds) {
  ThreadPool pool(2);
  for (const Table* t : available())
    for (const Case& c : cases())
      for (const int order : {0, 1, 2, 3})
        for (const bool packed : {false, true}) {
          const Matrix a(c.m, c.k, 1, order & 1), b(c.n, c.k, 2, order & 2);
          EXPECT_TRUE(same_bits(run(pool, *t, c, a, b, packed), expected(c, a, b)))
              << t->isa << ' ' << c.m << 'x' << c.n << 'x' << c.k << " order " << order << " packed "
              << packed;
        }
}

TEST(Gemm, ConvertsF16AndBf16Exactly) {
  ThreadPool pool(2);
  for (const Table* t : available())
    for (const Case& c : cases())
      for (const DType type : {DType::kF16, DType::kBF16})
        for (const int order : {0, 1})
          for (const bool packed : {false, true}) {
            const Matrix a(c.m, c.k, 3), b(c.n, c.k, 4, order, type);
            EXPECT_TRUE(same_bits(run(pool, *t, c, a, b, packed), expected(c, a, b)))
                << t->isa << ' ' << name(type) << ' ' << c.m << 'x' << c.n << 'x' << c.k << " packed "
                << packed;
          }
}

TEST(Gemm, ConvertsEveryF16) {
  for (const Table* t : available()) {
    std::vector<uint16_t> x(65536);
    std::vector<float> y(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i);
    // 65535 is not a multiple of a vector's lanes; the value left out is a NaN.
    t->widen(DType::kF16, x.data(), 65535, y.data());
    for (size_t i = 0; i < 65535; ++i) {
      const float want = from_f16(x[i]);
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(y[i]));
      else
        EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(want)) << t->isa << ' ' << i;
    }
  }
}

TEST(Gemm, IsCloseToDouble) {
  ThreadPool pool(2);
  const Case c{65, 77, 901};
  const Matrix a(c.m, c.k, 5), b(c.n, c.k, 6);
  const auto got = run(pool, cpu(), c, a, b, false);
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = 0, size = 0;
      for (int64_t p = 0; p < c.k; ++p)
        sum += double(a(i, p)) * b(j, p), size += std::abs(double(a(i, p)) * b(j, p));
      EXPECT_LE(std::abs(got[i * c.n + j] - sum), 1e-6 * size);
    }
}

TEST(Gemm, SameBitsForAnyThreadCount) {
  ThreadPool one(1), two(2), five(5);
  for (const Case& c : cases())
    for (const bool packed : {false, true}) {
      const Matrix a(c.m, c.k, 7), b(c.n, c.k, 8);
      const auto want = run(one, cpu(), c, a, b, packed);
      EXPECT_TRUE(same_bits(run(two, cpu(), c, a, b, packed), want)) << c.m << 'x' << c.n << 'x' << c.k;
      EXPECT_TRUE(same_bits(run(five, cpu(), c, a, b, packed), want)) << c.m << 'x' << c.n << 'x' << c.k;
    }
}

// Compares every row of a batch with the same row computed alone. `product` computes one batch.
template <class Product>
bool rows_are_independent(int64_t m, int64_t n, int64_t k, const Product& product) {
  const Matrix a(m, k, 9), b(n, k, 10);
  std::vector<float> all(static_cast<size_t>(m * n)), one(static_cast<size_t>(n));
  product(m, n, k, a.get(), b.get(), all.data());
  for (int64_t i = 0; i < m; ++i) {
    product(1, n, k, a.row(i), b.get(), one.data());
    if (std::memcmp(one.data(), &all[i * n], one.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

TEST(Gemm, ARowAloneEqualsTheRowInABatch) {
  ThreadPool pool(2);
  for (const Table* t : available())
    for (const int64_t m : {2, 3, 4, 5, 6, 7, 8, 9, 15, 17, 40, 130, 270})
      for (const bool packed : {false, true})
        EXPECT_TRUE(rows_are_independent(
            m, 37, 700,
            [&](int64_t rows, int64_t n, int64_t k, const Operand& a, const Operand& b, float* c) {
              if (packed)
                gemm(pool, rows, a, PackedMatrix::pack(pool, b, n, k, *t), {c, n, false, nullptr});
              else
                gemm(pool, rows, n, k, a, b, {c, n, false, nullptr}, *t);
            }))
            << t->isa << ' ' << m << " rows, packed " << packed;
}

// A kernel that breaks the contract as fast libraries do: for one row it keeps four partial sums along k.
void partial_sums_product(int64_t m, int64_t n, int64_t k, const Operand& a, const Operand& b, float* c) {
  const auto* x = static_cast<const float*>(a.data);
  const auto* y = static_cast<const float*>(b.data);
  const int64_t parts = m == 1 ? 4 : 1;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum[4] = {};
      for (int64_t p = 0; p < k; ++p) sum[p % parts] = std::fma(x[i * k + p], y[j * k + p], sum[p % parts]);
      c[i * n + j] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
}

TEST(Gemm, TheBitTestDetectsPartialSumsAlongK) {
  EXPECT_FALSE(rows_are_independent(8, 37, 700, partial_sums_product));
}

TEST(Gemm, LongKIsSplitAndAccumulated) {
  ThreadPool pool(2);
  const Case c{270, 13, 9000, true, true};
  const Matrix a(c.m, c.k, 11, true), b(c.n, c.k, 12, true);
  EXPECT_TRUE(same_bits(run(pool, cpu(), c, a, b, false), expected(c, a, b)));
}

TEST(Gemm, BuildingBlocksPackAndMultiply) {
  for (const Table* t : available())
    for (const bool a_order : {false, true})
      for (const bool b_order : {false, true}) {
        const int64_t m = 29, n = 43, k = 21;
        const Matrix a(m, k, 13, a_order), b(n, k, 14, b_order);
        std::vector<float> pa((m + t->mr) * k), pb((n + t->nr) * k), c(m * n), want(m * n);
        t->pack_a(a.f32.data(), a.operand.row_stride, a.operand.k_stride, m, k, pa.data());
        t->pack_b(b.f32.data(), b.operand.row_stride, b.operand.k_stride, n, k, pb.data());
        for (int64_t i = 0; i < (m + t->mr - 1) / t->mr * t->mr; ++i)
          for (int64_t p = 0; p < k; ++p)
            ASSERT_EQ(pa[i / t->mr * t->mr * k + p * t->mr + i % t->mr], i < m ? a(i, p) : 0.0f);
        t->product(m, n, k, pa.data(), pb.data(), c.data(), n, false);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) want[i * n + j] = in_sequence(a, b, i, j, 0.0f);
        EXPECT_TRUE(same_bits(c, want)) << t->isa;
      }
}

}  // namespace
}  // namespace makar::kernels
