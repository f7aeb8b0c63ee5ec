#include "base/error.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace makar {
namespace {

// Counts the objects that are alive.
struct Counted {
  static inline int alive = 0;
  int value;
  explicit Counted(int v) : value(v) { ++alive; }
  Counted(const Counted& other) : value(other.value) { ++alive; }
  Counted(Counted&& other) noexcept : value(std::exchange(other.value, -1)) { ++alive; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --alive; }
};

Result<Counted> good(int value) { return Counted(value); }
Result<Counted> bad(const std::string& message) {
  return error_at("place", "{} of a length that needs the heap", message);
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<Counted> value = good(3), error = bad("a message");
  EXPECT_TRUE(value.ok());
  EXPECT_EQ(value->value, 3);
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.error().text(), "place: a message of a length that needs the heap");
  EXPECT_THROW((void)error.value(), ContractError);
  EXPECT_THROW((void)value.error(), ContractError);
}

TEST(Result, CopiesMovesAndAssignsBetweenBothStates) {
  {
    std::vector<Result<Counted>> all;
    for (int i = 0; i < 20; ++i) {  // grows, so that results are moved
      if (i % 3)
        all.push_back(good(i));
      else
        all.push_back(bad(std::to_string(i)));
    }
    const std::vector<Result<Counted>> before = all;
    for (size_t to = 0; to < all.size(); ++to)
      for (size_t from = 0; from < all.size(); ++from) {
        all[to] = all[from];
        ASSERT_EQ(all[to].ok(), all[from].ok());
        all[to] = Result<Counted>(before[to]);
        ASSERT_EQ(all[to].ok(), to % 3 != 0);
        if (all[to].ok())
          ASSERT_EQ(all[to]->value, static_cast<int>(to));
        else
          ASSERT_EQ(all[to].error().message, before[to].error().message);
      }
    EXPECT_EQ(Counted::alive, 2 * 13);
  }
  EXPECT_EQ(Counted::alive, 0);
}

TEST(Result, MovesItsValueOut) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = std::move(*result);
  EXPECT_EQ(*taken, 7);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(*result, nullptr);
}

}  // namespace
}  // namespace makar
