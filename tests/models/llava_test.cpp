// LLaVA with a decoder other than Llama. Mistral without a window equals Llama, so the fixture's logits stay
// the same.
#include <gtest/gtest.h>

#include "base/file.h"
#include "formats/safetensors.h"
#include "kernels/cpu_device.h"
#include "models/forward.h"
#include "models/load.h"
#include "models/subjects.h"
#include "scratch_folder.h"

namespace makar {
namespace {

TEST(Llava, LoadsMistralAndNamesTheSupportedDecoders) {
  const std::string golden = std::string(MAKAR_TEST_GOLDEN) + "/models/llava";
  ScratchFolder folder;
  Json config = *read_json(golden + "/config.json");
  config["text_config"]["model_type"] = "mistral";
  config["text_config"]["sliding_window"] = nullptr;
  ASSERT_TRUE(write_file(folder / "config.json", config.dump()).ok());
  ASSERT_TRUE(write_file(folder / "model.safetensors", *read_file(golden + "/model.safetensors")).ok());
  const auto loaded = load_model(folder.path());
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  const auto file = *Safetensors::open(golden + "/golden.safetensors");
  CpuDevice device(1);
  const auto out = forward_tensors(
      *loaded->model,
      {{"input_ids", *file->tensor("in.input_ids")}, {"pixel_values", *file->tensor("in.pixel_values")}},
      {device}, "test");
  ASSERT_TRUE(out.ok()) << out.error().text();
  EXPECT_LE(relative_error(out->at("logits"), *file->tensor("out.logits")), 1e-5);

  config["text_config"]["model_type"] = "gemma";
  ASSERT_TRUE(write_file(folder / "config.json", config.dump()).ok());
  const auto other = load_model(folder.path());
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().text().find("llama, mistral or qwen2"), std::string::npos) << other.error().text();
}

}  // namespace
}  // namespace makar
