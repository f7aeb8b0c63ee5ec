#include "formats/safetensors_writer.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "formats/safetensors.h"
#include "scratch_folder.h"

namespace makar {
namespace {

Tensor pattern_tensor(const Shape& shape, DType type, int seed) {
  Tensor t = Tensor::empty(shape, type);
  for (size_t i = 0; i < t.bytes(); ++i) t.raw()[i] = static_cast<std::byte>(i * 7 + seed);
  return t;
}

TEST(SafetensorsWriter, RoundTripKeepsBytesOrderAndAlignment) {
  ScratchFolder folder;
  const std::vector<NamedTensor> tensors = {
      {"z \"quoted\" \\ \xc3\xa9\n", pattern_tensor({3}, DType::kU8, 1)},
      {"half", pattern_tensor({1, 3}, DType::kF16, 2)},
      {"a", pattern_tensor({2, 2}, DType::kF32, 3)},
      {"long", pattern_tensor({5}, DType::kI64, 4)},
      {"scalar", pattern_tensor({}, DType::kF64, 5)},
      {"none", pattern_tensor({0, 4}, DType::kBF16, 6)},
      {"flags", pattern_tensor({3}, DType::kBool, 7)}};
  const std::string path = folder / "m.safetensors";
  ASSERT_TRUE(write_safetensors(path, tensors).ok());
  const auto opened = Safetensors::open(path);
  ASSERT_TRUE(opened.ok()) << opened.error().text();
  const auto& file = **opened;
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}}));
  ASSERT_EQ(file.names().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    EXPECT_EQ(file.names()[i], name);
    const auto* entry = file.entry(name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->begin % size_of(entry->dtype), 0u);
    const Tensor reread = *file.tensor(name);
    EXPECT_EQ(reread.dtype(), tensor.dtype());
    EXPECT_EQ(reread.shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(reread.raw(), tensor.raw(), tensor.bytes()), 0);
  }
  uint64_t length = 0;
  std::memcpy(&length, read_file(path)->data(), 8);
  EXPECT_EQ(length % 8, 0u);
}

TEST(SafetensorsWriter, SameTensorsGiveSameBytes) {
  ScratchFolder folder;
  const std::vector<NamedTensor> tensors = {{"b", pattern_tensor({3}, DType::kF32, 1)},
                                            {"a", pattern_tensor({3}, DType::kF16, 1)}};
  ASSERT_TRUE(write_safetensors(folder / "1", tensors).ok());
  ASSERT_TRUE(write_safetensors(folder / "2", tensors).ok());
  EXPECT_EQ(*read_file(folder / "1"), *read_file(folder / "2"));
}

TEST(SafetensorsWriter, WritesMetadataWithoutTensors) {
  ScratchFolder folder;
  ASSERT_TRUE(write_safetensors(folder / "m", {}, {{"a", "1"}, {"b", "\"\n"}}).ok());
  const auto file = Safetensors::open(folder / "m");
  ASSERT_TRUE(file.ok()) << file.error().text();
  EXPECT_EQ((*file)->metadata().at("b"), "\"\n");
  ASSERT_TRUE(write_safetensors(folder / "n", {}, {}).ok());
  EXPECT_TRUE(Safetensors::open(folder / "n").ok());
}

TEST(SafetensorsWriter, RefusesBadNames) {
  ScratchFolder folder;
  const Tensor t = Tensor::zeros({1});
  const std::vector<NamedTensor> twice = {{"w", t}, {"w", t}}, reserved = {{"__metadata__", t}};
  EXPECT_FALSE(write_safetensors(folder / "m", twice).ok());
  EXPECT_FALSE(write_safetensors(folder / "m", reserved).ok());
  EXPECT_FALSE(folder.has("m"));
  EXPECT_FALSE(folder.has("m.tmp"));
}

TEST(SafetensorsWriter, FailedWritesLeaveNoTemporaryFile) {
  ScratchFolder folder;
  const std::vector<NamedTensor> one = {{"w", Tensor::zeros({1})}};
  EXPECT_FALSE(write_safetensors(folder / "no/such/m", one).ok());
  ASSERT_TRUE(write_safetensors(folder / "m", one).ok());
  std::filesystem::create_directory(folder / "d");
  EXPECT_FALSE(write_safetensors(folder / "d", one).ok());  // a folder cannot be replaced
  EXPECT_FALSE(folder.has("d.tmp"));
  EXPECT_TRUE(Safetensors::open(folder / "m").ok());
}

TEST(SafetensorsWriter, ReplacingAFileKeepsMappedViewsValid) {
  ScratchFolder folder;
  const std::vector<NamedTensor> before = {{"w", Tensor::full({4}, 1)}},
                                 after = {{"w", Tensor::full({2}, 2)}};
  ASSERT_TRUE(write_safetensors(folder / "m", before).ok());
  const auto old_file = Safetensors::open(folder / "m");
  const Tensor view = *(*old_file)->tensor("w");
  ASSERT_TRUE(write_safetensors(folder / "m", after).ok());
  EXPECT_EQ(view.f32()[3], 1.0f);
  EXPECT_EQ((*Safetensors::open(folder / "m"))->tensor("w")->f32()[1], 2.0f);
}

}  // namespace
}  // namespace makar
