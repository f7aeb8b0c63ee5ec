// Reward models: the pairs of rankings, their loss by hand, the golden fixture through the task, calibration,
// records.
#include "train/reward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "formats/safetensors.h"
#include "kernels/cpu_device.h"
#include "scratch_folder.h"
#include "train/loop.h"

namespace makar {
namespace {

std::string golden(const std::string& name) {
  const char* folder = std::getenv("MAKAR_GOLDEN");
  return std::string(folder ? folder : MAKAR_TEST_GOLDEN) + "/" + name;
}

double minus_log_sigmoid(double x) { return std::log1p(std::exp(-x)); }

TEST(Reward, PairsOfARankingAreWeightedByTheirNumber) {
  const RankedAnswers four{{{1}, {2}, {3}, {4}}, {0, 1, 1, 2}, 0}, two{{{1}, {2}}, {1, 0}, 0.5f};
  const RankedAnswers prompts[] = {four, two};
  const ComparedPairs pairs = compared_pairs(prompts, 0.25f);
  EXPECT_EQ(pairs.better, (std::vector<int64_t>{0, 0, 0, 1, 2, 5}));  // 1 and 2 are not compared
  EXPECT_EQ(pairs.worse, (std::vector<int64_t>{1, 2, 3, 3, 3, 4}));
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_FLOAT_EQ(pairs.weights[i], i < 5 ? 0.1f : 0.5f);
    EXPECT_FLOAT_EQ(pairs.margins[i], i < 5 ? 0.25f : 0.75f);
  }
  const std::vector<float> s = {1.5f, 0.25f, -0.5f, -2.0f, 0.5f, 0.75f};
  CpuDevice device(1);
  Context ctx{device};
  double expected = 0;
  for (size_t i = 0; i < 6; ++i) {
    const double a = s[static_cast<size_t>(pairs.better[i])], b = s[static_cast<size_t>(pairs.worse[i])];
    expected += pairs.weights[i] * (minus_log_sigmoid(a - b - pairs.margins[i]) + 0.01 * (a + b) * (a + b));
  }
  const Tensor loss = ranking_loss(ctx, Tensor::from({6}, std::span<const float>(s)), pairs, 0.01f);
  EXPECT_NEAR(loss.f32()[0], expected, 1e-6);
}

TEST(Reward, GradientEqualsDifferences) {
  const RankedAnswers prompts[] = {{{{1}, {2}, {3}}, {0, 2, 1}, 0}, {{{1}, {2}}, {0, 1}, 0}};
  const ComparedPairs pairs = compared_pairs(prompts, 0.1f);
  std::vector<float> s = {0.3f, -0.2f, 0.9f, -1.0f, 0.4f};
  CpuDevice device(1);
  Tape tape(device);
  const Tensor x = Tensor::from({5}, std::span<const float>(s));
  tape.watch(x);
  Context ctx{device, &tape};
  tape.backward(ranking_loss(ctx, x, pairs, 0.02f));
  const Tensor gradient = tape.gradient(x);
  Context plain{device};
  for (size_t i = 0; i < s.size(); ++i) {
    const auto at = [&](float delta) {
      std::vector<float> shifted = s;
      shifted[i] += delta;
      return ranking_loss(plain, Tensor::from({5}, std::span<const float>(shifted)), pairs, 0.02f).f32()[0];
    };
    EXPECT_NEAR(gradient.f32()[i], (at(1e-2f) - at(-1e-2f)) / 2e-2, 2e-4) << i;
  }
}

TEST(Reward, TheTaskMatchesTheGoldenFixture) {
  ScratchFolder scratch;
  CpuDevice device(2);
  const std::string folder = golden("models/llama-reward");
  LoadedModel base = *load_model(folder, {true});
  const auto loaded = with_reward_head(*base.model, folder, 1);
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  const auto pairs = read_fixed_pairs(folder + "/golden.safetensors", scratch.path(), 320);
  ASSERT_TRUE(pairs.ok()) << pairs.error().text();
  RewardTask task(*loaded->model, *rankings_of(*pairs, scratch.path()), {}, 3, 1);
  LoopSettings settings;
  const auto step = step_gradients({*loaded->model, task, settings, device, {}, nullptr, {}}, 0);
  ASSERT_TRUE(step.ok());
  const Json figures = *read_json(folder + "/golden.json");
  EXPECT_NEAR(step->loss, figures["loss"].get<double>(), 1e-5);
  const auto file = Safetensors::open(folder + "/golden.safetensors");
  double chosen = 0, rejected = 0, correct = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const float a = (*file)->tensor("out.reward_chosen")->f32()[i],
                b = (*file)->tensor("out.reward_rejected")->f32()[i];
    chosen += a, rejected += b, correct += a > b ? 1 : 0;
  }
  EXPECT_NEAR(step->metrics.at("margin"), (chosen - rejected) / 3, 1e-5);
  EXPECT_NEAR(step->metrics.at("score"), (chosen + rejected) / 6, 1e-5);
  EXPECT_NEAR(step->metrics.at("accuracy"), correct / 3, 1e-12);
  // Ids outside of the vocabulary are refused.
  EXPECT_FALSE(read_fixed_pairs(folder + "/golden.safetensors", scratch.path(), 100).ok());
}

