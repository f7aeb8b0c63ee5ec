// GGUF read and written: every kind of value, order, alignment, bytes.
#include "formats/gguf.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "formats/gguf_bytes.h"
#include "formats/gguf_writer.h"
#include "scratch_folder.h"

namespace makar {
namespace {

GgufTensorSource source(const std::string& name, const Tensor& t) {
  return {name, t.dtype(), t.shape(), [t]() -> Result<Tensor> { return t; }};
}

TEST(Gguf, ReadsAValidFile) {
  const auto file = parse_gguf(GgufParts().join());
  ASSERT_TRUE(file.ok()) << file.error().text();
  EXPECT_EQ((*file)->fields().text("general.architecture"), "llama");
  EXPECT_EQ((*file)->fields().integer("llama.block_count"), 1);
  const GgufTensor* a = (*file)->find("a");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->shape, Shape({2, 32}));
  EXPECT_EQ(a->dtype, DType::kQ8_0);
  EXPECT_EQ((*file)->view(*a).bytes(), 68u);
  EXPECT_EQ((*file)->find("c"), nullptr);
}

TEST(Gguf, ReadsVersion2AndEmptyFiles) {
  GgufParts parts;
  parts.version = le<uint32_t>(2);
  EXPECT_TRUE(parse_gguf(parts.join()).ok());
  parts.pairs.clear(), parts.infos.clear(), parts.data.clear();
  EXPECT_TRUE(parse_gguf(parts.join()).ok());
}

TEST(Gguf, EveryKindOfValueRoundTrips) {
  const std::vector<std::pair<uint32_t, std::string>> kinds = {
      {0, le<uint8_t>(200)},
      {1, le<int8_t>(-3)},
      {2, le<uint16_t>(60000)},
      {3, le<int16_t>(-30000)},
      {4, le<uint32_t>(4000000000u)},
      {5, le<int32_t>(-5)},
      {6, le(1.5f)},
      {7, le<uint8_t>(1)},
      {8, gguf_string("text")},
      {9, le<uint32_t>(8) + le<uint64_t>(2) + gguf_string("one") + gguf_string("")},
      {9, le<uint32_t>(5) + le<uint64_t>(2) + le<int32_t>(1) + le<int32_t>(-2)},
      {9, le<uint32_t>(6) + le<uint64_t>(1) + le(0.25f)},
      {9, le<uint32_t>(7) + le<uint64_t>(2) + le<uint8_t>(1) + le<uint8_t>(0)},
      {9, le<uint32_t>(9) + le<uint64_t>(1) + le<uint32_t>(0) + le<uint64_t>(2) + "ab"},
      {10, le<uint64_t>(UINT64_MAX)},
      {11, le<int64_t>(INT64_MIN)},
      {12, le(-2.5)}};
  GgufParts parts;
  for (size_t i = 0; i < kinds.size(); ++i)
    parts.pairs.push_back(gguf_pair("k" + std::to_string(i), kinds[i].first, kinds[i].second));
  const std::string bytes = parts.join();
  const auto file = parse_gguf(bytes);
  ASSERT_TRUE(file.ok()) << file.error().text();
  const GgufFields& f = (*file)->fields();
  EXPECT_EQ(f.integer("k0"), 200);
  EXPECT_EQ(f.integer("k3"), -30000);
  EXPECT_EQ(f.find("k6")->number(), 1.5);
  EXPECT_EQ(f.find("k7")->flag(), true);
  EXPECT_EQ(f.find("k9")->texts(), (std::vector<std::string_view>{"one", ""}));
  EXPECT_EQ(f.find("k10")->integers(), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(f.find("k11")->numbers(), (std::vector<double>{0.25}));
  EXPECT_EQ(f.find("k12")->integers(), (std::vector<int64_t>{1, 0}));
  EXPECT_FALSE(f.integer("k14").has_value());
  EXPECT_EQ(f.integer("k15"), INT64_MIN);
  EXPECT_EQ(f.find("k16")->number(), -2.5);

  ScratchFolder folder;
  std::vector<GgufTensorSource> sources;
  for (const GgufTensor& t : (*file)->tensors()) sources.push_back(source(t.name, (*file)->view(t)));
  ASSERT_TRUE(write_gguf(folder / "copy.gguf", f, sources).ok());
  std::string copy = *read_file(folder / "copy.gguf");
  const auto reopened = Gguf::open(folder / "copy.gguf");
  ASSERT_TRUE(reopened.ok()) << reopened.error().text();
  copy.resize(bytes.size());  // the writer also pads after the last tensor
  std::string original = bytes;
  const size_t gap = original.size() - 108 + 68;  // the content of the padding between tensors is not defined
  original.replace(gap, 28, std::string(28, '\0'));
  EXPECT_EQ(copy, original);
}

TEST(Gguf, WrittenTensorsAreAlignedAndEqual) {
  ScratchFolder folder;
  GgufFields fields;
  fields.set("general.alignment", GgufValue::u32(64));
  fields.set("x", GgufValue::f32s(std::vector<float>{1, 2}));
  fields.set("x", GgufValue::i32s(std::vector<int32_t>{3}));
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Tensor a = Tensor::from({2, 3}, values), b = Tensor::from({1}, std::span(values).first(1));
  ASSERT_TRUE(write_gguf(folder / "a.gguf", fields, {source("a", a), source("b", b)}).ok());
  const auto file = Gguf::open(folder / "a.gguf");
  ASSERT_TRUE(file.ok()) << file.error().text();
  EXPECT_EQ((*file)->fields().list().size(), 2u);
  EXPECT_EQ((*file)->find("b")->begin, 64u);
  const Tensor view = (*file)->view(*(*file)->find("a"));
  EXPECT_EQ(view.shape(), Shape({2, 3}));
  EXPECT_EQ(std::memcmp(view.raw(), a.raw(), a.bytes()), 0);
}

TEST(Gguf, AFailedWriteLeavesNoFile) {
  ScratchFolder folder;
  const Tensor a = Tensor::zeros({3, 2});
  EXPECT_FALSE(write_gguf(folder / "a.gguf", {}, {source("a", a), source("a", a)}).ok());
  const GgufTensorSource broken{
      "a", DType::kF32, {2}, []() -> Result<Tensor> { return error_at("there", "no"); }};
  EXPECT_FALSE(write_gguf(folder / "a.gguf", {}, {broken}).ok());
  EXPECT_FALSE(write_gguf(folder / "a.gguf", {}, {source("a", Tensor::zeros({2}, DType::kBool))}).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Gguf, TheGoldenFilesOfLlamaCppOpen) {
  const char* assets = std::getenv("MAKAR_ASSETS");
  const std::string folder = std::string(assets ? assets : "../shared/assets") + "/../golden/gguf";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  int file_count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    const auto file = Gguf::open(entry.path().string());
    ASSERT_TRUE(file.ok()) << file.error().text();
    EXPECT_EQ((*file)->tensors().size(), 12u);
    ++file_count;
  }
  EXPECT_EQ(file_count, 14);
}

}  // namespace
}  // namespace makar
