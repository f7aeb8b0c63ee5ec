#include "serve/model_registry.h"

#include <algorithm>
#include <thread>

#include "base/quote.h"

namespace makar {

ModelRegistry::ModelRegistry(std::vector<ModelEntry> entries, Opener open, int64_t max_loaded)
    : first_(entries.empty() ? "" : entries.front().name),
      open_(std::move(open)),
      max_loaded_(max_loaded),
      loader_(1) {
  check(!entries.empty() && max_loaded > 0, "a registry has at least one model and may load one");
  for (ModelEntry& entry : entries) entries_.push_back({std::move(entry), nullptr});
}

// Requests reference models and engine loops reference requests: stopping the loops breaks the cycle.
void ModelRegistry::close() {
  loader_.stop();
  std::vector<std::shared_ptr<ActiveModel>> active;
  {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries_)
      if (entry.active) active.push_back(entry.active);
  }
  for (const auto& model : active) model->loop.stop();
}

std::optional<ModelRegistry::FoundModel> ModelRegistry::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return find_locked(name);
}

std::optional<ModelRegistry::FoundModel> ModelRegistry::find_locked(const std::string& name) const {
  const std::string tag = ":latest";
  const std::string plain = name.ends_with(tag) ? name.substr(0, name.size() - tag.size()) : name;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].removed) continue;
    const ModelEntry& entry = entries_[i].entry;
    if (name.empty() || entry.name == name || entry.name == plain) return FoundModel{i, -1, entry.name};
    for (size_t a = 0; a < entry.adapters.size(); ++a)
      if (entry.adapters[a] == name || entry.adapters[a] == plain)
        return FoundModel{i, static_cast<int32_t>(a), entry.adapters[a]};
  }
  return std::nullopt;
}

bool ModelRegistry::add(ModelEntry entry) {
  const std::lock_guard lock(mutex_);
  if (find_locked(entry.name)) return false;
  entries_.push_back({std::move(entry), nullptr});
  return true;
}

void ModelRegistry::remove(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_)
      if (entry.entry.name == name) entry.removed = true;
  }
  drop_removed();
}

void ModelRegistry::drop_removed() {
  std::vector<std::shared_ptr<ActiveModel>> unloaded;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_)
    if (entry.removed && entry.active && entry.active.use_count() == 1)
      unloaded.push_back(std::move(entry.active)), entry.active = nullptr;
}

std::string ModelRegistry::classifier() const {
  const std::lock_guard lock(mutex_);
  for (const int64_t min : {2, 1})
    for (const Entry& entry : entries_)
      if (!entry.removed && entry.entry.labels >= min) return entry.entry.name;
  return {};
}

std::optional<ModelLease> ModelRegistry::loaded(const FoundModel& found) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[found.entry];
  if (!entry.active) return std::nullopt;
  entry.last_used = ++clock_;
  return ModelLease{entry.active, found.name, found.adapter};
}

// Unloads a model whose files were truncated as soon as no request uses it; until then new requests fail.
std::optional<Error> ModelRegistry::drop_lost(const FoundModel& found) {
  std::shared_ptr<ActiveModel> lost;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[found.entry];
  if (!entry.active || !entry.active->files_lost()) return std::nullopt;
  if (entry.active.use_count() > 1) return entry.active->files_lost_error();
  lost = std::move(entry.active);
  entry.active = nullptr;
  return std::nullopt;
}

void ModelRegistry::acquire(const std::string& name, const OnLease& on_lease) {
  drop_removed();
  const auto found = find(name);
  if (!found) {
    std::string names;
    for (const ModelState& state : list()) names += (names.empty() ? "" : ", ") + quote(state.entry->name);
    return on_lease(error_of(Error::Kind::kNotFound, "model", "{} is not served here; choose from {}",
                             quote(name), names));
  }
  if (const auto lost = drop_lost(*found)) return on_lease(*lost);
  if (auto lease = loaded(*found)) return on_lease(std::move(*lease));
  const bool posted = loader_.post([this, found = *found, on_lease] {
    if (auto lease = loaded(found)) return on_lease(std::move(*lease));
    on_lease(load(found));
  });
  if (!posted) on_lease(error_of(Error::Kind::kLimit, "memory", "the server is stopping"));
}

