// Prequantized matrices against the formulas of their formats, computed here element by element.
#include "formats/prequantized.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/json.h"

namespace makar {
namespace {

using Parts = std::map<std::string, Tensor>;

Tensor words(const Shape& shape, uint64_t salt) {
  Tensor t = Tensor::empty(shape, DType::kI32);
  uint32_t v = static_cast<uint32_t>(salt) * 2654435761u + 12345u;
  for (int64_t i = 0; i < t.count(); ++i) t.data<uint32_t>()[i] = v = v * 1664525u + 1013904223u;
  return t;
}
Tensor bytes(const Shape& shape, uint64_t salt) {
  Tensor t = Tensor::empty(shape, DType::kU8);
  uint32_t v = static_cast<uint32_t>(salt) + 99u;
  for (int64_t i = 0; i < t.count(); ++i)
    t.data<uint8_t>()[i] = static_cast<uint8_t>((v = v * 1664525u + 1013904223u) >> 24);
  return t;
}
Tensor f16_scales(const Shape& shape) {
  Tensor t = Tensor::empty(shape, DType::kF16);
  for (int64_t i = 0; i < t.count(); ++i)
    t.data<uint16_t>()[i] = to_f16(0.01f + 0.003f * static_cast<float>(i % 17));
  return t;
}

// One value, dequantized by the definitions of Q4_0 and Q8_0.
float value(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kF32) return t.f32()[i];
  if (t.dtype() == DType::kBF16) return from_bf16(t.data<uint16_t>()[i]);
  const auto* block =
      reinterpret_cast<const uint8_t*>(t.raw()) + static_cast<size_t>(i / 32) * layout_of(t.dtype()).bytes;
  uint16_t scale;
  std::memcpy(&scale, block, 2);
  const int64_t k = i % 32;
  const int q = t.dtype() == DType::kQ8_0 ? static_cast<int8_t>(block[2 + k])
                                          : ((block[2 + k % 16] >> (k / 16 * 4)) & 15) - 8;
  return from_f16(scale) * static_cast<float>(q);
}

struct IntegerCase {
  PrequantizedMethod method;
  int64_t bits, group;
  bool centred, index;
  DType type;
};

void check_integers(const IntegerCase& c) {
  constexpr int64_t kIn = 64, kOut = 16;
  const int64_t per_word = 32 / c.bits, groups = kIn / c.group;
  const bool gptq = c.method == PrequantizedMethod::kGptq;
  PrequantizedScheme scheme{c.method, c.bits, c.group};
  Parts parts;
  parts["qweight"] = words(gptq ? Shape{kIn / per_word, kOut} : Shape{kIn, kOut / per_word}, 1);
  parts["qzeros"] = words({groups, kOut / per_word}, 2);
  const uint32_t mask = (1u << c.bits) - 1, centre = 1u << (c.bits - 1);
  if (c.centred)
    for (int64_t i = 0; i < parts["qzeros"].count(); ++i) {
      uint32_t word = 0;
      for (int64_t k = 0; k < per_word; ++k)
        word |= (gptq ? centre - 1 : centre) << (static_cast<uint32_t>(k * c.bits));
      parts["qzeros"].data<uint32_t>()[i] = word;
    }
  parts["scales"] = f16_scales({groups, kOut});
  if (c.index) {
    Tensor g = Tensor::empty({kIn}, DType::kI32);
    for (int64_t i = 0; i < kIn; ++i) g.data<int32_t>()[i] = static_cast<int32_t>(i * 7 % groups);
    parts["g_idx"] = g;
  }
  PrequantizedMatrix matrix{{{"g_idx", "x.g_idx"}}, {kOut, kIn}, ""};
  const auto t = decode_prequantized(scheme, matrix, parts, "test");
  ASSERT_TRUE(t.ok()) << t.error().text();
  EXPECT_EQ(t->dtype(), c.type);
  // AutoAWQ's order of columns in a word.
  const int order4[] = {0, 2, 4, 6, 1, 3, 5, 7}, order8[] = {0, 2, 1, 3};
  const auto extract = [&](uint32_t word, int64_t column) {
    int64_t position = column;
    if (!gptq)
      for (int64_t k = 0; k < per_word; ++k)
        if ((c.bits == 4 ? order4[k] : order8[k]) == column) position = k;
    return (word >> (static_cast<uint32_t>(position * c.bits))) & mask;
  };
  for (int64_t o = 0; o < kOut; ++o)
    for (int64_t i = 0; i < kIn; ++i) {
      const int64_t g = c.index ? parts["g_idx"].data<int32_t>()[i] : i / c.group;
      const uint32_t q =
          gptq ? (parts["qweight"].data<uint32_t>()[i / per_word * kOut + o] >>
                  (static_cast<uint32_t>(i % per_word * c.bits))) &
                     mask
               : extract(parts["qweight"].data<uint32_t>()[i * (kOut / per_word) + o / per_word],
                         o % per_word);
      uint32_t z =
          extract(parts["qzeros"].data<uint32_t>()[g * (kOut / per_word) + o / per_word], o % per_word);
      if (gptq) z = (z + 1) & mask;
      const float expected = from_f16(parts["scales"].data<uint16_t>()[g * kOut + o]) *
                             static_cast<float>(static_cast<int>(q) - static_cast<int>(z));
      ASSERT_EQ(value(*t, o * kIn + i), expected) << o << ", " << i;
    }
}

TEST(Prequantized, GptqAndAwqFollowTheirFormulas) {
  using M = PrequantizedMethod;
  for (const IntegerCase& c : std::vector<IntegerCase>{{M::kGptq, 4, 32, false, false, DType::kQ8_0},
                                                       {M::kGptq, 4, 32, true, false, DType::kQ4_0},
                                                       {M::kGptq, 4, 16, true, false, DType::kF32},
                                                       {M::kGptq, 4, 32, true, true, DType::kF32},
                                                       {M::kGptq, 8, 64, true, false, DType::kQ8_0},
                                                       {M::kGptq, 8, 32, false, false, DType::kF32},
                                                       {M::kGptq, 2, 32, false, false, DType::kQ8_0},
                                                       {M::kAwq, 4, 32, false, false, DType::kQ8_0},
                                                       {M::kAwq, 4, 64, true, false, DType::kQ4_0},
                                                       {M::kAwq, 8, 32, true, false, DType::kQ8_0}}) {
    SCOPED_TRACE(
        fmt::format("{} bits, groups of {}, centred {}, index {}", c.bits, c.group, c.centred, c.index));
    check_integers(c);
  }
}

TEST(Prequantized, AGroupThatDoesNotExistIsAnError) {
  Tensor index = Tensor::zeros({32}, DType::kI32);
  index.data<int32_t>()[3] = 1;
  const Parts parts = {{"qweight", words({4, 8}, 1)},
                       {"qzeros", words({1, 1}, 1)},
                       {"scales", f16_scales({1, 8})},
                       {"g_idx", index}};
  const auto t = decode_prequantized({PrequantizedMethod::kGptq, 4, 32},
                                     {{{"g_idx", "x.g_idx"}}, {8, 32}, ""}, parts, "test");
  ASSERT_FALSE(t.ok());
  EXPECT_NE(t.error().text().find("group that does not exist"), std::string::npos);
}

TEST(Prequantized, Fp8FollowsItsFormula) {
  // All 256 codes: sign, 4 bits of exponent with bias 7, 3 of mantissa; 0x7f is NaN.
  for (int code = 0; code < 256; ++code) {
    const int e = code >> 3 & 15, m = code & 7;
    double expected = e == 0 ? m / 512.0 : std::ldexp(1 + m / 8.0, e - 7);
    if (code & 0x80) expected = -expected;
    const float got = from_f8_e4m3(static_cast<uint8_t>(code));
    if (e == 15 && m == 7)
      EXPECT_TRUE(std::isnan(got));
    else
      EXPECT_EQ(got, static_cast<float>(expected)) << code;
  }
  Tensor weight = Tensor::empty({3, 5}, DType::kF8_E4M3);
  for (int64_t i = 0; i < 15; ++i) weight.data<uint8_t>()[i] = static_cast<uint8_t>(0x30 + i);
  const Tensor scale = Tensor::from({2, 3}, std::vector<float>{0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f});
  PrequantizedScheme s;
  s.method = PrequantizedMethod::kFp8, s.block_rows = s.block_columns = 2;
  const auto t = decode_prequantized(s, {{}, {3, 5}, ""}, {{"weight", weight}, {"scale", scale}}, "test");
  ASSERT_TRUE(t.ok());
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t c = 0; c < 5; ++c)
      EXPECT_EQ(t->f32()[r * 5 + c],
                from_f8_e4m3(static_cast<uint8_t>(0x30 + r * 5 + c)) * scale.f32()[r / 2 * 3 + c / 2]);
  // Scales that are powers of two keep every value in bf16.
  const auto exact = decode_prequantized(
      s, {{}, {3, 5}, ""}, {{"weight", weight}, {"scale", Tensor::full({2, 3}, 0.25f)}}, "test");
  EXPECT_EQ(exact->dtype(), DType::kBF16);
  EXPECT_EQ(value(*exact, 7), 0.25f * from_f8_e4m3(0x37));
}

