// A job is one request in the engine: sequences to compute, and what to do with the logits that come out.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "nn/cache.h"

namespace makar {

// A sequence in work: its tokens, and how many of them stand in the cache already.
struct Branch {
  std::vector<int64_t> tokens;
  std::vector<int64_t> types;  // of the tokens, for encoders; empty: all alike
  int64_t cached = 0;
  int64_t want = 0;  // something is wanted of the tokens from here on
  std::optional<size_t> slot;

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t left() const { return length() - cached; }
};

class Job {
 public:
  virtual ~Job() = default;

  // The logits after token `index` of a branch, for every wanted one, in order.
  virtual void row(size_t branch, int64_t index, std::span<const float> logits) = 0;
  // The last hidden state of it, where states are wanted; before any logits of the same step.
  virtual void state(size_t branch, int64_t index, std::span<const float> hidden) {}
  virtual bool wants_states() const { return false; }
  virtual bool wants_logits(size_t branch, int64_t index) const { return true; }
  // Every branch is computed to its end: choose further tokens, fork, drop branches. Done when none is left.
  virtual void advance(KvCache& cache) = 0;
  // Branches do not wait for each other: advance() follows as soon as one of them is computed to its end, and
  // where pages run out the later ones are put off.
  virtual bool apart() const { return false; }

  bool done() const { return branches.empty() || error; }
  // All branches that the next step of the job waits for are computed to their end.
  bool ready() const;
  // Gives the place of a branch back; it is computed again when there is room.
  static void put_off(KvCache& cache, Branch& branch);
  // Ends the job; its pages go back.
  void stop(KvCache& cache);
  void fail(KvCache& cache, Error why);

  std::vector<Branch> branches;
  std::vector<int64_t> source;    // what the encoder of an encoder-decoder reads
  std::string salt;               // jobs of different salts share no pages
  int32_t adapter = -1;           // of those the model's layers offer; -1: none
  int64_t priority = 0;           // higher ones go first
  std::optional<int64_t> reused;  // tokens that were known when it was first given a place
  std::optional<Error> error;

 protected:
  // A copy of a branch that shares its pages.
  Branch fork(KvCache& cache, const Branch& from) const;
  static void drop(KvCache& cache, Branch& branch);
};

}  // namespace makar
