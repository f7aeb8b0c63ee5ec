// Guesses of what a request will write next. A guess costs a row of the forward and saves a step where it is
// right; what is written is what plain decoding writes, to the bit, because every token is drawn from the
// model's own logits with its own random number and a guess counts only when it is that token.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace makar {

class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual std::vector<int64_t> guess(std::span<const int64_t> tokens, int64_t most) = 0;
};

// Prompt look-up (Saxena, 2023): what followed the last occurrence of the latest n tokens, the longest n
// first.
class LookupDrafter : public Drafter {
 public:
  LookupDrafter(int64_t least = 2, int64_t most = 4) : least_(least), most_(most) {}
  std::vector<int64_t> guess(std::span<const int64_t> tokens, int64_t most) override;

 private:
  int64_t least_, most_;
};

}  // namespace makar