// Scores are calibrated if pairs with probability p are in the right order in a share p of all cases.
TEST(Reward, CalibrationDetectsOverconfidentScores) {
  PairCalibration good, bad;
  for (int i = 0; i < 1000; ++i) {
    const double difference = std::log(3.0);  // probability 0.75
    good.add(i % 4 == 0 ? -difference : difference);
    bad.add(i % 4 == 0 ? -10 : 10);
  }
  EXPECT_NEAR(good.error(), 0, 1e-9);
  EXPECT_NEAR(bad.error(), 0.25, 1e-4);
  EXPECT_NE(bad.svg().find("<polyline"), std::string::npos);
  EXPECT_EQ(PairCalibration{}.error(), 0);
  PairCalibration extreme;
  for (const float d : {NAN, INFINITY, -INFINITY}) extreme.add(d);
  EXPECT_EQ(extreme.pairs.back(), 2) << "without the one that has no order";
  EXPECT_EQ(extreme.error(), 0.5);
}

TEST(Reward, PaddingDoesNotEndAnswers) {
  for (const auto& [eos, bos, pad, expected] :
       {std::tuple(2, 1, 2, 1), std::tuple(2, 2, 2, -1), std::tuple(2, 1, 0, 0), std::tuple(2, 1, -1, 1)}) {
    Json config = *read_json(golden("models/llama/config.json"));
    config["eos_token_id"] = eos, config["bos_token_id"] = bos, config.erase("pad_token_id");
    if (pad >= 0) config["pad_token_id"] = pad;
    const auto base = make_model(Config(config, "test"));
    ASSERT_TRUE(base.ok());
    initialize(*base->model, 1);
    const auto loaded = with_reward_head(*base->model, "test", 1);
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    EXPECT_EQ(loaded->model->spec().config.value("pad_token_id", -1), expected);
  }
}

TEST(RankedRecord, ReadsLabels) {
  const Json user = {{"role", "user"}, {"content", "Why?"}},
             answer = {{"role", "assistant"}, {"content", "So."}};
  for (const Json& form : {Json{{"prompt", "Why?"}, {"completion", "So."}, {"label", true}},
                           Json{{"prompt", {user}}, {"completion", {answer}}, {"label", 1}},
                           Json{{"messages", {user, answer}}, {"label", true}}}) {
    const auto rating = to_labelled(form);
    ASSERT_TRUE(rating.ok()) << form << rating.error().text();
    EXPECT_EQ(rating->prompt, Json::array({user}));
    EXPECT_EQ(rating->answer, Json::array({answer}));
    EXPECT_TRUE(rating->good);
  }
  for (const Json& form :
       {Json{{"prompt", "Why?"}, {"completion", "So."}}, Json{{"messages", {user}}, {"label", true}},
        Json{{"prompt", "Why?"}, {"completion", "So."}, {"label", 2}},
        Json{{"completion", "So."}, {"label", false}}})
    EXPECT_FALSE(to_labelled(form).ok()) << form;
}

}  // namespace
}  // namespace makar
