// A sequence of random choices for one record: the n-th choice is a pure function of (seed, split, record,
// stream, n). Integer arithmetic only, so that every machine makes the same choices.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace makar::world {

// What a sequence decides. A change to one sequence leaves the choices of the others as they are.
enum class Stream : uint64_t { kStory, kWording, kQuestion, kDocument, kConversation, kRejected, kPrompt };

class Draw {
 public:
  Draw(uint64_t seed, uint64_t split, uint64_t record, Stream stream)
      : rng_(seed, Purpose::kSynthetic, record), next_((split << 8 | static_cast<uint64_t>(stream)) << 32) {}

  // Uniform in [0, n); n >= 1.
  int below(size_t n) { return static_cast<int>(uint64_t{rng_.bits(next_++)[0]} * n >> 32); }
  int from(int low, int high) { return low + below(static_cast<size_t>(high - low + 1)); }  // both included
  bool chance(int of, int in) { return below(static_cast<size_t>(in)) < of; }
  template <class List>
  const auto& pick(const List& list) {
    return list[static_cast<size_t>(below(std::size(list)))];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[static_cast<size_t>(below(i))]);
  }

 private:
  Rng rng_;
  uint64_t next_;
};

}  // namespace makar::world
