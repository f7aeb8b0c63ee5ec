// Keys and limits, with a fake clock.
#include "serve/access.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace makar {
namespace {

using namespace std::chrono_literals;
using Clock = RateLimit::Clock;

TEST(RateLimit, RefillsEvenly) {
  RateLimit limit({60, 0});
  const Clock::time_point start{};
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(limit.take("a", start)) << i;
  const auto refused = limit.take("a", start);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->retry_after, 1);
  EXPECT_FALSE(limit.take("b", start));         // another caller
  EXPECT_TRUE(limit.take("a", start + 900ms));  // one per second is restored
  EXPECT_FALSE(limit.take("a", start + 1900ms));
  EXPECT_TRUE(limit.take("a", start + 1900ms));
  int after_a_day = 0;
  while (!limit.take("a", start + 24h)) ++after_a_day;
  EXPECT_EQ(after_a_day, 60);  // at most one minute's worth accumulates
}

TEST(RateLimit, TokensMayExceedTheAllowanceOnce) {
  RateLimit limit({0, 600});
  const Clock::time_point start{};
  EXPECT_FALSE(limit.take("a", start));
  limit.charge("a", 1200, start);  // exceeds the allowance by one minute's worth
  const auto refused = limit.take("a", start);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->type, "tokens");
  EXPECT_EQ(refused->retry_after, 61);
  EXPECT_TRUE(limit.take("a", start + 60s));
  EXPECT_FALSE(limit.take("a", start + 61s));
  const HttpHeaders headers = limit.headers("a", start + 90s);
  ASSERT_EQ(headers.size(), 3U);
  EXPECT_EQ(headers[1].second, "300");
  EXPECT_EQ(headers[2].second, "30s");
}

TEST(RateLimit, DropsCallersWithAFullAllowance) {
  RateLimit limit({1, 0});
  const Clock::time_point start{};
  for (int i = 0; i < 30000; ++i) EXPECT_FALSE(limit.take(std::to_string(i), start + i * 10ms));
  EXPECT_TRUE(limit.take("29999", start + 300s));
  EXPECT_FALSE(limit.take("29999", start + 400s));
}

TEST(RateLimit, IsOffByDefault) {
  RateLimit limit({});
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(limit.take("a", Clock::time_point{}));
  EXPECT_TRUE(limit.headers("a").empty());
}

TEST(KeyRing, FindsKeysByName) {
  const auto ring = KeyRing::read({"one,two", "three"}, "");
  ASSERT_TRUE(ring.ok());
  for (const char* key : {"one", "two", "three"}) {
    ASSERT_NE(ring->find(key), nullptr) << key;
    EXPECT_EQ(ring->find(key)->name.find(key), std::string::npos);
  }
  for (const char* key : {"", "on", "onee", "one,two", "ONE"}) EXPECT_EQ(ring->find(key), nullptr) << key;
  for (const auto& bad :
       std::vector<std::vector<std::string>>{{""}, {"a,,b"}, {"a b"}, {"a", "a"}, {"\xc3\xa4"}})
    EXPECT_FALSE(KeyRing::read(bad, "").ok());
}

TEST(Access, WithSeveralKeysOnlyAdministratorsSeeTheWholeServer) {
  const auto path = std::filesystem::temp_directory_path() / ("makar_keys_" + std::to_string(::getpid()));
  const auto access = [&](const char* text) {
    std::ofstream(path) << text;
    auto ring = KeyRing::read({}, path.string());
    EXPECT_TRUE(ring.ok()) << text;
    return std::make_unique<Access>(AccessOptions{ring.ok() ? *ring : KeyRing(), {}, {}});
  };
  const auto as = [](const char* key) {
    return HttpRequest{"GET", "/", "", {{"x-api-key", key}}, "", "127.0.0.1"};
  };
  const auto several = access("one first\ntwo second admin\n");
  EXPECT_FALSE(several->may_see_all(as("one")));
  EXPECT_TRUE(several->may_see_all(as("two")));
  EXPECT_FALSE(several->may_see_all(as("three")));
  EXPECT_TRUE(access("one first\n")->may_see_all(as("one")));
  EXPECT_TRUE(Access({}).may_see_all(as("")));
  std::ofstream(path) << "one first owner\n";
  EXPECT_FALSE(KeyRing::read({}, path.string()).ok());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace makar
