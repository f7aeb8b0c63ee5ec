#include "infer/grammar/machine.h"

#include <algorithm>

namespace makar::grammar {
namespace {

uint64_t pair_key(int32_t a, int32_t b) {
  return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
}

uint64_t mix(uint64_t h, uint64_t x) {
  h ^= x + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
  h *= 0xD6E8FEB86659FD93u;
  return h ^ h >> 32;  // hash tables use the low bits, which must depend on all of x
}

}  // namespace

Machine::Machine(const Automaton& automaton, size_t steps) : a_(automaton), max_steps_(steps) {
  states_.emplace_back();
  states_[kDead].next = std::make_unique<std::array<int32_t, 256>>();
  states_[kDead].next->fill(kDead);
}

Machine::Machine(const Automaton& automaton, const Snapshot& from, size_t steps) : Machine(automaton, steps) {
  for (const Frame& f : from.frames) push(f.back, f.parent);
}

int32_t Machine::initial() {
  close(a_.start, kBottom);
  return intern();
}

int32_t Machine::state_of(const Snapshot& from) {
  gathered_ = from.parses;
  gathered_end_ = from.may_end;
  return intern();
}

int32_t Machine::at_node(int32_t node) {
  gathered_ = {{node, kBottom}};
  return intern();
}

int32_t Machine::after_return(int32_t frame) {
  const auto [found, added] = returns_.try_emplace(frame, kDead);
  if (added) {
    const Frame f = frames_[static_cast<size_t>(frame)];
    close(f.back, f.parent);
    found->second = intern();
  }
  return found->second;
}

int32_t Machine::push(int32_t back, int32_t parent) {
  const auto [found, added] =
      frame_index_.try_emplace(pair_key(back, parent), static_cast<int32_t>(frames_.size()));
  if (added) {
    const int32_t depth = parent == kBottom ? 1 : frames_[static_cast<size_t>(parent)].depth + 1;
    frames_.push_back({back, parent, depth});
    if (depth > a_.limits.depth) limit_exceeded_ = true;
  }
  return found->second;
}

// A hash set cleared by incrementing a generation counter: there are many sets, most of them tiny.
bool Machine::add_once(int32_t node, int32_t frame) {
  if (seen_table_.size() < 4 * (seen_.size() + 1)) {
    seen_table_.assign(std::max<size_t>(64, 2 * seen_table_.size()), {{0, 0}, 0});
    generation_ = 1;
    std::vector<Parse> old_entries;
    old_entries.swap(seen_);
    for (const Parse& w : old_entries) add_once(w.node, w.frame);
  }
  const size_t mask = seen_table_.size() - 1;
  size_t i = mix(0, pair_key(node, frame)) & mask;
  const Parse parse{node, frame};
  for (; seen_table_[i].second == generation_; i = (i + 1) & mask)
    if (seen_table_[i].first == parse) return false;
  seen_table_[i] = {parse, generation_};
  seen_.push_back(parse);
  return true;
}

void Machine::close(int32_t node, int32_t frame) {
  pending_.push_back({node, frame});
  while (!pending_.empty() && !limit_exceeded_) {
    const Parse w = pending_.back();
    pending_.pop_back();
    if (!add_once(w.node, w.frame)) continue;
    const Node& n = a_.nodes[static_cast<size_t>(w.node)];
    if (!n.edges.empty()) gathered_.push_back(w);
    if (n.final) {
      if (w.frame == kBottom)
        gathered_end_ = true;
      else
        pending_.push_back(
            {frames_[static_cast<size_t>(w.frame)].back, frames_[static_cast<size_t>(w.frame)].parent});
    }
    for (const Call& c : n.calls) {
      // Tail call: a rule called at the end of another needs no return frame, so recursive lists stay
      // shallow.
      const bool tail = a_.nodes[static_cast<size_t>(c.back)].ends_only();
      pending_.push_back({c.start, tail ? w.frame : push(c.back, w.frame)});
    }
    count(1 + n.calls.size());
    if (gathered_.size() > a_.limits.alternatives) limit_exceeded_ = true;
  }
  pending_.clear();
}

int32_t Machine::intern() {
  std::vector<Parse> parses;
  parses.swap(gathered_);
  const bool ends = gathered_end_;
  gathered_end_ = false;
  seen_.clear();
  if (++generation_ == 0) seen_table_.clear();
  if (limit_exceeded_ || (parses.empty() && !ends)) return kDead;
  std::sort(parses.begin(), parses.end());
  uint64_t hash = ends;
  for (const Parse& w : parses) hash = mix(hash, pair_key(w.node, w.frame));
  const auto [from, to] = state_index_.equal_range(hash);
  for (auto i = from; i != to; ++i) {
    const State& s = states_[static_cast<size_t>(i->second)];
    if (s.may_end == ends && s.parses == parses) return i->second;
  }
  constexpr size_t kMaxStates = 20'000;  // about 1 KB each
  if (states_.size() >= kMaxStates) {
    limit_exceeded_ = true;
    return kDead;
  }
  State s;
  s.parses = std::move(parses), s.may_end = ends;
  s.next = std::make_unique<std::array<int32_t, 256>>();
  s.next->fill(-1);
  states_.push_back(std::move(s));
  const int32_t id = static_cast<int32_t>(states_.size()) - 1;
  state_index_.emplace(hash, id);
  return id;
}

int32_t Machine::compute(int32_t state, uint8_t byte) {
  const size_t parses = states_[static_cast<size_t>(state)].parses.size();
  int low = 0, high = 255;  // the bytes around `byte` that lead to the same state
  for (size_t i = 0; i < parses && !limit_exceeded_; ++i) {
    const Parse w = states_[static_cast<size_t>(state)].parses[i];
    for (const Edge& e : a_.nodes[static_cast<size_t>(w.node)].edges) {
      count(1);
      if (e.high < byte) {
        low = std::max(low, e.high + 1);
      } else if (e.low > byte) {
        high = std::min(high, e.low - 1);
      } else {
        low = std::max<int>(low, e.low), high = std::min<int>(high, e.high);
        close(e.to, w.frame);
      }
    }
  }
  const int32_t next = intern();
  auto& table = *states_[static_cast<size_t>(state)].next;
  std::fill(table.begin() + low, table.begin() + high + 1, next);
  return next;
}

Snapshot Machine::snapshot(int32_t state) const {
  const State& s = states_[static_cast<size_t>(state)];
  Snapshot out;
  out.may_end = s.may_end;
  std::vector<int32_t> new_index(frames_.size(), -2);
  std::vector<int32_t> chain;
  for (const Parse& w : s.parses) {
    chain.clear();
    for (int32_t f = w.frame; f != kBottom && new_index[static_cast<size_t>(f)] == -2;
         f = frames_[static_cast<size_t>(f)].parent)
      chain.push_back(f);
    for (; !chain.empty(); chain.pop_back()) {
      const Frame f = frames_[static_cast<size_t>(chain.back())];
      new_index[static_cast<size_t>(chain.back())] = static_cast<int32_t>(out.frames.size());
      out.frames.push_back(
          {f.back, f.parent == kBottom ? kBottom : new_index[static_cast<size_t>(f.parent)], f.depth});
    }
    out.parses.push_back({w.node, w.frame == kBottom ? kBottom : new_index[static_cast<size_t>(w.frame)]});
  }
  return out;
}

Error Machine::limit() const {
  return error_of(Error::Kind::kLimit, "grammar",
                  "the text has too many parses or is nested too deeply here (at most {} parses, {} rules "
                  "open, {} steps per token); make the grammar less ambiguous",
                  a_.limits.alternatives, a_.limits.depth, a_.limits.steps);
}

}  // namespace makar::grammar