Status ModelRegistry::open_first() {
  MAKAR_TRY(const ModelLease lease, load({0, -1, entries_[0].entry.name}));
  return Done{};
}

int64_t ModelRegistry::count_loaded() const {
  const std::lock_guard lock(mutex_);
  return std::count_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.active != nullptr; });
}

int64_t ModelRegistry::reserved() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const Entry& entry : entries_)
    if (entry.active) sum += entry.active->loop.free_page_bytes();
  return sum;
}

bool ModelRegistry::unload_one() {
  std::shared_ptr<ActiveModel> unloaded;
  {
    const std::lock_guard lock(mutex_);
    Entry* oldest = nullptr;
    for (Entry& entry : entries_)
      if (entry.active && entry.active.use_count() == 1 && (!oldest || entry.last_used < oldest->last_used))
        oldest = &entry;
    if (!oldest) return false;
    unloaded = std::move(oldest->active);
    oldest->active = nullptr;
  }
  return true;  // `unloaded` is destroyed outside the lock
}

// An answered request may hold its lease a moment longer, so retry.
bool ModelRegistry::wait_and_unload_one() {
  constexpr int kTries = 20;
  constexpr auto kWait = std::chrono::milliseconds(50);
  for (int i = 0; i < kTries; ++i) {
    if (unload_one()) return true;
    std::this_thread::sleep_for(kWait);
  }
  return false;
}

const ModelEntry& ModelRegistry::entry_at(size_t index) const {
  const std::lock_guard lock(mutex_);
  return entries_[index].entry;
}

// Called on the loader thread, or before any request.
Result<ModelLease> ModelRegistry::load(const FoundModel& found) {
  const ModelEntry& entry = entry_at(found.entry);
  const auto busy = [&] {
    return error_of(Error::Kind::kLimit, "memory",
                    "{} does not fit into memory with the models in use; try again when they are idle",
                    quote(entry.name));
  };
  while (count_loaded() >= max_loaded_)
    if (!wait_and_unload_one()) return busy();
  for (;;) {
    const uint64_t first_map = map_count();
    auto opened = [&]() -> Result<std::shared_ptr<ActiveModel>> {
      try {
        if (entry.check) MAKAR_RETURN_IF_ERROR(entry.check());
        return open_(entry, reserved());
      } catch (const std::exception& e) {
        return error_of(Error::Kind::kIo, entry.name, "internal error: cannot be loaded: {}", e.what());
      }
    }();
    if (opened.ok()) {
      (*opened)->first_map = first_map, (*opened)->end_map = map_count();
      if ((*opened)->files_lost()) return (*opened)->files_lost_error();
      const std::lock_guard lock(mutex_);
      Entry& own = entries_[found.entry];
      own.active = std::move(*opened), own.last_used = ++clock_;
      return ModelLease{own.active, found.name, found.adapter};
    }
    const Error& error = opened.error();
    if (error.kind != Error::Kind::kLimit || count_loaded() == 0) return error;
    if (!wait_and_unload_one()) return busy();
  }
}

std::vector<ModelState> ModelRegistry::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelState> out;
  for (const Entry& entry : entries_)
    if (!entry.removed) out.push_back({&entry.entry, entry.active});
  return out;
}

EngineState ModelRegistry::state() const {
  EngineState sum;
  for (const ModelState& state : list())
    if (state.active) sum += state.active->loop.state();
  return sum;
}

double ModelRegistry::seconds_in_step() const {
  double max = 0;
  for (const ModelState& state : list())
    if (state.active) max = std::max(max, state.active->loop.seconds_in_step());
  return max;
}

}  // namespace makar
