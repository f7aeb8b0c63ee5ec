// The engine: every request is a job, every step is one ragged forward pass over prefill chunks and decode
// rows of any mix of jobs. The results of a job do not depend on other jobs, on chunk sizes, on pages, or on
// preemption and recomputation. An encoder processes whole texts, without a cache, as many as fit into a
// step.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "infer/context.h"
#include "infer/decode_steps.h"
#include "infer/job.h"
#include "infer/prefix_cache.h"
#include "infer/step_pacer.h"
#include "infer/turn_order.h"
#include "models/model.h"

namespace makar {

inline constexpr int64_t kMaxLogitRows = 64;  // rows of logits in memory at once

struct EngineOptions {
  int64_t step_tokens = 512;  // maximum rows per forward pass
  // Target duration of a step with and without decoding sequences; limits the prefill rows per step. 0:
  // limited by step_tokens only.
  double decode_step_seconds = 0, prompt_step_seconds = 0;
  int64_t max_pages = 0;       // pages of the KV cache; 0: unlimited
  int64_t max_branches = 256;  // maximum sequences in the cache at once
  bool share_prefixes = true;
  // Pages kept for later prompts; 0: limited by max_pages only; -1: an eighth of the device's memory.
  int64_t max_prefix_pages = 0;
  CacheTypes cache;        // dtypes of keys and values
  ContextOptions context;  // context policy for all requests
  // Whether tokens are chosen on the device (decode_steps.h), with the same bits; by default where
  // that is faster.
  std::optional<bool> device_steps;
};

struct EngineStats {
  int64_t steps = 0, rows = 0;                 // forward passes, and the rows they computed
  int64_t reused_tokens = 0, preemptions = 0;  // reused: found in the prefix cache
};

// Snapshot of a sequence in the cache, for monitoring.
struct EngineSequence {
  int64_t tokens = 0, cached = 0, pages = 0;
};

class Engine {
 public:
  Engine(const Model& model, Device& device, EngineOptions options = {});
  ~Engine();

  void submit(std::shared_ptr<Job> job);
  void cancel(const Job& job);
  // Runs one forward pass and advances the jobs. Returns false if there are no jobs. Computes nothing if
  // every sequence is blocked (all_blocked()).
  bool step();
  void run() {
    while (step()) {
    }
  }

  const Model& model() const { return model_; }
  Device& device() const { return device_; }
  KvCache& cache() { return cache_; }
  int64_t prefix_pages() const { return prefixes_.pages(); }
  const EngineOptions& options() const { return options_; }
  const EngineStats& stats() const { return stats_; }
  // Sequences that hold a cache slot, at most `max`.
  std::vector<EngineSequence> sequences(size_t max) const;
  // Jobs that are not done, running or waiting.
  int64_t jobs() const { return static_cast<int64_t>(jobs_.size()); }
  // True if the last step computed nothing because every sequence was blocked.
  bool all_blocked() const { return all_blocked_; }

 private:
  struct ScheduledRows {  // rows of one branch scheduled in this step
    Job* job;
    size_t branch;
    int64_t count;
  };
  bool assign_slot(Job& job, Branch& branch, std::vector<ScheduledRows>& scheduled);
  // Calls `grow` until it succeeds, evicting prefixes and preempting later jobs to free pages.
  template <class Grow>
  bool grow_or_preempt(Job& job, const Branch& branch, std::vector<ScheduledRows>& scheduled,
                       const Grow& grow);
  bool preempt_after(Job& job, const Branch& branch, std::vector<ScheduledRows>& scheduled);
  void plan_branch(Job& job, size_t branch, StepPacer::Budget& budget, std::vector<ScheduledRows>& scheduled);
  void free_slots(int64_t& used_slots);
  // What this step may prefill, at most `rows` rows.
  StepPacer::Budget prefill_budget(int64_t rows, bool decoding) const;
  std::vector<ScheduledRows> plan();
  std::vector<ScheduledRows> plan_encoder();
  void compute(const std::vector<ScheduledRows>& scheduled);
  // Decoding on the device (engine_decode.cpp). A step of decode rows may start before the tokens of the one
  // before it are known to the host; then the next call of step() takes it.
  bool decodes_on_device(const std::vector<ScheduledRows>& scheduled) const;
  void start_decode(const std::vector<ScheduledRows>& scheduled);
  bool can_start_ahead();
  void take_decode();
  void finish_step(const std::vector<ScheduledRows>& scheduled);
  void add_prefix(const Job& job, const Branch& branch);
  // Adds the rows of images among the `count` next rows of a branch, which start at `first_row` of the batch.
  void add_image_rows(Job& job, const Branch& branch, int64_t count, int64_t first_row, Batch& batch,
                      std::vector<Tensor>& parts);
  static std::string salt(const Job& job, const Branch& branch);

  const Model& model_;
  Device& device_;
  EngineOptions options_;
  KvCache cache_;
  PrefixCache prefixes_;
  std::vector<std::shared_ptr<Job>> jobs_;  // by priority, then by turn
  bool is_encoder_;                         // encoder: no cache, no chunked prefill
  int64_t long_rope_after_ = 0;  // sequences of more tokens have other rotary positions (longrope); 0: none
  SinkWindow sink_window_;       // attention sinks and window for unbounded contexts
  int64_t window_ = 0;           // the widest attention window of all layers; 0: full context
  StepPacer pacer_;
  TurnOrder order_;
  struct DecodeRow {  // a row of the started steps
    Job* job;         // null: the sequence has ended
    size_t branch, slot;
  };
  DecodeSteps decode_steps_;
  std::vector<DecodeRow> decode_rows_;
  bool device_steps_ = false;
  bool skip_device_step_ = false;  // the next step is computed with logits on the host
  std::chrono::steady_clock::time_point decode_since_;
  bool all_blocked_ = false;
  EngineStats stats_;
};

}  // namespace makar
