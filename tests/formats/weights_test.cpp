#include "formats/weights.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/safetensors_bytes.h"
#include "scratch_folder.h"

namespace makar {
namespace {

std::vector<NamedTensor> six_tensors() {
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < 6; ++i)
    tensors.push_back({fmt::format("layer.{}", i), Tensor::full({4}, static_cast<float>(i))});
  return tensors;
}

void expect_six(const std::string& folder) {
  const auto weights = WeightFiles::open(folder);
  ASSERT_TRUE(weights.ok()) << weights.error().text();
  EXPECT_EQ(weights->names().size(), 6u);
  EXPECT_EQ(weights->total_bytes(), 96u);
  for (const auto& [name, tensor] : six_tensors())
    EXPECT_EQ(weights->tensor(name)->f32()[3], tensor.f32()[3]);
}

void expect_error(const Result<WeightFiles>& result, const std::string& message, Error::Kind kind) {
  ASSERT_FALSE(result.ok()) << message;
  EXPECT_NE(result.error().text().find(message), std::string::npos) << result.error().text();
  EXPECT_EQ(result.error().kind, kind) << result.error().text();
}

std::string index_of(const std::string& map) { return "{\"metadata\":{},\"weight_map\":" + map + "}"; }
std::string file_of(const std::string& name) {
  return safetensors_bytes("{" + tensor_json(name, "F32", "[1]", 0, 4) + "}", 4);
}

TEST(Weights, AreSavedInOneFile) {
  ScratchFolder folder;
  ASSERT_TRUE(save_weights(folder.path(), six_tensors()).ok());
  EXPECT_TRUE(folder.has("model.safetensors"));
  EXPECT_FALSE(folder.has("model.safetensors.index.json"));
  expect_six(folder.path());
}

TEST(Weights, SavingRemovesTheFilesOfTheLastSave) {
  ScratchFolder folder;
  ASSERT_TRUE(save_weights(folder.path(), six_tensors(), 32).ok());  // two tensors of 16 bytes per shard
  EXPECT_TRUE(folder.has("model-00001-of-00003.safetensors"));
  EXPECT_TRUE(folder.has("model-00003-of-00003.safetensors"));
  expect_six(folder.path());
  const Json index = *read_json(folder / "model.safetensors.index.json");
  EXPECT_EQ(index["metadata"]["total_size"], 96);
  EXPECT_EQ(index["weight_map"]["layer.5"], "model-00003-of-00003.safetensors");
  // A save with another number of shards removes the old files.
  ASSERT_TRUE(save_weights(folder.path(), six_tensors(), 16).ok());
  EXPECT_FALSE(folder.has("model-00001-of-00003.safetensors"));
  EXPECT_TRUE(folder.has("model-00006-of-00006.safetensors"));
  ASSERT_TRUE(save_weights(folder.path(), six_tensors()).ok());
  EXPECT_FALSE(folder.has("model-00006-of-00006.safetensors"));
  EXPECT_FALSE(folder.has("model.safetensors.index.json"));
  expect_six(folder.path());
  ASSERT_TRUE(save_weights(folder.path(), six_tensors(), 1).ok());  // each tensor is larger than a shard
  EXPECT_FALSE(folder.has("model.safetensors"));
  expect_six(folder.path());
}

TEST(Weights, RefusesANameInTwoShards) {
  ScratchFolder folder;
  auto tensors = six_tensors();
  tensors[5].name = tensors[0].name;
  EXPECT_FALSE(save_weights(folder.path(), tensors, 32).ok());
}

TEST(Weights, FoldersWithoutWeightsAreErrors) {
  using Kind = Error::Kind;
  ScratchFolder folder;
  expect_error(WeightFiles::open(folder / "none"), "no such file or folder", Kind::kNotFound);
  expect_error(WeightFiles::open(folder.path()), "has neither model.safetensors nor", Kind::kNotFound);
  expect_error(WeightFiles::open(folder.write("a.txt", "")), "is a file; expected a model folder",
               Kind::kInvalid);
  folder.write("m.gguf", "");
  expect_error(WeightFiles::open(folder.path()), "found 'm.gguf'", Kind::kNotFound);
  folder.write("adapter_model.safetensors", "");
  expect_error(WeightFiles::open(folder.path()), "this is an adapter", Kind::kUnsupported);
  folder.write("tf_model.h5", "");
  expect_error(WeightFiles::open(folder.path()), "tf_model.h5", Kind::kUnsupported);
  folder.write("pytorch_model.bin", "");
  expect_error(WeightFiles::open(folder.path()), "the pickle has no end", Kind::kInvalid);
}

TEST(Weights, BrokenIndexesAreErrors) {
  using Kind = Error::Kind;
  ScratchFolder folder;
  const auto open_with_index = [&](const std::string& text) {
    folder.write("model.safetensors.index.json", text);
    return WeightFiles::open(folder.path());
  };
  expect_error(open_with_index(""), "not valid JSON", Kind::kInvalid);
  expect_error(open_with_index("[]"), "must be a JSON object, found array", Kind::kInvalid);
  expect_error(open_with_index("{}"), "has no field 'weight_map'", Kind::kInvalid);
  expect_error(open_with_index(index_of("[]")), "weight_map must be an object", Kind::kInvalid);
  expect_error(open_with_index(index_of("{}")), "weight_map is empty", Kind::kInvalid);
  expect_error(open_with_index(index_of("{\"w\":3}")), "must be a string, found number", Kind::kInvalid);
  expect_error(open_with_index(index_of("{\"w\":\"a.safetensors\",\"w\":\"b.safetensors\"}")), "given twice",
               Kind::kInvalid);
  for (const char* name :
       {"../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..", "a\\\\b.safetensors"})
    expect_error(open_with_index(index_of(fmt::format("{{\"w\":\"{}\"}}", name))), "not a plain file name",
                 Kind::kInvalid);
  expect_error(open_with_index(index_of("{\"w\":\"\"}")), "is empty", Kind::kInvalid);
  expect_error(open_with_index(index_of("{\"w\":\"a\\u0000.safetensors\"}")), "not a valid file name",
               Kind::kInvalid);
  expect_error(open_with_index(index_of("{\"w\":\"" + std::string(300, 'a') + ".safetensors\"}")),
               "not a valid", Kind::kInvalid);
  expect_error(open_with_index(index_of("{\"w\":\"a.bin\"}")), "not a .safetensors file", Kind::kInvalid);
  expect_error(open_with_index(index_of("{\"w\":\"a.safetensors\"}")), "1 of them are not in the folder",
               Kind::kNotFound);
}

TEST(Weights, ShardsMustMatchTheIndex) {
  using Kind = Error::Kind;
  ScratchFolder folder;
  folder.write("a.safetensors", file_of("x"));
  folder.write("b.safetensors", file_of("y"));
  const auto open_with_map = [&](const std::string& map) {
    folder.write("model.safetensors.index.json", index_of(map));
    return WeightFiles::open(folder.path());
  };
  EXPECT_TRUE(open_with_map("{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\"}").ok());
  expect_error(open_with_map("{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\",\"z\":\"b.safetensors\"}"),
               "has no tensor 'z'", Kind::kNotFound);
  expect_error(open_with_map("{\"x\":\"a.safetensors\",\"z\":\"b.safetensors\"}"), "not in the weight_map",
               Kind::kInvalid);
  folder.write("b.safetensors", file_of("x"));
  expect_error(open_with_map("{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\"}"),
               "must be in one shard only", Kind::kInvalid);
  folder.write("b.safetensors", file_of("y").substr(0, 40));
  expect_error(open_with_map("{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\"}"),
               "b.safetensors: the header", Kind::kInvalid);
}

TEST(Weights, TheSingleFileIsPreferred) {
  ScratchFolder folder;
  folder.write("model.safetensors", file_of("x"));
  folder.write("model.safetensors.index.json", "broken");
  const auto weights = WeightFiles::open(folder.path());
  ASSERT_TRUE(weights.ok()) << weights.error().text();
  EXPECT_TRUE(weights->has("x"));
  EXPECT_EQ(weights->entry("y"), nullptr);
  EXPECT_NE(weights->tensor("y").error().text().find("model.safetensors: has no tensor 'y'"),
            std::string::npos);
}

}  // namespace
}  // namespace makar
