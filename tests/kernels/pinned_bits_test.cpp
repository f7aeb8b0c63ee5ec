// The bits of products of every weight type, as stored hashes: machines of different architectures are
// compared with each other by running this test on each. Inputs come from the counter-based generator and are
// computed without functions of the C library. The hashes were made with the portable table.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/rng.h"
#include "base/sha256.h"
#include "kernels/all_tables.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/product_bf16.h"
#include "kernels/quant_blocks.h"

namespace makar::kernels {
namespace {

using namespace test;

constexpr int64_t kBatches[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 70};
constexpr int64_t kMaxRows = 70, kCols = 37, kK = 2304;

// The draws of a seed in sequence.
class Draws {
 public:
  explicit Draws(uint64_t seed) : rng_(seed, Purpose::kSynthetic) {}
  uint32_t next() {
    if (drawn_ % 4 == 0) four_ = rng_.bits(drawn_ / 4);
    return four_[drawn_++ % 4];
  }
  float unit() { return static_cast<float>(static_cast<int32_t>(next())) * 0x1p-31f; }  // [-1, 1)

 private:
  Rng rng_;
  std::array<uint32_t, 4> four_{};
  uint64_t drawn_ = 0;
};

// The first 16 digits of the hash of several arrays.
class Bits {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    hash_.add(std::as_bytes(std::span(values)));
  }
  std::string text() { return hash_.hex().substr(0, 16); }

 private:
  Sha256 hash_;
};

std::vector<uint16_t> halves(DType type, int64_t count, uint64_t seed) {
  std::vector<uint16_t> out;
  for (const float x : floats_from(Draws(seed), count))
    out.push_back(type == DType::kF16 ? to_f16(x) : to_bf16(x));
  return out;
}

// Products by packed weights with f32 activations, of all batches.
std::string weights_hash(ThreadPool& pool, DType type, const Table& table) {
  const std::vector<float> x = floats_from(Draws(1), kMaxRows * kK), bias = floats_from(Draws(2), kCols);
  std::vector<float> whole;
  std::vector<uint16_t> half;
  std::vector<uint8_t> blocks;
  Operand b{nullptr, type, kK, 1};
  if (type == DType::kF32)
    whole = floats_from(Draws(3), kCols * kK), b.data = whole.data();
  else if (type == DType::kF16 || type == DType::kBF16)
    half = halves(type, kCols * kK, 3), b.data = half.data();
  else
    blocks = blocks_from(Draws(3), type, kCols * kK), b.data = blocks.data();
  const PackedMatrix packed = PackedMatrix::pack(pool, b, kCols, kK, table);
  Bits bits;
  for (const int64_t m : kBatches) {
    std::vector<float> c(static_cast<size_t>(m * kCols));
    gemm(pool, m, {x.data(), DType::kF32, kK, 1}, packed, {c.data(), kCols, false, bias.data()});
    bits.add(c);
  }
  return bits.text();
}

// Products of bf16 operands (--bf16), of all batches, stored as f32 and as bf16.
std::string bf16_hash(ThreadPool& pool, const Table& table) {
  const auto a = halves(DType::kBF16, kMaxRows * kK, 1), b = halves(DType::kBF16, kCols * kK, 3),
             bias = halves(DType::kBF16, kCols, 2);
  Bits bits;
  for (const int64_t m : kBatches) {
    std::vector<float> c(static_cast<size_t>(m * kCols));
    std::vector<uint16_t> rounded(c.size());
    ProductBf16 p{m,
                  kCols,
                  kK,
                  {a.data(), DType::kBF16, kK, 1},
                  {b.data(), DType::kBF16, kK, 1},
                  c.data(),
                  DType::kF32,
                  kCols,
                  false,
                  reinterpret_cast<const Bf16*>(bias.data())};
    product_bf16(pool, p, table);
    p.c = rounded.data(), p.type = DType::kBF16;
    product_bf16(pool, p, table);
    bits.add(c), bits.add(rounded);
  }
  return bits.text();
}

struct Pinned {
  DType type;
  const char* hash;
};
constexpr Pinned kPinned[] = {
    {DType::kF32, "78ef392201563b79"},    {DType::kF16, "4710373fa51d4b28"},
    {DType::kBF16, "be7dfe83c7fab446"},   {DType::kQ4_0, "33bfa6eebaf43567"},
    {DType::kQ4_1, "98bb4a05fd2947f5"},   {DType::kQ5_0, "412ef6622fb66633"},
    {DType::kQ5_1, "d6bf2eff0759f745"},   {DType::kQ8_0, "4cde998c63255005"},
    {DType::kQ2_K, "1da70d38e043f321"},   {DType::kQ3_K, "e9909a3063eba0d5"},
    {DType::kQ4_K, "bda0dfc9be8c2658"},   {DType::kQ5_K, "c84f76120ecb40b9"},
    {DType::kQ6_K, "98344a00bf3467fa"},   {DType::kIQ4_NL, "7ffc9e0a9f032521"},
    {DType::kIQ4_XS, "af0f46db68d593c1"}, {DType::kIQ2_XXS, "183bdf25c066b2e6"},
    {DType::kF16_64, "e78208410aa38e08"}, {DType::kQ8_24, "057335b21bace4c4"},
};
constexpr const char* kPinnedBf16 = "f3b226a5ef9a9fb2";

TEST(PinnedBits, EveryBlockTypeHasAHash) {
  for (const DType type : block_types())
    EXPECT_TRUE(std::any_of(std::begin(kPinned), std::end(kPinned), [&](const Pinned& p) {
      return p.type == type;
    })) << name(type);
}

TEST(PinnedBits, ProductsByEveryWeightType) {
  ThreadPool pool(2);
  for (const Pinned& p : kPinned)
    for (const Table* table : all_tables())
      EXPECT_EQ(weights_hash(pool, p.type, *table), p.hash) << name(p.type) << ", " << table->isa;
}

TEST(PinnedBits, ProductsOfBf16) {
  ThreadPool pool(2);
  for (const Table* table : all_tables()) EXPECT_EQ(bf16_hash(pool, *table), kPinnedBf16) << table->isa;
}

}  // namespace
}  // namespace makar::kernels
