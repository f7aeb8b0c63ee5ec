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
  virtual std::vector<int64_t> draft(std::span<const int64_t> tokens, int64_t most) = 0;
};

// Prompt lookup (Saxena, 2023): proposes what followed the last occurrence of the latest n tokens, longest n
// first.
class LookupDrafter : public Drafter {
 public:
  LookupDrafter(int64_t least = 2, int64_t most = 4) : least_(least), most_(most) {}
  std::vector<int64_t> draft(std::span<const int64_t> tokens, int64_t most) override;

 private:
  int64_t least_, most_;
};

}  // namespace makar
