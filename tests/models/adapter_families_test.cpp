// Adapters on every family of the fixtures, and on prequantized weights (GPTQ, AWQ, FP8).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "kernels/cpu_device.h"
#include "models/adapter.h"
#include "models/forward.h"
#include "models/subjects.h"
#include "ops/elementwise.h"
#include "ops/shape.h"
#include "optim/optimizer.h"
#include "scratch_folder.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

bool has_tokens(const ModelSpec& spec) { return !spec.encoder || !spec.encoder->embedding.patches; }

// The mean of the hidden states along one direction: a loss that every family has.
Tensor loss_of(const LoadedModel& loaded, Context& ctx) {
  const Model& model = *loaded.model;
  Inputs inputs;
  inputs.source.add(random_ids(model.spec(), 12, 5));
  if (model.spec().encoder && model.spec().decoder && model.spec().decoder->first().cross)
    inputs.target.add(random_ids(model.spec(), 7, 6));
  ForwardContext f{ctx};
  const Tensor hidden = model.hidden(f, inputs);
  std::vector<float> direction;
  for (int64_t i = 0; i < hidden.dim(1); ++i) direction.push_back(static_cast<float>(i % 5) - 2.0f);
  const Tensor direction_tensor = Tensor::from({hidden.dim(1)}, std::span<const float>(direction));
  return ops::mean(ctx, ops::multiply(ctx, hidden, direction_tensor));
}

float value_of(const LoadedModel& loaded, Device& device) {
  Context ctx{device};
  return loss_of(loaded, ctx).f32()[0];
}

// Every linear layer of the blocks, as PEFT's all-linear.
AdapterConfig all_linear() {
  AdapterConfig config;
  config.rank = 4, config.alpha = 8, config.targets = {"all-linear"};
  return config;
}

void step(const LoadedModel& loaded, Optimizer& optimizer, Device& device) {
  Tape tape(device);
  loaded.model->parameters().clear_gradients();
  loaded.model->parameters().watch(tape);
  Context ctx{device, &tape};
  tape.backward(loss_of(loaded, ctx));
  loaded.model->parameters().collect(tape);
  optimizer.step(device, 1e-2);
}

// An adapter on all linear layers lowers the loss of every fixture, and gives the same bits after it is saved
// and loaded.
TEST(AdapterFamilies, EveryFixtureTrainsAnAdapter) {
  CpuDevice device(2);
  int count = 0;
  for (const auto& entry : fs::directory_iterator(std::string(MAKAR_TEST_GOLDEN) + "/models")) {
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    const auto loaded = load_model(entry.path().string(), {true});
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    const ModelSpec& spec = loaded->model->spec();
    if (!has_tokens(spec) || spec.head.kind == HeadKind::kContrastive || spec.image_input) continue;
    const AdapterConfig config = all_linear();
    const Status add_status = add_adapter(*loaded, config, device, 9);
    ASSERT_TRUE(add_status.ok()) << add_status.error().text();
    auto optimizer = Optimizer::make(loaded->model->parameters(), {});
    ASSERT_TRUE(optimizer.ok());
    const float before = value_of(*loaded, device);
    for (int i = 0; i < 4; ++i) step(*loaded, *optimizer, device);
    loaded->model->parameters().clear_gradients();
    const float after = value_of(*loaded, device);
    EXPECT_LT(after, before);
    ScratchFolder folder;
    const Status save_status = save_adapter(*loaded, config, folder.path());
    ASSERT_TRUE(save_status.ok()) << save_status.error().text();
    const auto reloaded = load_model(entry.path().string(), {true});
    const auto reloaded_config = load_adapter(*reloaded, folder.path(), device);
    ASSERT_TRUE(reloaded_config.ok()) << reloaded_config.error().text();
    EXPECT_EQ(value_of(*reloaded, device), after);
    ++count;
  }
  EXPECT_GE(count, 85);
}

// The gradients of an adapter on prequantized weights are those on the same weights in f32, up to the
// rounding of activations to 8 bits in products with integers.
TEST(PrequantizedAdapters, GradientsMatchThoseOfDecodedWeights) {
  CpuDevice device(2);
  for (const char* name : {"gptq", "awq", "fp8"}) {
    SCOPED_TRACE(name);
    const std::string folder = std::string(MAKAR_TEST_GOLDEN) + "/packed/" + name;
    std::vector<std::vector<float>> gradients[2];
    float losses[2] = {};
    for (const bool exact : {true, false}) {
      const auto loaded = load_model(folder, {.exact = exact});
      ASSERT_TRUE(loaded.ok()) << loaded.error().text();
      ASSERT_TRUE(add_adapter(*loaded, all_linear(), device, 9).ok());
      Tape tape(device);
      loaded->model->parameters().watch(tape);
      Context ctx{device, &tape};
      const Tensor loss = loss_of(*loaded, ctx);
      losses[exact] = loss.f32()[0];
      tape.backward(loss);
      loaded->model->parameters().collect(tape);
      for (const auto& p : loaded->model->parameters().all())
        if (p->grad.defined()) gradients[exact].emplace_back(p->grad.span().begin(), p->grad.span().end());
    }
    EXPECT_NEAR(losses[0], losses[1], 0.03f * (0.1f + std::abs(losses[1])));
    ASSERT_EQ(gradients[0].size(), gradients[1].size());
    ASSERT_GT(gradients[0].size(), 8u);
    double difference = 0, size = 0;
    for (size_t i = 0; i < gradients[0].size(); ++i)
      for (size_t j = 0; j < gradients[0][i].size(); ++j) {
        difference += std::pow(double{gradients[0][i][j]} - double{gradients[1][i][j]}, 2);
        size += std::pow(double{gradients[1][i][j]}, 2);
      }
    EXPECT_LE(std::sqrt(difference / size), 0.06);
  }
}

}  // namespace
}  // namespace makar
