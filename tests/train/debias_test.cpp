// Debiased classifiers: reweighing against values by hand, and the adversary's gradient, reversed for the
// classifier.
#include "train/debias.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu_device.h"
#include "models/load.h"
#include "train/classify.h"

namespace makar {
namespace {

TEST(Debias, WeightsMakeGroupAndLabelIndependent) {
  LabelledTexts texts(::testing::TempDir());
  // (group, label): 6 x (0, 0), 2 x (0, 1), 1 x (1, 0), 3 x (1, 1)
  const int counts[2][2] = {{6, 2}, {1, 3}};
  for (int64_t g = 0; g < 2; ++g)
    for (int64_t y = 0; y < 2; ++y)
      for (int i = 0; i < counts[g][y]; ++i) {
        LabelledText t;
        t.ids = {1}, t.group = g, t.label = y;
        ASSERT_TRUE(texts.add(t).ok());
      }
  const auto weights = GroupWeights::of(texts, 2, 2);
  ASSERT_TRUE(weights.ok());
  EXPECT_FLOAT_EQ((*weights)(0, 0), 8.0f * 7 / (12 * 6));
  EXPECT_FLOAT_EQ((*weights)(0, 1), 8.0f * 5 / (12 * 2));
  EXPECT_FLOAT_EQ((*weights)(1, 0), 4.0f * 7 / (12 * 1));
  EXPECT_FLOAT_EQ((*weights)(1, 1), 4.0f * 5 / (12 * 3));
  double total = 0, positive[2] = {0, 0}, group[2] = {0, 0};
  for (int64_t g = 0; g < 2; ++g)
    for (int64_t y = 0; y < 2; ++y) {
      const double w = counts[g][y] * static_cast<double>((*weights)(g, y));
      total += w, group[g] += w, positive[g] += y ? w : 0;
    }
  EXPECT_NEAR(total, 12, 1e-5);
  EXPECT_NEAR(positive[0] / group[0], positive[1] / group[1], 1e-6);
}

TEST(Debias, WeightedCrossEntropyMatchesValuesByHand) {
  CpuDevice device(1);
  Context ctx{device};
  const std::vector<float> logits = {0, 1, 2, -1};
  const auto entropy = [](double target_logit, double other_logit) {
    return std::log1p(std::exp(other_logit - target_logit));
  };
  const double expected = (0.5 * entropy(1, 0) + 3 * entropy(2, -1)) / 2;
  const Tensor x = Tensor::from({2, 2}, std::span<const float>(logits));
  EXPECT_NEAR(weighted_cross_entropy(ctx, x, {1, 0}, {0.5f, 3.0f}).f32()[0], expected, 1e-6);
}

// The adversary gets the gradient of its loss, the classifier that gradient times -strength.
TEST(Debias, TheAdversarysGradientIsReversedForTheClassifier) {
  CpuDevice device(1);
  const auto config = parse_json(
      R"({"model_type": "gpt2", "architectures": ["GPT2ForSequenceClassification"], "n_embd": 8, "n_head": 1,
          "n_layer": 1, "n_positions": 8, "vocab_size": 16, "num_labels": 3})",
      "config");
  ASSERT_TRUE(config.ok());
  for (const bool sees_label : {false, true}) {
    const auto loaded = make_model(Config(*config, "config"));
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    Model& model = *loaded->model;
    const float strength = 2.5f;
    const GroupAdversary adversary(model, 3, 2, {false, strength, sees_label}, 1);
    const std::vector<float> values = {0.3f, -0.2f, 1.0f, 0.7f, 0.1f, -0.9f};
    const std::vector<int64_t> labels = {0, 2}, groups = {1, 0};
    const auto loss_at = [&](const std::vector<float>& at) {
      Context ctx{device};
      return static_cast<double>(
          adversary.loss(ctx, Tensor::from({2, 3}, std::span<const float>(at)), labels, groups).f32()[0]);
    };
    Tensor logits = Tensor::from({2, 3}, std::span<const float>(values));
    Tape tape(device);
    Parameter* hidden = model.parameters().find("adversary.hidden.weight");
    ASSERT_TRUE(hidden && hidden->auxiliary);
    tape.watch(logits), tape.watch(hidden->value);
    Context ctx{device, &tape};
    tape.backward(adversary.loss(ctx, logits, labels, groups));
    const Tensor reversed = tape.gradient(logits), adversary_gradient = tape.gradient(hidden->value);
    constexpr float kStep = 1e-2f;
    for (size_t i = 0; i < values.size(); ++i) {
      std::vector<float> up = values, down = values;
      up[i] += kStep, down[i] -= kStep;
      const double slope = (loss_at(up) - loss_at(down)) / (2 * kStep);
      EXPECT_NEAR(reversed.f32()[i], -strength * slope, 1e-3) << i;
    }
    for (int64_t i = 0; i < 4; ++i) {
      const float original = hidden->value.f32()[i];
      hidden->value.f32()[i] = original + kStep;
      const double above = loss_at(values);
      hidden->value.f32()[i] = original - kStep;
      const double below = loss_at(values);
      hidden->value.f32()[i] = original;
      EXPECT_NEAR(adversary_gradient.f32()[i], (above - below) / (2 * kStep), 1e-3) << i;
    }
  }
}

}  // namespace
}  // namespace makar
