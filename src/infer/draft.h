// Draft tokens for speculative decoding. A draft token costs one row of the forward pass and saves a step if
// it is accepted. The output is bit-identical to plain decoding: every token is sampled from the model's own
// logits with its own random number, and a draft token is accepted only if it equals that token.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace makar {

class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual std::vector<int64_t> draft(std::span<const int64_t> tokens, int64_t max) = 0;
};

// Prompt lookup (Saxena, 2023): proposes what followed the last occurrence of the latest n tokens, longest n
// first.
class LookupDrafter : public Drafter {
 public:
  LookupDrafter(int64_t min = 2, int64_t max = 4) : min_(min), max_(max) {}
  std::vector<int64_t> draft(std::span<const int64_t> tokens, int64_t max) override;

 private:
  int64_t min_, max_;  // lengths of the n-grams to look up
};

}  // namespace makar
