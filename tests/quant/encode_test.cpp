// Encoders: dequantized values are close to the originals, at least as close as with llama-quantize.
#include "quant/encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/rng.h"
#include "formats/gguf.h"
#include "models/dequantize.h"

namespace makar {
namespace {

constexpr DType kBlocks[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                             DType::kQ5_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

double rmse(const Tensor& a, const Tensor& b, std::span<const float> weights = {}) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double d = a.f32()[i] - b.f32()[i];
    sum += d * d * (weights.empty() ? 1.0 : weights[static_cast<size_t>(i % a.dim(-1))]);
  }
  return std::sqrt(sum / static_cast<double>(a.count()));
}

Tensor normal(const Shape& shape, uint64_t seed) {
  Tensor t = Tensor::empty(shape);
  const Rng rng(seed, Purpose::kSynthetic);
  for (int64_t i = 0; i < t.count(); ++i) t.f32()[i] = rng.normal(static_cast<uint64_t>(i));
  return t;
}

TEST(Encode, ErrorsMatchTheNumberOfBits) {
  ThreadPool pool(2);
  const Tensor x = normal({64, 512}, 1);
  const std::map<DType, double> max_error = {
      {DType::kQ8_0, 0.0065}, {DType::kQ4_0, 0.090}, {DType::kQ4_1, 0.075}, {DType::kQ5_0, 0.045},
      {DType::kQ5_1, 0.038},  {DType::kQ4_K, 0.078}, {DType::kQ5_K, 0.039}, {DType::kQ6_K, 0.019}};
  for (const DType type : kBlocks)
    EXPECT_LT(rmse(dequantized(encode(pool, x, type)), x), max_error.at(type)) << name(type);
  EXPECT_EQ(rmse(encode(pool, x, DType::kF32), x), 0);
  EXPECT_LT(rmse(dequantized(encode(pool, x, DType::kF16)), x), 3e-4);
  EXPECT_LT(rmse(dequantized(encode(pool, x, DType::kBF16)), x), 3e-3);
}

TEST(Encode, UnusualRowsStayClose) {
  ThreadPool pool(1);
  std::vector<Tensor> rows = {Tensor::zeros({1, 256}), Tensor::full({1, 256}, 1.0f),
                              Tensor::full({1, 256}, -1.0f), Tensor::full({1, 256}, 1e-30f),
                              Tensor::full({1, 256}, 60000.0f)};
  Tensor spike = Tensor::zeros({1, 256});
  spike.f32()[100] = -3.0f;
  rows.push_back(spike);
  for (const Tensor& x : rows)
    for (const DType type : kBlocks) {
      const Tensor y = dequantized(encode(pool, x, type));
      float largest = 0;
      for (const float v : x.span()) largest = std::max(largest, std::abs(v));
      for (int64_t i = 0; i < 256; ++i)
        ASSERT_NEAR(y.f32()[i], x.f32()[i], std::max(0.04f * largest, 1e-7f))
            << name(type) << " " << x.f32()[100];
    }
}

TEST(Encode, ImportanceReducesTheErrorOfItsColumns) {
  ThreadPool pool(2);
  const Tensor x = normal({32, 512}, 2);
  std::vector<float> importance(512, 0.01f);
  for (size_t i = 0; i < importance.size(); i += 4) importance[i] = 10.0f;
  for (const DType type : {DType::kQ4_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const double plain = rmse(dequantized(encode(pool, x, type)), x, importance);
    const double weighted = rmse(dequantized(encode(pool, x, type, importance)), x, importance);
    EXPECT_LT(weighted, 0.9 * plain) << name(type);
  }
}

TEST(Encode, SameBitsForAnyThreadCount) {
  const Tensor x = normal({37, 256}, 3);
  for (const DType type : kBlocks) {
    ThreadPool one(1), four(4);
    const Tensor a = encode(one, x, type), b = encode(four, x, type);
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << name(type);
  }
}

TEST(Encode, IsNotWorseThanLlamaQuantize) {
  const char* assets = std::getenv("MAKAR_ASSETS");
  const std::string folder = std::string(assets ? assets : "../shared/assets") + "/../golden/gguf/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const auto original = Gguf::open(folder + "llama-f32.gguf");
  ASSERT_TRUE(original.ok());
  ThreadPool pool(2);
  for (const char* kind : {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K_M", "Q5_K_M", "Q6_K"}) {
    const auto llama_file = Gguf::open(folder + "llama-" + kind + ".gguf");
    ASSERT_TRUE(llama_file.ok());
    for (const GgufTensor& t : (*llama_file)->tensors()) {
      if (!is_block(t.dtype)) continue;
      const Tensor x = (*original)->view(*(*original)->find(t.name));
      const double makar_error = rmse(dequantized(encode(pool, x, t.dtype)), x),
                   llama_error = rmse(dequantized((*llama_file)->view(t)), x);
      EXPECT_LE(makar_error, llama_error * 1.0001) << kind << " " << t.name << " " << name(t.dtype);
      if (t.name == "blk.0.ffn_down.weight" || t.name == "token_embd.weight")
        RecordProperty(std::string(kind) + "_" + (t.name[0] == 'b' ? "down" : "embd"),
                       fmt::format("{:.4f}", makar_error / llama_error));
    }
  }
}

}  // namespace
}  // namespace makar
