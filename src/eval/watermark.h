// A keyed watermark (Kirchenbauer et al., 2023): a key and the previous token divide the vocabulary into
// green and red tokens; sampling raises the logits of green ones. With the key, the green tokens of a text
// can be counted: without the watermark their number is binomial, so the test is exact.
#pragma once
#include <string>
#include <vector>

#include "infer/constraint.h"

namespace makar {

struct WatermarkOptions {
  std::string key;
  double share = 0.5;  // of green tokens, above 0 and below 1
  double delta = 2;    // added to the logits of green tokens
};

class Watermark {
 public:
  explicit Watermark(const WatermarkOptions& options);
  bool green(int64_t previous, int64_t token) const;
  double share() const { return share_; }
  double delta() const { return delta_; }

 private:
  uint64_t seed_;
  double share_, delta_;
  uint32_t green_below_;  // a token is green if its draw is below this
};

// For the sampler of a request. `last`: the last token of the prompt.
class WatermarkConstraint : public Constraint {
 public:
  WatermarkConstraint(Watermark watermark, int64_t last)
      : watermark_(std::move(watermark)), previous_(last) {}
  Status mask(std::span<float> logits) override;
  Status accept(int64_t token) override;
  std::unique_ptr<Constraint> fork() const override { return std::make_unique<WatermarkConstraint>(*this); }

 private:
  Watermark watermark_;
  int64_t previous_;
};

struct WatermarkTest {
  int64_t tokens = 0, green = 0;  // each distinct pair of a token and the previous one counts once
  double p = 1;  // the probability that a text without the watermark has at least as many green tokens
  double z = 0;
};
WatermarkTest test_watermark(const Watermark& watermark, const std::vector<int64_t>& tokens);

// P(X >= successes) of X ~ Binomial(trials, share), computed without underflow of small terms.
double binomial_tail(int64_t trials, int64_t successes, double share);

}  // namespace makar
