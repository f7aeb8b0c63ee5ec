// Runs an automaton on bytes. A state is the set of all ways the text so far can be read: each a node and a
// stack of nodes to return to. States, stacks and moves are kept once each, so a walk over many tokens
// computes a move from a state by a byte only the first time.
#pragma once
#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "infer/grammar/automaton.h"

namespace makar::grammar {

struct Frame {
  int32_t back, parent, depth;  // the node to return to, the frame below it
  bool operator==(const Frame&) const = default;
};
struct Way {
  int32_t node, frame;
  auto operator<=>(const Way&) const = default;
};
constexpr int32_t kBottom = -1;  // the frame under all others

// A state that stands for itself: what a GrammarState keeps between tokens.
struct Snapshot {
  std::vector<Frame> frames;
  std::vector<Way> ways;
  bool bottom = false;  // a way has left its lowest rule: the text may end here
  bool operator==(const Snapshot&) const = default;
};

class Machine {
 public:
  explicit Machine(const Automaton& automaton);
  Machine(const Automaton& automaton, const Snapshot& from);  // begins with its frames

  static constexpr int32_t kDead = 0;
  int32_t initial();                       // the automaton's start
  int32_t state_of(const Snapshot& from);  // the machine must have been made from it
  int32_t at_node(int32_t node);           // exactly this node over the bottom
  int32_t after_return(int32_t frame);     // where the text goes on when the rule above `frame` ends
  int32_t step(int32_t state, uint8_t byte) {
    const int32_t next = (*states_[static_cast<size_t>(state)].next)[byte];
    return next >= 0 ? next : compute(state, byte);
  }
  bool bottom(int32_t state) const { return states_[static_cast<size_t>(state)].bottom; }
  // No way goes on, the bottom may have been reached.
  bool finished(int32_t state) const { return states_[static_cast<size_t>(state)].ways.empty(); }
  Snapshot snapshot(int32_t state) const;
  // Set when a limit was met: every state is dead from then on.
  bool over() const { return over_; }
  Error limit() const;

 private:
  struct State {
    std::vector<Way> ways;
    bool bottom = false;
    std::unique_ptr<std::array<int32_t, 256>> next;  // -1: not computed
  };
  int32_t compute(int32_t state, uint8_t byte);
  int32_t push(int32_t back, int32_t parent);
  void close(int32_t node, int32_t frame);  // adds what is reached without reading
  bool add_once(int32_t node, int32_t frame);
  int32_t intern();  // what close() gathered

  const Automaton& a_;
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, int32_t> frame_index_;
  std::vector<State> states_;
  std::unordered_multimap<uint64_t, int32_t> state_index_;
  std::unordered_map<int32_t, int32_t> returns_;
  std::vector<Way> gathered_, work_;
  std::vector<Way> seen_;
  std::vector<std::pair<Way, uint32_t>> seen_table_;
  uint32_t round_ = 0;
  bool gathered_bottom_ = false, over_ = false;
  size_t steps_ = 0;
};

}  // namespace makar::grammar
