// Compiles expressions to a graph with empty edges, one subgraph per rule.
#pragma once
#include <vector>

#include "infer/grammar/automaton.h"

namespace makar::grammar {

struct RawGraph {
  struct RawCall {
    int rule;
    int32_t back;
  };
  struct RawNode {
    std::vector<int32_t> empty;
    std::vector<Edge> edges;
    std::vector<RawCall> calls;
  };
  std::vector<RawNode> nodes;
  std::vector<int32_t> starts, ends;  // per rule
};

Result<RawGraph> emit(const RuleSet& rules, const Limits& limits, WorkBudget& work);

}  // namespace makar::grammar
