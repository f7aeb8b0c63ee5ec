// A job is one request in the engine: sequences to compute, and what to do with their logits.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "infer/image_inputs.h"
#include "nn/cache.h"

namespace makar {

// A sequence being computed: its tokens, and how many of them are in the cache.
struct Branch {
  std::vector<int64_t> tokens;
  std::vector<int64_t> types;  // token types for encoders; empty: all 0
  int64_t cached = 0;
  int64_t first_needed = 0;  // first token whose logits or states the job needs
  std::optional<size_t> slot;
  bool uses_long_rope = false;  // computed with the rotary positions of long sequences (longrope)

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t left() const { return length() - cached; }
};

class Job {
 public:
  virtual ~Job() = default;

  // Receives the logits after token `index` of a branch; called in order for every needed token.
  virtual void on_logits(size_t branch, int64_t index, std::span<const float> logits) = 0;
  // How many more tokens of a branch a device may choose, as device_sampler() tells: nothing else depends on
  // their logits. 0 if the job needs the logits. The engine may then call on_token() for on_logits().
  virtual int64_t device_tokens(size_t branch) const { return 0; }
  virtual kernels::RowSampler device_sampler(size_t branch) const { return {}; }  // of the next token
  virtual void on_token(size_t branch, int64_t index, int64_t token) {}
  // Receives the last hidden state of the token if wants_states(); called before on_logits() in the same
  // step.
  virtual void on_hidden(size_t branch, int64_t index, std::span<const float> hidden) {}
  virtual bool wants_states() const { return false; }
  virtual bool wants_logits(size_t branch, int64_t index) const { return true; }
  // True if the branch cannot choose its next token yet because a worker thread is still computing its mask.
  virtual bool blocked(size_t branch) { return false; }
  // Called when ready(): chooses tokens, forks and drops branches. The job is done when no branch is left.
  virtual void advance(KvCache& cache) = 0;
  // Independent branches: advance() is called as soon as one branch is fully computed, and later branches are
  // preempted when pages run out.
  virtual bool independent_branches() const { return false; }

  bool done() const { return branches.empty() || error; }
  // True if the branches that advance() needs are fully computed.
  bool ready() const;
  // Releases the slot of a branch; the branch is recomputed when pages are free.
  static void preempt(KvCache& cache, Branch& branch);
  // Ends the job and releases its pages.
  void stop(KvCache& cache);
  void fail(KvCache& cache, Error reason);

  std::vector<Branch> branches;
  std::vector<int64_t> source;          // input of the encoder in an encoder-decoder model
  std::shared_ptr<ImageInputs> images;  // null: none
  std::string salt;                     // the caller: jobs with different salts share no pages and take turns
  int32_t adapter = -1;                 // index of the adapter; -1: none
  int64_t priority = 0;                 // higher values are scheduled first
  int64_t turn = 0;                     // set by the engine: order among jobs of the same priority
  std::optional<int64_t> reused_tokens;  // prefix tokens found in the cache when the job got its first slot
  std::optional<Error> error;

 protected:
  // Copies a branch; the copy shares its pages.
  Branch fork(KvCache& cache, const Branch& from) const;
  static void drop(KvCache& cache, Branch& branch);
};

// True if a branch of the job holds a cache slot.
inline bool has_slot(const Job& job) {
  return std::any_of(job.branches.begin(), job.branches.end(),
                     [](const Branch& branch) { return branch.slot.has_value(); });
}

}  // namespace makar
