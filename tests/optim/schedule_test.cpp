#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

TEST(Schedule, KindsFollowTheirFormulasUpToAndBeyondTheEnd) {
  Schedule s{ScheduleKind::kCosine, 1.0, 10, 110, 0.1};
  EXPECT_EQ(s.at(0), 0.0);
  EXPECT_EQ(s.at(5), 0.5);
  EXPECT_EQ(s.at(10), 1.0);
  EXPECT_NEAR(s.at(60), 0.55, 1e-12);
  EXPECT_NEAR(s.at(110), 0.1, 1e-12);
  EXPECT_NEAR(s.at(1000), 0.1, 1e-12);
  s.kind = ScheduleKind::kLinear;
  EXPECT_EQ(s.at(110), 0.0);
  EXPECT_EQ(s.at(500), 0.0);
  s.kind = ScheduleKind::kPolynomial, s.power = 3;
  EXPECT_EQ(s.at(500), 0.1);
  s.kind = ScheduleKind::kInverseSqrt;
  EXPECT_NEAR(s.at(40), 0.5, 1e-12);
  s = {ScheduleKind::kConstant, 0.3};
  EXPECT_EQ(s.at(0), 0.3);
  s = {ScheduleKind::kLinear, 0.3};  // no steps
  EXPECT_EQ(s.at(0), 0.0);
}

TEST(Schedule, WarmUpStableDecayHasThreePhases) {
  Schedule s{ScheduleKind::kStable, 1.0, 10, 100, 0.2};
  s.decay = 20;
  EXPECT_EQ(s.at(5), 0.5);
  EXPECT_EQ(s.at(10), 1.0);
  EXPECT_EQ(s.at(79), 1.0);
  EXPECT_EQ(s.at(80), 1.0);  // the first step of the decay phase
  EXPECT_NEAR(s.at(90), 0.6, 1e-12);
  EXPECT_NEAR(s.at(100), 0.2, 1e-12);
  EXPECT_NEAR(s.at(1000), 0.2, 1e-12);
  s.shape = DecayShape::kLinear;
  EXPECT_NEAR(s.at(85), 0.8, 1e-12);
  s.shape = DecayShape::kOneMinusSqrt;
  EXPECT_NEAR(s.at(85), 0.6, 1e-12);
  s.decay = 0;  // no decay phase
  EXPECT_EQ(s.at(99), 1.0);
  EXPECT_EQ(schedule_kind("wsd").value(), schedule_kind("warmup_stable_decay").value());
  EXPECT_FALSE(decay_shape("cosin").ok());
}

TEST(Schedule, NamesAreReadAndSuggested) {
  for (const std::string& name : schedule_names()) EXPECT_TRUE(schedule_kind(name).ok()) << name;
  const auto wrong = schedule_kind("cosin");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().text().find("did you mean 'cosine'"), std::string::npos) << wrong.error().text();
}

}  // namespace
}  // namespace makar
