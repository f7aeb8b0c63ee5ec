// The models of a server: loaded on demand, unloaded when others need their memory.
#pragma once
#include <deque>
#include <functional>

#include "serve/active_model.h"
#include "serve/workers.h"

namespace makar {

struct ModelEntry {
  std::string name, path;
  std::vector<std::string> adapters;   // adapter names, usable as model names in requests
  std::string adapter_folder = "";     // an adapter that all requests of this entry use
  int64_t labels = 0;                  // number of classes; 0: not a classifier
  bool generates = true;               // false for encoders and classifiers
  std::function<Status()> check = {};  // an error: it is not loaded
};

struct ModelState {
  const ModelEntry* entry;
  std::shared_ptr<ActiveModel> active;  // null: not loaded
};

class ModelRegistry {
 public:
  // Loads an entry. `reserved`: bytes that loaded models may still allocate. kLimit: it does not fit.
  using Opener =
      std::function<Result<std::shared_ptr<ActiveModel>>(const ModelEntry& entry, int64_t reserved)>;
  // `max_loaded`: maximum number of models in memory.
  ModelRegistry(std::vector<ModelEntry> entries, Opener open, int64_t max_loaded);
  ~ModelRegistry() { close(); }
  // Stops loading and all engine loops. No callback runs on the registry's threads afterwards.
  void close();

  using OnLease = std::function<void(Result<ModelLease> lease)>;
  // Calls `on_lease` immediately if the model is loaded or unknown, otherwise on the loader thread after
  // loading. An empty name selects the first model.
  void acquire(const std::string& name, const OnLease& on_lease);
  // Loads the first model.
  Status open_first();

  // Adds a model that is loaded when a request names it; false: the name is taken.
  bool add(ModelEntry entry);
  // Removes an added model. Requests that have it finish; it is unloaded when none uses it.
  void remove(const std::string& name);
  std::vector<ModelState> list() const;
  const std::string& first() const { return first_; }
  // The default model for classification; empty if there is none. Models with several labels come first: a
  // single label usually means a reranker.
  std::string classifier() const;
  EngineState state() const;  // summed over all engines
  // Elapsed time of the longest-running current step.
  double seconds_in_step() const;

 private:
  struct Entry {
    ModelEntry entry;
    std::shared_ptr<ActiveModel> active;
    uint64_t last_used = 0;  // logical time of the last use
    bool removed = false;
  };
  struct FoundModel {
    size_t entry;
    int32_t adapter;
    std::string name;
  };
  std::optional<FoundModel> find(const std::string& name) const;
  std::optional<FoundModel> find_locked(const std::string& name) const;
  std::optional<ModelLease> loaded(const FoundModel& found);
  std::optional<Error> drop_lost(const FoundModel& found);
  void drop_removed();  // unloads idle models that were removed
  const ModelEntry& entry_at(size_t index) const;
  Result<ModelLease> load(const FoundModel& found);
  // Unloads the least recently used idle model; false: all are in use.
  bool unload_one();
  bool wait_and_unload_one();
  int64_t count_loaded() const;
  int64_t reserved() const;

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // only grows: references stay valid
  const std::string first_;
  Opener open_;
  const int64_t max_loaded_;
  uint64_t clock_ = 0;
  Workers loader_;
};

}  // namespace makar
