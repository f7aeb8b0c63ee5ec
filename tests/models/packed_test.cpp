// Models in published file formats: packed weights and PyTorch's pickles, compared with the logits that
// transformers computed from them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/rng.h"
#include "formats/safetensors.h"
#include "formats/weights.h"
#include "kernels/cpu_device.h"
#include "models/forward.h"
#include "models/inspect.h"
#include "models/load.h"
#include "models/subjects.h"
#include "scratch_folder.h"

namespace makar {
namespace {

std::string golden(const std::string& name) { return std::string(MAKAR_TEST_GOLDEN) + "/packed/" + name; }

double error_of_logits(const std::string& folder, const std::string& fixture, const LoadOptions& options) {
  const auto loaded = load_model(folder, options);
  EXPECT_TRUE(loaded.ok()) << loaded.error().text();
  if (!loaded.ok()) return INFINITY;
  const auto file = Safetensors::open(fixture + "/golden.safetensors");
  CpuDevice device(2);
  const auto out =
      forward_tensors(*loaded->model, {{"input_ids", *(*file)->tensor("in.input_ids")}}, {device}, "test");
  EXPECT_TRUE(out.ok()) << out.error().text();
  return relative_error(out->at("logits"), *(*file)->tensor("out.logits"));
}

class Packed : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Files, Packed, testing::Values("gptq", "awq", "fp8", "pickle-zip", "pickle-legacy"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(Packed, LogitsEqualThoseOfTransformers) {
  EXPECT_LE(error_of_logits(golden(GetParam()), golden(GetParam()), {.trainable = true}), 1e-5);
  EXPECT_LE(error_of_logits(golden(GetParam()), golden(GetParam()), {.exact = true}), 1e-5);
  EXPECT_LE(error_of_logits(golden(GetParam()), golden(GetParam()), {}), 3e-2) << "int8 activations";
}

TEST_P(Packed, AreSavedAsPlainWeights) {
  const auto loaded = load_model(golden(GetParam()), {true});
  ASSERT_TRUE(loaded.ok());
  ScratchFolder folder;
  ASSERT_TRUE(save_model(folder.path(), *loaded->model, *loaded->family).ok());
  EXPECT_LE(error_of_logits(folder.path(), golden(GetParam()), {}), 1e-5);
}

TEST(PackedFiles, IntegersStayIntegers) {
  for (const char* name : {"gptq", "awq"}) {
    const auto loaded = load_model(golden(name));
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    EXPECT_EQ(loaded->model->parameters().find("decoder.layers.0.attn.q.weight")->value.dtype(),
              DType::kQ8_0);
  }
  const auto inspection = inspect_model(golden("gptq"));
  ASSERT_TRUE(inspection.ok());
  EXPECT_EQ(inspection->dtypes[0].first, "gptq, 4 bits");
}

TEST(PackedFiles, CodeInAPickleIsRefused) {
  const auto loaded = load_model(golden("pickle-hostile"));
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().text().find("posix.system"), std::string::npos) << loaded.error().text();
}

TEST(PackedFiles, ShardsOfPicklesAreLoaded) {
  ScratchFolder folder;
  const auto copy = [&](const std::string& from, const std::string& to) {
    ASSERT_TRUE(write_file(folder / to, *read_file(from)).ok());
  };
  copy(golden("pickle-zip") + "/config.json", "config.json");
  copy(golden("pickle-zip") + "/pytorch_model.bin", "pytorch_model-00001-of-00001.bin");
  const auto files = WeightFiles::open(golden("pickle-zip"));
  ASSERT_TRUE(files.ok());
  Json map = Json::object();
  for (const auto& name : files->names()) map[name] = "pytorch_model-00001-of-00001.bin";
  ASSERT_TRUE(write_file(folder / "pytorch_model.bin.index.json", Json{{"weight_map", map}}.dump()).ok());
  EXPECT_LE(error_of_logits(folder.path(), golden("pickle-zip"), {}), 1e-5);
  map[files->names()[0]] = "../elsewhere.bin";
  ASSERT_TRUE(write_file(folder / "pytorch_model.bin.index.json", Json{{"weight_map", map}}.dump()).ok());
  EXPECT_FALSE(load_model(folder.path()).ok());
}

// Mutated configs, headers and data, truncated files: an error or a model, never a crash.
TEST(PackedFiles, MutatedFilesGiveErrorsOrModels) {
  int refused = 0;
  for (const char* name : {"gptq", "awq", "fp8"}) {
    const std::string config = *read_file(golden(name) + "/config.json"),
                      weights = *read_file(golden(name) + "/model.safetensors");
    for (uint64_t seed = 0; seed < 70; ++seed) {
      ScratchFolder folder;
      const Rng rng(seed, Purpose::kSynthetic);
      const auto draw = [&](uint64_t i, size_t below) {
        return static_cast<size_t>(rng.uniform(i) * static_cast<float>(below));
      };
      std::string c = config, w = weights;
      for (uint64_t k = 0; k < 3; ++k) {
        if (seed % 4 == 0) c[draw(10 + k, c.size())] = static_cast<char>('0' + draw(20 + k, 10));
        if (seed % 4 == 1) w[8 + draw(10 + k, 6000)] = static_cast<char>('0' + draw(20 + k, 10));
        if (seed % 4 == 2) w[draw(10 + k, w.size())] = static_cast<char>(draw(20 + k, 256));
      }
      if (seed % 4 == 3) w.resize(draw(1, w.size()));
      ASSERT_TRUE(write_file(folder / "config.json", c).ok() &&
                  write_file(folder / "model.safetensors", w).ok());
      const auto loaded = load_model(folder.path());
      if (!loaded.ok()) ++refused;
    }
  }
  EXPECT_GT(refused, 60);
}

}  // namespace
}  // namespace makar
