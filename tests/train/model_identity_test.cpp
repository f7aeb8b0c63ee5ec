// The hash of a model's files changes with every file that the model is read from, and with no other.
#include "train/model_identity.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "formats/gguf_writer.h"
#include "scratch_folder.h"

namespace makar {
namespace {

TEST(ModelIdentity, FilesOfAFolder) {
  const ScratchFolder folder;
  const auto write = [&](const char* name, const char* text) {
    ASSERT_TRUE(write_file(folder / name, text).ok());
  };
  write("config.json", "{}");
  write("model.safetensors", "weights");
  std::string last = *model_identity(folder.path());
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json", "merges.txt",
                           "chat_template.jinja", "pytorch_model.bin", "adapter_config.json"}) {
    write(name, "other");
    const std::string now = *model_identity(folder.path());
    EXPECT_NE(now, last) << name;
    last = now;
  }
  for (const char* name : {"training_args.bin", "model-q4.gguf", "README.md", "optimizer.pt"}) {
    write(name, "other");
    EXPECT_EQ(*model_identity(folder.path()), last) << name;
  }
  EXPECT_FALSE(model_identity(folder / "absent.gguf").ok());
}

TEST(ModelIdentity, AllPartsOfASplitGgufModel) {
  const ScratchFolder folder;
  const auto path = [&](uint32_t i) { return folder / fmt::format("m-{:05}-of-00002.gguf", i + 1); };
  const auto write = [&](uint32_t i, float value) {
    GgufFields fields;
    fields.set("split.no", GgufValue::u32(i));
    fields.set("split.count", GgufValue::u32(2));
    fields.set("split.tensors.count", GgufValue::u32(2));
    const Tensor t = Tensor::from({2}, std::vector<float>{value, 7.0f});
    const std::string name = fmt::format("t{}", i);
    ASSERT_TRUE(
        write_gguf(path(i), fields, {{name, t.dtype(), t.shape(), [t]() -> Result<Tensor> { return t; }}})
            .ok());
  };
  write(0, 1.0f), write(1, 2.0f);
  const std::string before = *model_identity(path(0));
  write(1, 3.0f);
  EXPECT_NE(*model_identity(path(0)), before);
  write(1, 2.0f);
  EXPECT_EQ(*model_identity(path(0)), before);
}

}  // namespace
}  // namespace makar
