// Preference losses against the golden fixtures of DPO and IPO, gradients against their formulas.
#include "train/preference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu_device.h"

namespace makar {
namespace {

Tensor vector_of(const std::vector<float>& v) {
  return Tensor::from({static_cast<int64_t>(v.size())}, std::span<const float>(v));
}

// From preference/dpo.json of the golden fixtures.
const PreferencePairs kPairs = {vector_of({-58.18531036376953f, -33.24057388305664f, -27.099123001098633f}),
                                vector_of({-61.1387939453125f, -35.250091552734375f, -29.477581024169922f}),
                                vector_of({-55.045814514160156f, -32.84248733520508f, -26.571300506591797f}),
                                vector_of({-62.92701721191406f, -35.2186279296875f, -28.897165298461914f})};

TEST(Preference, LossesMatchTheGoldenFixture) {
  CpuDevice device(1);
  Context ctx{device};
  EXPECT_NEAR(dpo_loss(ctx, kPairs, 0.1f).f32()[0], 0.7905837893486023, 1e-5);
  EXPECT_NEAR(dpo_loss(ctx, kPairs, 0.1f, 0.1f).f32()[0], 0.7731112837791443, 1e-5);
  EXPECT_NEAR(ipo_loss(ctx, kPairs, 0.1f).f32()[0], 50.612361907958984, 1e-4);
}

TEST(Preference, PolicyGradientsMatchTheFormula) {
  CpuDevice device(1);
  for (const float smoothing : {0.0f, 0.2f}) {
    Tape tape(device);
    Context ctx{device, &tape};
    tape.watch(kPairs.policy_chosen), tape.watch(kPairs.policy_rejected);
    tape.backward(dpo_loss(ctx, kPairs, 0.1f, smoothing));
    for (int64_t i = 0; i < 3; ++i) {
      const double m = (kPairs.policy_chosen.f32()[i] - kPairs.policy_rejected.f32()[i]) -
                       (kPairs.reference_chosen.f32()[i] - kPairs.reference_rejected.f32()[i]);
      const auto s = [](double x) { return 1 / (1 + std::exp(-x)); };
      const double expected = (-(1 - smoothing) * 0.1 * s(-0.1 * m) + smoothing * 0.1 * s(0.1 * m)) / 3;
      EXPECT_NEAR(tape.gradient(kPairs.policy_chosen).f32()[i], expected, 1e-7);
      EXPECT_NEAR(tape.gradient(kPairs.policy_rejected).f32()[i], -expected, 1e-7);
    }
  }
}

TEST(Preference, ClippedPolicyLossHasNoGradientBeyondTheClip) {
  CpuDevice device(1);
  Tape tape(device);
  Context ctx{device, &tape};
  const Tensor current = vector_of({0.5f, -0.5f, 0.05f, 0.5f}), old = vector_of({0, 0, 0, 0}),
               advantage = vector_of({1, -1, 2, -1});
  tape.watch(current);
  tape.backward(clipped_policy_loss(ctx, current, old, advantage, 0.2f));
  const Tensor g = tape.gradient(current);
  EXPECT_EQ(g.f32()[0], 0.0f);
  EXPECT_EQ(g.f32()[1], 0.0f);
  EXPECT_NEAR(g.f32()[2], -2 * std::exp(0.05) / 4, 1e-6);
  EXPECT_NEAR(g.f32()[3], std::exp(0.5) / 4, 1e-6);
}

TEST(Preference, AdvantagesStayInsideTheirSequence) {
  const Tensor rewards = vector_of({1, 2, 3, 10}), values = vector_of({0.5f, 0.25f, 0.125f, 1});
  const auto both = generalised_advantages(rewards, values, {0, 3, 4}, 0.9, 0.5);
  const auto alone = generalised_advantages(rewards.slice(0, 3), values.slice(0, 3), {0, 3}, 0.9, 0.5);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(both.advantages.f32()[i], alone.advantages.f32()[i]);
  EXPECT_EQ(both.advantages.f32()[3], 9.0f);
  EXPECT_EQ(both.returns.f32()[3], 10.0f);
}

TEST(Preference, EqualRewardsGiveNoAdvantage) {
  const Tensor same = vector_of({2, 2, 2, 1, 1, 1}), a = group_advantages(same, 3);
  for (const float x : a.span()) EXPECT_EQ(x, 0.0f);
}

}  // namespace
}  // namespace makar
