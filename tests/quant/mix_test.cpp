// Mixes choose the same type for every tensor as llama-quantize.
#include "quant/mix.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "convert/gguf_model.h"

namespace makar {
namespace {

GgufTensorSource tensor(const std::string& name, const Shape& shape) {
  return {name, DType::kF32, shape, [shape]() -> Result<Tensor> { return Tensor::zeros(shape); }};
}

GgufModel model(int64_t layers, bool output, int64_t width = 256) {
  GgufModel m;
  m.fields.set("general.architecture", GgufValue::text("llama"));
  m.fields.set("llama.block_count", GgufValue::u32(static_cast<uint32_t>(layers)));
  m.tensors.push_back(tensor("token_embd.weight", {64, width}));
  if (output) m.tensors.push_back(tensor("output.weight", {64, width}));
  return m;
}

TEST(Mix, MatchesFilesOfLlamaQuantize) {
  const char* assets = std::getenv("MAKAR_ASSETS");
  const std::string folder = std::string(assets ? assets : "../shared/assets") + "/../golden/gguf/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  std::ifstream in(folder + "golden.json");
  const Json golden = Json::parse(in);
  const auto original = open_as_gguf(folder + "llama-f32.gguf");
  ASSERT_TRUE(original.ok()) << original.error().text();
  for (const char* kind :
       {"F32", "F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K_M", "Q5_K_M", "Q6_K"}) {
    const auto mix = Mix::find(kind, original->fields, original->tensors);
    ASSERT_TRUE(mix.ok());
    for (const GgufTensorSource& t : original->tensors) {
      std::string type = golden["files"][kind]["types"][t.name];
      for (char& c : type) c = static_cast<char>(std::tolower(c));
      EXPECT_EQ(name((*mix)(t)), type) << kind << " " << t.name;
    }
  }
}

TEST(Mix, SomeLayersGetMoreBits) {
  const GgufModel m = model(22, true);
  const auto mix = Mix::find("Q4_K_M", m.fields, m.tensors);
  ASSERT_TRUE(mix.ok());
  std::string kinds;
  for (int i = 0; i < 22; ++i)
    kinds += (*mix)(tensor(fmt::format("blk.{}.attn_v.weight", i), {64, 256})) == DType::kQ6_K ? '6' : '4';
  EXPECT_EQ(kinds, "6644644644644644644666");
  EXPECT_EQ((*mix)(tensor("blk.3.attn_q.weight", {64, 256})), DType::kQ4_K);
  EXPECT_EQ((*mix)(tensor("blk.3.attn_qkv.weight", {64, 256})), DType::kQ5_K);
  EXPECT_EQ((*mix)(m.tensors[0]), DType::kQ4_K);
  EXPECT_EQ((*mix)(m.tensors[1]), DType::kQ6_K);
}

TEST(Mix, TiedEmbeddingsUnusualRowsAndSmallTensorsGetOtherTypes) {
  const GgufModel small = model(2, false);
  const auto tied = Mix::find("q4_k", small.fields, small.tensors);
  ASSERT_TRUE(tied.ok());
  EXPECT_EQ(tied->name(), "q4_k_m");
  EXPECT_EQ((*tied)(tensor("token_embd.weight", {64, 256})), DType::kQ6_K);
  EXPECT_EQ((*tied)(tensor("blk.1.attn_q.weight", {64, 288})), DType::kQ5_0);
  EXPECT_EQ((*tied)(tensor("blk.1.attn_q.weight", {64, 40})), DType::kF16);
  EXPECT_EQ((*tied)(tensor("blk.1.attn_norm.weight", {256})), DType::kF32);
  EXPECT_EQ((*tied)(tensor("blk.1.attn_q.bias", {256})), DType::kF32);
  EXPECT_EQ((*tied)(tensor("blk.1.ffn_gate_inp.weight", {8, 256})), DType::kF32);
  EXPECT_EQ((*tied)(tensor("position_embd.weight", {8, 256})), DType::kF32);
  const auto unknown = Mix::find("q4_k_n", small.fields, small.tensors);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().text().find("did you mean"), std::string::npos);
}

}  // namespace
}  // namespace makar