TEST(Prequantized, Mxfp4FollowsItsFormula) {
  const float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  PrequantizedScheme s;
  s.method = PrequantizedMethod::kMxfp4;
  for (const uint8_t exponent : {127, 120, 143, 20}) {
    const Tensor blocks = bytes({2, 3, 1, 16}, 5);
    Tensor scales = Tensor::empty({2, 3, 1}, DType::kU8);
    for (int64_t i = 0; i < 6; ++i) scales.data<uint8_t>()[i] = static_cast<uint8_t>(exponent - i % 2);
    const auto t =
        decode_prequantized(s, {{}, {2, 3, 32}, ""}, {{"blocks", blocks}, {"scales", scales}}, "test");
    ASSERT_TRUE(t.ok());
    EXPECT_EQ(t->dtype(), exponent == 20 ? DType::kBF16 : DType::kQ8_0);
    for (int64_t i = 0; i < t->count(); ++i) {
      const int nibble = blocks.data<uint8_t>()[i / 2] >> (i % 2 * 4) & 15;
      const float expected = (nibble & 8 ? -1.0f : 1.0f) * e2m1[nibble & 7] *
                             std::ldexp(1.0f, static_cast<int>(scales.data<uint8_t>()[i / 32]) - 127);
      ASSERT_EQ(value(*t, i), expected) << i;
    }
  }
}

