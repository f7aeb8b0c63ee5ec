// Constraints on the tokens that a request may generate: a grammar, a schema, a list of choices.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/error.h"

namespace makar {

class Constraint {
 public:
  virtual ~Constraint() = default;
  // Sets the logits of disallowed tokens to -infinity. Stop ids are disallowed until the text may end.
  virtual Status mask(std::span<float> logits) = 0;
  virtual Status accept(int64_t token) = 0;
  // Runs a function on a worker thread and wakes the engine afterwards; returns false if it cannot.
  using RunOnWorker = std::function<bool(std::function<void()>)>;
  // From now on, computes expensive masks with `run_on_worker`, in forks as well.
  virtual void compute_on(RunOnWorker run_on_worker) {}
  // True if mask() is cached or cheap. If false, a worker thread is computing it and the sequence is skipped
  // until then.
  virtual bool ready() { return true; }
  virtual std::unique_ptr<Constraint> fork() const = 0;
};

}  // namespace makar
