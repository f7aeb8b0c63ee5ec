// Runs an automaton on bytes. A state is the set of all possible parses of the text so far: each is a node
// and a stack of return nodes. States, stacks and moves are stored once, so the move from a state by a byte
// is computed only the first time.
#pragma once
#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "infer/grammar/automaton.h"

namespace makar::grammar {

struct Frame {
  int32_t back, parent, depth;  // node to return to, frame below
  bool operator==(const Frame&) const = default;
};
struct Parse {
  int32_t node, frame;
  auto operator<=>(const Parse&) const = default;
};
constexpr int32_t kBottom = -1;  // frame index of the stack bottom

// A self-contained state: what a GrammarState keeps between tokens.
struct Snapshot {
  std::vector<Frame> frames;
  std::vector<Parse> parses;
  bool may_end = false;  // a parse has returned from the start rule: the text may end here
  bool operator==(const Snapshot&) const = default;
};

class Machine {
 public:
  // Runs at most `steps` steps; default: the automaton's limit.
  explicit Machine(const Automaton& automaton) : Machine(automaton, automaton.limits.steps) {}
  Machine(const Automaton& automaton, size_t steps);
  Machine(const Automaton& automaton, const Snapshot& from,
          size_t steps);  // starts with the snapshot's frames
  Machine(const Automaton& automaton, const Snapshot& from)
      : Machine(automaton, from, automaton.limits.steps) {}

  static constexpr int32_t kDead = 0;
  int32_t initial();                       // start state of the automaton
  int32_t state_of(const Snapshot& from);  // the machine must have been constructed from this snapshot
  int32_t at_node(int32_t node);           // only this node, with an empty stack
  int32_t after_return(int32_t frame);     // state after the rule above `frame` returns
  int32_t step(int32_t state, uint8_t byte) {
    const int32_t next = (*states_[static_cast<size_t>(state)].next)[byte];
    return next >= 0 ? next : compute(state, byte);
  }
  bool may_end(int32_t state) const { return states_[static_cast<size_t>(state)].may_end; }
  // True if no parse can continue.
  bool finished(int32_t state) const { return states_[static_cast<size_t>(state)].parses.empty(); }
  Snapshot snapshot(int32_t state) const;
  // Set when a limit was exceeded: every state is dead from then on.
  bool limit_exceeded() const { return limit_exceeded_; }
  size_t steps() const { return steps_; }
  // Counts steps of work that callers do with the states.
  void count(size_t steps) {
    steps_ += steps;
    if (steps_ > max_steps_) limit_exceeded_ = true;
  }
  Error limit() const;

 private:
  struct State {
    std::vector<Parse> parses;
    bool may_end = false;
    std::unique_ptr<std::array<int32_t, 256>> next;  // -1: not computed yet
  };
  int32_t compute(int32_t state, uint8_t byte);
  int32_t push(int32_t back, int32_t parent);
  void close(int32_t node, int32_t frame);  // adds everything reachable without reading a byte
  bool add_once(int32_t node, int32_t frame);
  int32_t intern();  // interns the set collected by close()

  const Automaton& a_;
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, int32_t> frame_index_;
  std::vector<State> states_;
  std::unordered_multimap<uint64_t, int32_t> state_index_;
  std::unordered_map<int32_t, int32_t> returns_;  // after_return() by frame
  std::vector<Parse> gathered_, pending_;
  std::vector<Parse> seen_;
  std::vector<std::pair<Parse, uint32_t>> seen_table_;
  uint32_t generation_ = 0;
  bool gathered_end_ = false, limit_exceeded_ = false;
  size_t steps_ = 0;
  const size_t max_steps_;
};

}  // namespace makar::grammar
