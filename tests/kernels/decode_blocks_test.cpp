// Dequantizes every block type of GGUF: blocks written by llama-quantize (IQ2_XXS: random bits), compared
// value for value with what gguf-py reads from them (tests/golden/gguf/blocks.safetensors).
#include "kernels/decode_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "formats/safetensors.h"
#include "kernels/block_layout.h"

namespace makar::kernels {
namespace {

struct Case {
  const char* name;
  DType type;
};
constexpr Case kCases[] = {
    {"F16", DType::kF16},       {"Q4_0", DType::kQ4_0},      {"Q4_1", DType::kQ4_1},
    {"Q5_0", DType::kQ5_0},     {"Q5_1", DType::kQ5_1},      {"Q8_0", DType::kQ8_0},
    {"Q2_K", DType::kQ2_K},     {"Q3_K", DType::kQ3_K},      {"Q4_K", DType::kQ4_K},
    {"Q5_K", DType::kQ5_K},     {"Q6_K", DType::kQ6_K},      {"IQ4_NL", DType::kIQ4_NL},
    {"IQ4_XS", DType::kIQ4_XS}, {"IQ2_XXS", DType::kIQ2_XXS}};

class DecodeBlocks : public testing::TestWithParam<Case> {};

TEST_P(DecodeBlocks, EqualsTheReference) {
  const auto file = Safetensors::open(std::string(MAKAR_TEST_GOLDEN) + "/gguf/blocks.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().text();
  const std::string name = GetParam().name;
  const Tensor bytes = *(*file)->tensor(name + ".bytes"), values = *(*file)->tensor(name + ".values");
  ASSERT_EQ(bytes_of(GetParam().type, values.count()), bytes.bytes());
  // Shifted by one byte.
  std::vector<std::byte> unaligned(bytes.bytes() + 1);
  std::memcpy(unaligned.data() + 1, bytes.raw(), bytes.bytes());
  std::vector<float> out(static_cast<size_t>(values.count()) + 1, 7.0f);
  decode_blocks(GetParam().type, unaligned.data() + 1, values.count(), out.data());
  for (int64_t i = 0; i < values.count(); ++i) ASSERT_EQ(out[static_cast<size_t>(i)], values.f32()[i]) << i;
  EXPECT_EQ(out.back(), 7.0f);
}

INSTANTIATE_TEST_SUITE_P(Types, DecodeBlocks, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DecodeBlocksPlain, Bf16AndF32AreExact) {
  const float values[3] = {1.5f, -0.25f, 3e38f};
  float out[3];
  decode_blocks(DType::kF32, values, 3, out);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(out[i], values[i]);
  const uint16_t bf16[3] = {to_bf16(1.5f), to_bf16(-0.25f), to_bf16(-0.0f)};
  decode_blocks(DType::kBF16, bf16, 3, out);
  EXPECT_EQ(out[0], 1.5f);
  EXPECT_EQ(out[1], -0.25f);
  EXPECT_EQ(out[2], 0.0f);
  EXPECT_TRUE(std::signbit(out[2]));
}

}  // namespace
}  // namespace makar::kernels
