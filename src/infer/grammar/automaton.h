// A grammar as a graph: each rule is a small automaton over bytes whose edges read a range of bytes or call
// another rule. With a stack of places to return to it is a pushdown automaton; machine.h runs it.
#pragma once
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "infer/grammar/expr.h"

namespace makar::grammar {

// What a grammar may cost. Beyond it is an error of kind kLimit, never more memory or time.
struct Limits {
  size_t text = size_t{1} << 20;  // bytes of the grammar's own text
  size_t nodes = 200'000;         // of the automaton; also rules
  size_t edges = 1'000'000;       // of the automaton, those between its parts included
  int nesting = 200;              // of groups in the grammar's text
  int depth = 1000;               // rules open at once while text is written
  size_t alternatives = 2000;     // ways the text so far can be read
  size_t steps = 10'000'000;      // of one mask or one token
};

struct Edge {
  uint8_t low, high;
  int32_t to;
  auto operator<=>(const Edge&) const = default;
};
struct Call {
  int32_t start, back;  // the first node of the rule; where to go on after it
  auto operator<=>(const Call&) const = default;
};
struct Node {
  std::vector<Edge> edges;
  std::vector<Call> calls;
  bool final = false;  // the rule may end here
  bool ends_only() const { return final && edges.empty() && calls.empty(); }
};

struct Automaton {
  std::vector<Node> nodes;
  int32_t start = 0;
  Limits limits;
  // For each node the first one that cannot be told from it by kAlikeBytes bytes, or -1 where it is the only
  // one of its kind: repetitions that are counted out consist of such nodes.
  std::vector<int32_t> alike;
};
constexpr int kAlikeBytes = 24;

std::vector<int32_t> alike_nodes(const std::vector<Node>& nodes, int bytes);

// Errors: rules named and never defined, left recursion, a grammar that no text satisfies, limits.
Result<Automaton> compile(const RuleSet& rules, const Limits& limits);

}  // namespace makar::grammar
