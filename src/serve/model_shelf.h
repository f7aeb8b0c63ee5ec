// The models that a server has: loaded when they are asked for, put away when others need their memory.
#pragma once
#include <functional>

#include "serve/active_model.h"
#include "serve/workers.h"

namespace makar {

struct ShelfEntry {
  std::string name, path;
  std::vector<std::string> adapters;  // names of those that a request may ask for instead of the model
  int64_t labels = 0;                 // that it gives to texts; 0: it is no classifier
};

struct ShelfState {
  const ShelfEntry* entry;
  std::shared_ptr<ActiveModel> active;  // null: not loaded
};

class ModelShelf {
 public:
  // Loads an entry; `reserved`: bytes that the others may still come to use. kLimit: it does not fit.
  using Opener =
      std::function<Result<std::shared_ptr<ActiveModel>>(const ShelfEntry& entry, int64_t reserved)>;
  // `most`: so many loaded at a time.
  ModelShelf(std::vector<ShelfEntry> entries, Opener open, int64_t most);
  ~ModelShelf() { close(); }
  // No model is loaded any more, every request is taken back, and nobody is called from a thread of its own.
  void close();

  using Then = std::function<void(Result<ModelLease> lease)>;
  // Calls `then` at once where the model is loaded or unknown, otherwise on the loader's thread when it is.
  // No name: the first one.
  void ask(const std::string& name, const Then& then);
  // Loads the first one now.
  Status open_first();

  std::vector<ShelfState> list() const;
  const std::string& first() const { return entries_.front().entry.name; }
  // One that classifies texts, for requests that name none; empty where there is none. A single label is a
  // rank sooner than a class: such a model comes last.
  std::string classifier() const;
  bool knows(const std::string& name) const { return find(name).has_value(); }
  EngineState state() const;  // of all engines together
  // The longest time that a step under way has taken so far.
  double seconds_in_step() const;

 private:
  struct Entry {
    ShelfEntry entry;
    std::shared_ptr<ActiveModel> active;
    uint64_t used = 0;  // when it was last asked for
  };
  struct Place {
    size_t entry;
    int32_t adapter;
    std::string name;
  };
  std::optional<Place> find(const std::string& name) const;
  std::optional<ModelLease> loaded(const Place& place);
  Result<ModelLease> load(const Place& place);
  // Puts the least recently used model away that nobody uses; false: all are in use.
  bool put_one_away();
  int64_t count_loaded() const;
  int64_t reserved() const;

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  Opener open_;
  const int64_t most_;
  uint64_t clock_ = 0;
  Workers loader_;
};

}  // namespace makar
