// The engine: every request is a job, every step is one ragged forward of prompt chunks and single tokens of
// any mix of jobs. A job's numbers do not depend on what runs beside it, on chunks, on pages, on being put
// off and begun again. An encoder reads whole texts, without a cache, as many as fit a step.
#pragma once
#include <memory>
#include <vector>

#include "infer/context.h"
#include "infer/job.h"
#include "infer/prefix_cache.h"
#include "models/model.h"

namespace makar {

struct EngineOptions {
  int64_t step_tokens = 512;   // rows of a forward at most
  int64_t max_pages = 0;       // of the cache; 0: as many as are needed
  int64_t max_branches = 256;  // sequences in the cache at a time
  bool share_prefixes = true;
  CacheTypes cache;        // of keys and values
  ContextOptions context;  // of all requests
};

struct EngineStats {
  int64_t steps = 0, rows = 0, reused = 0, preempted = 0;
};

// A sequence in the cache, for whoever looks.
struct EngineSequence {
  int64_t tokens = 0, cached = 0, pages = 0;
};

class Engine {
 public:
  Engine(const Model& model, ThreadPool& pool, EngineOptions options = {});
  ~Engine();

  void submit(std::shared_ptr<Job> job);
  void cancel(const Job& job);
  // One forward, and what follows from it. False when there is nothing to do.
  bool step();
  void run() {
    while (step()) {
    }
  }

  const Model& model() const { return model_; }
  ThreadPool& pool() const { return pool_; }
  KvCache& cache() { return cache_; }
  int64_t prefix_pages() const { return prefixes_.pages(); }
  const EngineOptions& options() const { return options_; }
  const EngineStats& stats() const { return stats_; }
  // Those that stand in the cache, `most` at most.
  std::vector<EngineSequence> sequences(size_t most) const;
  int64_t waiting() const { return static_cast<int64_t>(jobs_.size()); }

 private:
  struct Piece {  // rows of one branch in this step
    Job* job;
    size_t branch;
    int64_t count;
  };
  bool place(Job& job, Branch& branch, std::vector<Piece>& pieces);
  // Calls `grow` until it finds pages for the branch; whoever is behind it makes room.
  template <class Grow>
  bool make_room(Job& job, const Branch& branch, std::vector<Piece>& pieces, const Grow& grow);
  bool preempt_after(Job& job, const Branch& branch, std::vector<Piece>& pieces);
  void plan_branch(Job& job, size_t branch, int64_t& budget, std::vector<Piece>& pieces);
  void make_places(int64_t& placed);
  std::vector<Piece> plan();
  std::vector<Piece> plan_whole();
  void compute(const std::vector<Piece>& pieces);
  void settle(const std::vector<Piece>& pieces);
  static std::string salt(const Job& job);

  const Model& model_;
  ThreadPool& pool_;
  EngineOptions options_;
  KvCache cache_;
  PrefixCache prefixes_;
  std::vector<std::shared_ptr<Job>> jobs_;  // by priority, then as they came
  bool whole_;                              // an encoder: no cache, no chunks
  SinkWindow stream_;                       // a context without end
  int64_t window_ = 0;
  EngineStats stats_;
};

}  // namespace makar
