// Tests with programs in the sandbox; skipped where they cannot run.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "eval/sandbox.h"

namespace makar {

class Sandbox : public testing::Test {
 protected:
  void SetUp() override {
    const auto works = run_program("python", "");
    if (!works.ok()) GTEST_SKIP() << works.error().text();
    ASSERT_TRUE(works->passed);
  }
  // Neither passes nor reaches its time limit.
  static bool is_stopped(const std::string& source, const std::string& language = "python") {
    ProgramLimits limits;
    limits.seconds = 60, limits.memory = 512 << 20;
    const auto outcome = run_program(language, source, limits);
    EXPECT_TRUE(outcome.ok()) << outcome.error().text();
    return outcome.ok() && !outcome->passed && !outcome->timed_out;
  }
  static std::string printed(const std::string& language, const std::string& source) {
    ProgramLimits limits;
    limits.output = 10000;
    const auto outcome = run_program(language, source, limits);
    EXPECT_TRUE(outcome.ok() && outcome->passed) << (outcome.ok() ? outcome->output : outcome.error().text());
    return outcome.ok() ? outcome->output : "";
  }
  static bool runs(const std::string& language) { return check_language(language).ok(); }
  static bool passes(const std::string& source, const std::string& language = "python", double seconds = 10) {
    ProgramLimits limits;
    limits.seconds = seconds;
    const auto outcome = run_program(language, source, limits);
    EXPECT_TRUE(outcome.ok()) << outcome.error().text();
    return outcome.ok() && outcome->passed;
  }
};

}  // namespace makar