Tensor json_tensor(const Json& json) {
  const std::string text = json.dump();
  Tensor t = Tensor::empty({static_cast<int64_t>(text.size())}, DType::kU8);
  std::memcpy(t.raw(), text.data(), text.size());
  return t;
}

TEST(Prequantized, BitsAndBytesFollowsItsFormulas) {
  PrequantizedScheme s;
  s.method = PrequantizedMethod::kBitsAndBytes;
  Tensor table = Tensor::empty({16}), nested = Tensor::empty({256});
  for (int i = 0; i < 16; ++i) table.f32()[i] = std::sin(static_cast<float>(i));
  for (int i = 0; i < 256; ++i) nested.f32()[i] = 0.01f * static_cast<float>(i);
  const Tensor weight = bytes({16 * 8 / 2, 1}, 3), stored_absmax = bytes({8}, 4);
  const Tensor nested_absmax = Tensor::from({2}, std::vector<float>{0.7f, 1.3f});
  const Json state = {{"quant_type", "nf4"},
                      {"blocksize", 16},
                      {"shape", {16, 8}},
                      {"nested_blocksize", 4},
                      {"nested_offset", 0.25}};
  PrequantizedMatrix matrix{{{"state", "x"}}, {16, 8}, ""};
  Parts parts = {{"weight", weight},     {"absmax", stored_absmax},        {"map", table},
                 {"nested_map", nested}, {"nested_absmax", nested_absmax}, {"state", json_tensor(state)}};
  const auto t = decode_prequantized(s, matrix, parts, "test");
  ASSERT_TRUE(t.ok()) << t.error().text();
  for (int64_t i = 0; i < 128; ++i) {
    const int nibble = i % 2 ? weight.data<uint8_t>()[i / 2] & 15 : weight.data<uint8_t>()[i / 2] >> 4;
    const float absmax =
        nested.f32()[stored_absmax.data<uint8_t>()[i / 16]] * nested_absmax.f32()[i / 64] + 0.25f;
    ASSERT_EQ(t->f32()[i], table.f32()[nibble] * absmax) << i;
  }
  parts["state"] =
      json_tensor({{"blocksize", 16}, {"shape", {16, 9}}, {"nested_blocksize", 4}, {"nested_offset", 0.25}});
  EXPECT_FALSE(decode_prequantized(s, matrix, parts, "test").ok());
  Tensor int8_weight = Tensor::empty({2, 3}, DType::kI8);
  for (int i = 0; i < 6; ++i) int8_weight.data<int8_t>()[i] = static_cast<int8_t>(i * 50 - 127);
  const Tensor scb = Tensor::from({2}, std::vector<float>{1.5f, 0.3f});
  const auto int8_decoded = decode_prequantized(s, matrix, {{"weight", int8_weight}, {"SCB", scb}}, "test");
  for (int i = 0; i < 6; ++i)
    EXPECT_FLOAT_EQ(int8_decoded->f32()[i], static_cast<float>(i * 50 - 127) * scb.f32()[i / 3] / 127.0f);
}

TEST(Prequantized, ReadsSchemesAndRefusesUnsupportedOnes) {
  const auto read = [](const Json& q) {
    return read_prequantized_scheme(Config(Json{{"quantization_config", q}}, "config.json"));
  };
  EXPECT_FALSE(read_prequantized_scheme(Config(Json::object(), "config.json"))->has_value());
  const auto s =
      read({{"quant_method", "gptq"}, {"bits", 8}, {"group_size", -1}, {"checkpoint_format", "gptq_v2"}});
  ASSERT_TRUE(s.ok());
  EXPECT_EQ((*s)->bits, 8);
  EXPECT_FALSE((*s)->zeros_less_one);
  for (const Json& q : {Json{{"quant_method", "hqq"}}, Json{{"quant_method", "gptq"}, {"bits", 3}},
                        Json{{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 0}},
                        Json{{"quant_method", "awq"}, {"bits", 4}, {"version", "gemv"}},
                        Json{{"quant_method", "fp8"}, {"weight_block_size", {128}}}, Json{{"bits", 4}}}) {
    const auto scheme = read(q);
    ASSERT_FALSE(scheme.ok()) << q.dump();
    EXPECT_NE(scheme.error().text().find("quantization_config"), std::string::npos) << scheme.error().text();
  }
}

}  // namespace
}  // namespace makar
