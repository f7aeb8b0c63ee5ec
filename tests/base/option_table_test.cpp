// One table of options: flags, JSON keys, bounds and stored values agree.
#include "base/option_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace makar {
namespace {

struct Settings {
  double rate = 0.5;
  int64_t steps = 10;
  uint64_t seed = 7;
  bool fast = false;
  std::string name = "adamw";
};
constexpr TableOption<Settings> kTable[] = {
    {"-r rate learning_rate", &Settings::rate, 0, 1, "X", "the rate", "One"},
    {"max_steps", &Settings::steps, 1, 100, "N", "the steps", "One"},
    {"seed", &Settings::seed, 0, 1e19, "N", "the seed", "Two"},
    {"fast", &Settings::fast, 0, 0, "", "be fast", "Two"},
    {"name", &Settings::name, 0, 0, "NAME", "the name", "Two"},
};
std::span<const TableOption<Settings>> table() { return kTable; }

TEST(OptionTable, DeclaresFlagsWithSynonymsAndGroups) {
  Settings s;
  Options o("test", "Test.", "makar test");
  declare_table(o, s, table());
  ASSERT_TRUE(
      o.parse({"--learning-rate", "0.25", "--max-steps=3", "--seed", "9", "--fast", "--name", "sgd"}).ok());
  EXPECT_EQ(s.rate, 0.25);
  EXPECT_EQ(s.steps, 3);
  EXPECT_EQ(s.seed, 9u);
  EXPECT_TRUE(s.fast);
  EXPECT_EQ(s.name, "sgd");
  ASSERT_TRUE(o.parse({"-r", "0.125"}).ok());
  EXPECT_EQ(s.rate, 0.125);
  EXPECT_EQ(o.all()[0].group, "One");
  EXPECT_EQ(o.all()[3].group, "Two");
}

TEST(OptionTable, ReadsJsonOfTheRightType) {
  Settings s;
  EXPECT_TRUE(*read_table(s, table(), "learning_rate", 1));
  EXPECT_TRUE(*read_table(s, table(), "max_steps", 40.0)) << "an integer may be written 40.0";
  EXPECT_TRUE(*read_table(s, table(), "fast", true));
  EXPECT_TRUE(*read_table(s, table(), "name", "lion"));
  EXPECT_FALSE(*read_table(s, table(), "r", 1)) << "a short flag is not a key";
  EXPECT_FALSE(*read_table(s, table(), "unknown", 1));
  EXPECT_EQ(s.rate, 1.0);
  EXPECT_EQ(s.steps, 40);
  EXPECT_EQ(s.name, "lion");
  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{{"max_steps", 1.5},
                                                                            {"max_steps", "3"},
                                                                            {"max_steps", 1e300},
                                                                            {"fast", 1},
                                                                            {"name", 1},
                                                                            {"rate", nullptr}}) {
    const auto read = read_table(s, table(), key, value);
    ASSERT_FALSE(read.ok()) << key << value;
    EXPECT_EQ(read.error().place, key);
  }
}

TEST(OptionTable, ChecksBoundsAndNamesTheOption) {
  Settings s;
  EXPECT_TRUE(check_table(s, table()).ok());
  s.fast = true;
  EXPECT_TRUE(check_table(s, table()).ok());
  for (const double wrong : {-0.1, 1.1, static_cast<double>(NAN)}) {
    s.rate = wrong;
    EXPECT_EQ(check_table(s, table()).error().place, "`rate`") << wrong;
  }
  s = {};
  s.steps = 101;
  EXPECT_EQ(check_table(s, table()).error().message, "must be from 1 to 100, got 101");
}

TEST(OptionTable, ValuesByMainKeyReadBackAsTheyWere) {
  Settings s{0.1, 3, ~uint64_t{0}, true, "x"}, again;
  const Json values = table_values(s, table());
  EXPECT_EQ(values.dump(),
            R"({"rate":0.1,"max_steps":3,"seed":18446744073709551615,"fast":true,"name":"x"})");
  for (const auto& [key, value] : values.items()) EXPECT_TRUE(*read_table(again, table(), key, value)) << key;
  EXPECT_EQ(table_values(again, table()), values);
}

}  // namespace
}  // namespace makar
