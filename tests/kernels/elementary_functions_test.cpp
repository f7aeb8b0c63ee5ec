// The elementary functions are close to double over their range.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/table.h"

namespace makar::kernels {
namespace {

using Floats = std::vector<float>;

struct Sweep {
  Activation kind;
  double (*value)(double);
  double low, high, relative, absolute;
};

TEST(ElementaryFunctions, AreCloseToDouble) {
  const Sweep sweeps[] = {
      {Activation::kExp, [](double x) { return std::exp(x); }, -87.3, 88.7, 2.5e-7, 0},
      {Activation::kTanh, [](double x) { return std::tanh(x); }, -12, 12, 2.5e-7, 0},
      {Activation::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -85, 40, 3e-7, 0},
      {Activation::kSilu, [](double x) { return x / (1 + std::exp(-x)); }, -85, 40, 3.5e-7, 0},
      {Activation::kSoftplus, [](double x) { return std::log1p(std::exp(x)); }, -80, 80, 3e-7, 0},
      {Activation::kLogSigmoid, [](double x) { return -std::log1p(std::exp(-x)); }, -80, 80, 3e-7, 0},
      {Activation::kGelu, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, -8, 8, 2.5e-7,
       3e-7},
      {Activation::kGeluTanh,
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
       -8, 8, 2.5e-7, 3e-7},
  };
  constexpr int kPoints = 400001;
  for (const Sweep& s : sweeps) {
    Floats x(kPoints), y(kPoints);
    for (int i = 0; i < kPoints; ++i)
      x[static_cast<size_t>(i)] = static_cast<float>(s.low + (s.high - s.low) * i / (kPoints - 1));
    cpu().activation[static_cast<int>(s.kind)].forward(x.data(), y.data(), kPoints);
    double worst = 0, at = 0;
    for (int i = 0; i < kPoints; ++i) {
      const auto j = static_cast<size_t>(i);
      const double want = s.value(x[j]), error = std::max(0.0, std::fabs(y[j] - want) - s.absolute) /
                                                 std::max(std::fabs(want), 1e-300);
      if (error > worst) worst = error, at = x[j];
    }
    if (std::getenv("MAKAR_OP_REPORT"))
      std::printf("activation %d: %.2e at %g\n", static_cast<int>(s.kind), worst, at);
    EXPECT_LE(worst, s.relative) << "activation " << static_cast<int>(s.kind) << " at " << at;
  }
}

TEST(ElementaryFunctions, HandleExtremeArguments) {
  const float inf = INFINITY, nan = NAN;
  const auto f = [](Activation kind, float x) {
    float y;
    cpu().activation[static_cast<int>(kind)].forward(&x, &y, 1);
    return y;
  };
  EXPECT_EQ(f(Activation::kExp, -inf), 0.0f);
  EXPECT_EQ(f(Activation::kExp, inf), inf);
  EXPECT_EQ(f(Activation::kExp, 0.0f), 1.0f);
  EXPECT_EQ(f(Activation::kTanh, inf), 1.0f);
  EXPECT_EQ(f(Activation::kTanh, -inf), -1.0f);
  EXPECT_EQ(f(Activation::kSigmoid, -inf), 0.0f);
  EXPECT_EQ(f(Activation::kSigmoid, inf), 1.0f);
  EXPECT_EQ(f(Activation::kGelu, 100.0f), 100.0f);
  EXPECT_EQ(f(Activation::kGelu, -100.0f), 0.0f);
  EXPECT_EQ(f(Activation::kSoftplus, inf), inf);
  for (int k = 0; k < kActivations; ++k) EXPECT_TRUE(std::isnan(f(static_cast<Activation>(k), nan))) << k;
}

}  // namespace
}  // namespace makar::kernels
