#include "retrieval/hnsw.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rng.h"

namespace makar {

constexpr double kMaxLevel = 30;

Hnsw::Hnsw(int64_t width, VectorType type, Similarity similarity, const HnswOptions& options)
    : options_(options),
      level_scale_(1 / std::log(static_cast<double>(options.m))),
      rows_(width, type, similarity) {
  check(options.m >= 2 && options.ef_construction >= 1, "a graph needs links");
}

int Hnsw::level_of(int64_t label) const {
  const double u = Rng(options_.seed, Purpose::kInit).uniform_double(static_cast<uint64_t>(label));
  return static_cast<int>(std::min(-std::log(1 - u) * level_scale_, kMaxLevel));
}

std::span<const uint32_t> Hnsw::neighbours(uint32_t node, int level) const {
  if (level > 0) return upper_[node][static_cast<size_t>(level - 1)];
  const uint32_t* at = base_.data() + size_t{node} * (max_links(0) + 1);
  return {at + 1, at[0]};
}

void Hnsw::set_neighbours(uint32_t node, int level, const std::vector<uint32_t>& to) {
  check(to.size() <= max_links(level), "a node has a bounded number of links");
  if (level > 0) {
    upper_[node][static_cast<size_t>(level - 1)] = to;
  } else {
    uint32_t* at = base_.data() + size_t{node} * (max_links(0) + 1);
    at[0] = static_cast<uint32_t>(to.size());
    std::copy(to.begin(), to.end(), at + 1);
  }
  changed_[node] = 1;
}

uint32_t Hnsw::new_node(int64_t label, const float* vector, int level) {
  check(!nodes_.contains(label), "labels are unique");
  uint32_t node = static_cast<uint32_t>(labels_.size());
  if (!free_.empty()) {
    node = free_.back();
    free_.pop_back();
  } else {
    labels_.push_back(label);
    upper_.emplace_back();
    base_.resize(base_.size() + max_links(0) + 1, 0);
    visited_.push_back(0);
    changed_.push_back(1);
  }
  labels_[node] = label;
  upper_[node].assign(static_cast<size_t>(level), {});
  rows_.set(node, vector);
  nodes_[label] = node;
  set_neighbours(node, 0, {});
  return node;
}

Hnsw::Candidate Hnsw::descend(const VectorRows::Query& query, int to) const {
  Candidate best{rows_.distance(query, entry_), entry_};
  for (int at = level(entry_); at > to; --at) {
    for (bool moved = true; moved;) {
      moved = false;
      for (const uint32_t next : neighbours(best.node, at)) {
        const Candidate c{rows_.distance(query, next), next};
        if (c < best) best = c, moved = true;
      }
    }
  }
  return best;
}

std::vector<Hnsw::Candidate> Hnsw::search_level(const VectorRows::Query& query, Candidate from, size_t ef,
                                                int level,
                                                const std::function<bool(int64_t)>* allowed) const {
  if (++search_number_ == 0) {
    std::fill(visited_.begin(), visited_.end(), 0);
    search_number_ = 1;
  }
  const auto accepts = [&](uint32_t node) { return !allowed || (*allowed)(labels_[node]); };
  const auto nearest_first = [](const Candidate& a, const Candidate& b) { return b < a; };
  std::vector<Candidate> open = {from}, best;  // heaps: the nearest first; the farthest first
  open.reserve(ef * 2), best.reserve(ef + 1);
  std::vector<uint32_t> fresh;  // neighbours not seen before
  std::vector<float> distances;
  visited_[from.node] = search_number_;
  if (accepts(from.node)) best.push_back(from);
  while (!open.empty()) {
    std::pop_heap(open.begin(), open.end(), nearest_first);
    const Candidate current = open.back();
    open.pop_back();
    if (best.size() >= ef && best.front() < current) break;
    fresh.clear();
    for (const uint32_t next : neighbours(current.node, level)) {
      if (visited_[next] == search_number_) continue;
      visited_[next] = search_number_;
      rows_.prefetch(next);
      fresh.push_back(next);
    }
    rows_.distances(query, fresh, distances);
    for (size_t i = 0; i < fresh.size(); ++i) {
      const uint32_t next = fresh[i];
      const Candidate c{distances[i], next};
      if (best.size() >= ef && !(c < best.front())) continue;
      open.push_back(c);
      std::push_heap(open.begin(), open.end(), nearest_first);
      __builtin_prefetch(base_.data() + size_t{open.front().node} * (max_links(0) + 1));
      if (!accepts(next)) continue;
      best.push_back(c);
      std::push_heap(best.begin(), best.end());
      if (best.size() > ef) {
        std::pop_heap(best.begin(), best.end());
        best.pop_back();
      }
    }
  }
  std::sort_heap(best.begin(), best.end());
  return best;
}

std::vector<uint32_t> Hnsw::select(const std::vector<Candidate>& candidates, size_t limit,
                                   std::vector<uint32_t> out) const {
  for (const Candidate& c : candidates) {
    if (out.size() >= limit) break;
    const bool near = std::all_of(
        out.begin(), out.end(), [&](uint32_t chosen) { return rows_.between(c.node, chosen) >= c.distance; });
    if (near) out.push_back(c.node);
  }
  return out;
}

void Hnsw::link(uint32_t from, uint32_t to, int level) {
  const auto existing = neighbours(from, level);
  if (std::find(existing.begin(), existing.end(), to) != existing.end()) return;
  std::vector<uint32_t> all(existing.begin(), existing.end());
  if (all.size() < max_links(level)) {
    all.push_back(to);
    return set_neighbours(from, level, all);
  }
  std::vector<Candidate> candidates = {{rows_.between(from, to), to}};
  for (const uint32_t node : all) candidates.push_back({rows_.between(from, node), node});
  std::sort(candidates.begin(), candidates.end());
  set_neighbours(from, level, select(candidates, max_links(level)));
}

void Hnsw::connect(uint32_t node, int level, const std::vector<Candidate>& candidates) {
  const std::vector<uint32_t> chosen = select(candidates, static_cast<size_t>(options_.m));
  set_neighbours(node, level, chosen);
  for (const uint32_t other : chosen) link(other, node, level);
}

void Hnsw::insert(uint32_t node, const VectorRows::Query& query) {
  const int top = level(node);
  Candidate from = descend(query, top);
  for (int at = std::min(top, level(entry_)); at >= 0; --at) {
    auto candidates = search_level(query, from, static_cast<size_t>(options_.ef_construction), at, nullptr);
    std::erase_if(candidates, [&](const Candidate& c) { return c.node == node; });
    if (candidates.empty()) continue;
    from = candidates.front();
    connect(node, at, candidates);
  }
}

void Hnsw::add(int64_t label, const float* vector) {
  const uint32_t node = new_node(label, vector, level_of(label));
  if (entry_ == kNone) {
    entry_ = node;
    return;
  }
  insert(node, rows_.query({vector, vector + rows_.width()}));
  if (level(node) > level(entry_)) entry_ = node;
}

// The node of the highest level with the smallest label.
void Hnsw::choose_entry() {
  entry_ = kNone;
  for (const auto& [label, node] : nodes_)
    if (entry_ == kNone || level(node) > level(entry_)) entry_ = node;
}

// Replaces links to removed nodes by links to nodes that can be reached through them. `orphans`: remaining
// nodes whose only incoming links were from removed ones.
void Hnsw::repair(int at, const std::vector<uint8_t>& removed, std::vector<uint32_t>& orphans) {
  constexpr size_t kMaxReached = 256;  // from one node
  std::vector<uint32_t> incoming(labels_.size(), 0);
  std::set<uint32_t> maybe_orphans;
  for (const auto& [label, node] : nodes_) {
    if (level(node) < at) continue;
    const auto old = neighbours(node, at);
    if (std::none_of(old.begin(), old.end(), [&](uint32_t n) { return removed[n]; })) continue;
    // Links to remaining nodes stay; nodes reached through removed ones take the free places.
    std::vector<uint32_t> kept, open;
    for (const uint32_t n : old) (removed[n] ? open : kept).push_back(n);
    std::set<uint32_t> reached, crossed;
    for (size_t i = 0; i < open.size() && reached.size() < kMaxReached; ++i) {
      if (open[i] == node) continue;
      if (!removed[open[i]]) {
        if (std::find(kept.begin(), kept.end(), open[i]) == kept.end()) reached.insert(open[i]);
      } else if (crossed.insert(open[i]).second) {
        for (const uint32_t next : neighbours(open[i], at)) {
          open.push_back(next);
          if (!removed[next]) maybe_orphans.insert(next);
        }
      }
    }
    std::vector<Candidate> candidates;
    for (const uint32_t n : reached) candidates.push_back({rows_.between(node, n), n});
    std::sort(candidates.begin(), candidates.end());
    set_neighbours(node, at, select(candidates, max_links(at), std::move(kept)));
  }
  for (const auto& [label, node] : nodes_)
    if (level(node) >= at)
      for (const uint32_t to : neighbours(node, at)) ++incoming[to];
  if (at == 0)
    for (const uint32_t node : maybe_orphans)
      if (incoming[node] == 0) orphans.push_back(node);
}

void Hnsw::remove(std::span<const int64_t> labels) {
  std::vector<uint8_t> removed(labels_.size(), 0);
  std::vector<uint32_t> removed_nodes;
  int top = 0;
  for (const int64_t label : labels) {
    const auto found = nodes_.find(label);
    if (found == nodes_.end()) continue;
    removed[found->second] = 1;
    removed_nodes.push_back(found->second);
    top = std::max(top, level(found->second));
    nodes_.erase(found);
  }
  if (removed_nodes.empty()) return;
  std::vector<uint32_t> orphans;
  for (int at = top; at >= 0; --at) repair(at, removed, orphans);
  std::sort(removed_nodes.begin(), removed_nodes.end(),
            std::greater<>());  // the smallest is reused first
  for (const uint32_t node : removed_nodes) {
    upper_[node].clear();
    set_neighbours(node, 0, {});
    changed_[node] = 0;
    free_.push_back(node);
  }
  if (entry_ != kNone && removed[entry_]) choose_entry();
  for (const uint32_t node : orphans) insert(node, rows_.row_query(node));
}

std::vector<Hnsw::Neighbour> Hnsw::search(const std::vector<float>& query, size_t k, size_t ef,
                                          const std::function<bool(int64_t label)>& allowed) const {
  std::vector<Neighbour> out;
  if (entry_ == kNone || k == 0) return out;
  const auto prepared = rows_.query(query);
  const auto found =
      search_level(prepared, descend(prepared, 0), std::max(ef, k), 0, allowed ? &allowed : nullptr);
  for (size_t i = 0; i < found.size() && i < k; ++i)
    out.push_back({labels_[found[i].node], found[i].distance});
  return out;
}

std::vector<Hnsw::Neighbour> Hnsw::scan(const std::vector<float>& query, size_t k,
                                        const std::function<bool(int64_t label)>& allowed) const {
  std::vector<Candidate> best;  // a heap, the farthest first
  const auto prepared = rows_.query(query);
  for (const auto& [label, node] : nodes_) {
    if (k == 0 || (allowed && !allowed(label))) continue;
    const Candidate c{rows_.distance(prepared, node), node};
    if (best.size() == k) {
      if (!(c < best.front())) continue;
      std::pop_heap(best.begin(), best.end());
      best.pop_back();
    }
    best.push_back(c);
    std::push_heap(best.begin(), best.end());
  }
  std::sort_heap(best.begin(), best.end());
  std::vector<Neighbour> out;
  for (const Candidate& c : best) out.push_back({labels_[c.node], c.distance});
  return out;
}

}  // namespace makar
