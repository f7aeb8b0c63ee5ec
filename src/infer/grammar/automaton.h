// A grammar as a graph: each rule is a small automaton over bytes whose edges read a range of bytes or call
// another rule. With a stack of return nodes it is a pushdown automaton; machine.h runs it.
#pragma once
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/work_budget.h"
#include "infer/grammar/expr.h"

namespace makar::grammar {

// Resource limits of a grammar. Exceeding one is an error of kind kLimit.
struct Limits {
  size_t text = size_t{1} << 20;  // bytes of the grammar's source text
  int64_t work = 10'000'000;      // WorkBudget units to compile it: about one second
  size_t nodes = 200'000;         // automaton nodes; also the limit on rules
  size_t edges = 1'000'000;       // automaton edges, intermediate ones included
  int nesting = 200;              // nested groups in the grammar's source text
  int depth = 1000;               // stack depth: rules open at once
  size_t alternatives = 2000;     // parallel parses of the text so far
  size_t steps = 10'000'000;      // per mask or token, over all parses: tenths of a second
};

struct Edge {
  uint8_t low, high;
  int32_t to;
  auto operator<=>(const Edge&) const = default;
};
struct Call {
  int32_t start, back;  // first node of the called rule; node to return to
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
  // For each node, the first node that accepts the same strings of up to kEquivalentBytes bytes, or -1 if no
  // other node does. Expanded counted repetitions consist of such nodes.
  std::vector<int32_t> equivalent;
};
constexpr int kEquivalentBytes = 24;

// If `work` runs out, the result is incomplete (it merges nodes that differ) and must not be used.
std::vector<int32_t> equivalent_nodes(const std::vector<Node>& nodes, int bytes, WorkBudget& work);

// Fails on undefined rules, left recursion, a grammar that no text satisfies, or a limit.
Result<Automaton> compile(const RuleSet& rules, const Limits& limits, WorkBudget& work);

}  // namespace makar::grammar
