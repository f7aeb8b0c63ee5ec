#include "base/work_budget.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

TEST(WorkBudget, StopsOneUnitAfterItsLimitAndStaysStopped) {
  for (const int64_t limit : {0, 1, 10, 4095, 4096, 4097, 100'000}) {
    WorkBudget budget(limit);
    for (int64_t i = 0; i < limit; ++i) ASSERT_TRUE(budget.spend()) << i << " of " << limit;
    EXPECT_FALSE(budget.spend()) << limit;
    EXPECT_FALSE(budget.spend(0)) << limit;
    EXPECT_TRUE(budget.stopped());
    EXPECT_EQ(budget.error("field").kind, Error::Kind::kLimit);
    EXPECT_EQ(budget.error("field").place, "field");
  }
}

TEST(WorkBudget, WithoutALimitItOnlyCounts) {
  WorkBudget budget;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(budget.spend(1 << 20));
  EXPECT_EQ(budget.spent(), 100 << 20);
}

TEST(WorkBudget, TheDeadlineAndTheCancelFlagStopIt) {
  WorkBudget expired(WorkBudget::kUnlimited, WorkBudget::Clock::now() - std::chrono::seconds(1));
  EXPECT_TRUE(expired.spend());  // the clock is read every few thousand units and by check()
  EXPECT_FALSE(expired.spend(10'000));
  WorkBudget checked(WorkBudget::kUnlimited, WorkBudget::Clock::now() - std::chrono::seconds(1));
  EXPECT_FALSE(checked.check());

  const auto cancel = std::make_shared<std::atomic<bool>>(false);
  WorkBudget cancelled(WorkBudget::kUnlimited, WorkBudget::Clock::time_point::max(), cancel);
  EXPECT_TRUE(cancelled.spend(10'000));
  *cancel = true;
  EXPECT_FALSE(cancelled.spend(10'000));
  EXPECT_NE(cancelled.error("x").message.find("disconnected"), std::string::npos);
}

TEST(WorkBudget, AnInnerBudgetCountsInTheOuterOneAndStopsWithIt) {
  WorkBudget outer(100'000);
  {
    WorkBudget inner(10'000, &outer);
    EXPECT_FALSE(inner.spend(10'001));
    EXPECT_FALSE(outer.stopped()) << "an exceeded inner limit does not stop the outer budget";
    EXPECT_GE(outer.spent(), 10'000);
  }
  WorkBudget inner(WorkBudget::kUnlimited, &outer);
  int64_t spent = 0;
  while (inner.spend(1000)) spent += 1000;
  EXPECT_TRUE(outer.stopped());
  EXPECT_LT(spent, 100'000);
  EXPECT_NE(inner.error("x").message.find("units of work"), std::string::npos);
}

}  // namespace
}  // namespace makar
