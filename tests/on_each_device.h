// Tests that run on each device named by their parameter: "cpu", "fence" or "cuda".
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "kernels/device.h"

namespace makar::test {

class OnEachDevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto opened = open_device(GetParam(), 2);
    if (!opened.ok()) GTEST_SKIP() << opened.error().text();
    device_ = std::move(*opened);
  }
  std::unique_ptr<Device> device_;
};

}  // namespace makar::test
