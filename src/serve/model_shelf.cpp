#include "serve/model_shelf.h"

#include <algorithm>

#include "base/shown.h"

namespace makar {

ModelShelf::ModelShelf(std::vector<ShelfEntry> entries, Opener open, int64_t most)
    : open_(std::move(open)), most_(most), loader_(1) {
  check(!entries.empty() && most > 0, "a shelf holds a model");
  for (ShelfEntry& entry : entries) entries_.push_back({std::move(entry), nullptr});
}

// Requests hold on to models, and models' loops to requests: the loops let go first.
void ModelShelf::close() {
  loader_.stop();
  for (const ShelfState& state : list())
    if (state.active) state.active->loop.stop();
}

std::optional<ModelShelf::Place> ModelShelf::find(const std::string& name) const {
  const std::string tag = ":latest";
  const std::string plain = name.ends_with(tag) ? name.substr(0, name.size() - tag.size()) : name;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const ShelfEntry& entry = entries_[i].entry;
    if (name.empty() || entry.name == name || entry.name == plain) return Place{i, -1, entry.name};
    for (size_t a = 0; a < entry.adapters.size(); ++a)
      if (entry.adapters[a] == name || entry.adapters[a] == plain)
        return Place{i, static_cast<int32_t>(a), entry.adapters[a]};
  }
  return std::nullopt;
}

std::string ModelShelf::classifier() const {
  for (const int64_t least : {2, 1})
    for (const Entry& entry : entries_)
      if (entry.entry.labels >= least) return entry.entry.name;
  return {};
}

std::optional<ModelLease> ModelShelf::loaded(const Place& place) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[place.entry];
  if (!entry.active) return std::nullopt;
  entry.used = ++clock_;
  return ModelLease{entry.active, place.name, place.adapter};
}

void ModelShelf::ask(const std::string& name, const Then& then) {
  const auto place = find(name);
  if (!place) {
    std::string known;
    for (const Entry& entry : entries_) known += (known.empty() ? "" : ", ") + shown(entry.entry.name);
    return then(error_of(Error::Kind::kNotFound, "model", "{} is not served here; {} {}", shown(name), known,
                         entries_.size() == 1 ? "is" : "are"));
  }
  if (auto lease = loaded(*place)) return then(std::move(*lease));
  const bool posted = loader_.post([this, place = *place, then] {
    if (auto lease = loaded(place)) return then(std::move(*lease));
    then(load(place));
  });
  if (!posted) then(error_of(Error::Kind::kLimit, "memory", "the server is stopping"));
}

Status ModelShelf::open_first() {
  MAKAR_TRY(const ModelLease lease, load({0, -1, entries_[0].entry.name}));
  return Done{};
}

int64_t ModelShelf::count_loaded() const {
  const std::lock_guard lock(mutex_);
  return std::count_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.active != nullptr; });
}

int64_t ModelShelf::reserved() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const Entry& entry : entries_)
    if (entry.active) sum += entry.active->loop.bytes_to_come();
  return sum;
}

bool ModelShelf::put_one_away() {
  std::shared_ptr<ActiveModel> away;
  {
    const std::lock_guard lock(mutex_);
    Entry* oldest = nullptr;
    for (Entry& entry : entries_)
      if (entry.active && entry.active.use_count() == 1 && (!oldest || entry.used < oldest->used))
        oldest = &entry;
    if (!oldest) return false;
    away = std::move(oldest->active);
    oldest->active = nullptr;
  }
  return true;  // and here it goes
}

// On the loader's thread, or before there are requests.
Result<ModelLease> ModelShelf::load(const Place& place) {
  const ShelfEntry& entry = entries_[place.entry].entry;
  const auto busy = [&] {
    return error_of(Error::Kind::kLimit, "memory",
                    "the models in use leave no room for {}; try again when they are free",
                    shown(entry.name));
  };
  while (count_loaded() >= most_)
    if (!put_one_away()) return busy();
  for (;;) {
    auto opened = [&]() -> Result<std::shared_ptr<ActiveModel>> {
      try {
        return open_(entry, reserved());
      } catch (const std::exception& e) {
        return error_of(Error::Kind::kIo, entry.name, "cannot be loaded: {}", e.what());
      }
    }();
    if (opened.ok()) {
      const std::lock_guard lock(mutex_);
      Entry& own = entries_[place.entry];
      own.active = std::move(*opened), own.used = ++clock_;
      return ModelLease{own.active, place.name, place.adapter};
    }
    const Error& error = opened.error();
    if (error.kind != Error::Kind::kLimit || count_loaded() == 0) return error;
    if (!put_one_away()) return busy();
  }
}

std::vector<ShelfState> ModelShelf::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<ShelfState> out;
  for (const Entry& entry : entries_) out.push_back({&entry.entry, entry.active});
  return out;
}

EngineState ModelShelf::state() const {
  EngineState sum;
  for (const ShelfState& state : list())
    if (state.active) sum += state.active->loop.state();
  return sum;
}

double ModelShelf::seconds_in_step() const {
  double most = 0;
  for (const ShelfState& state : list())
    if (state.active) most = std::max(most, state.active->loop.seconds_in_step());
  return most;
}

}  // namespace makar
