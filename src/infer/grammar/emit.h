// Compiles expressions to a graph with empty edges, one subgraph per rule.
#pragma once
#include <vector>

#include "infer/grammar/automaton.h"

namespace makar::grammar {

struct Draft {
  struct DraftCall {
    int rule;
    int32_t back;
  };
  struct DraftNode {
    std::vector<int32_t> empty;
    std::vector<Edge> edges;
    std::vector<DraftCall> calls;
  };
  std::vector<DraftNode> nodes;
  std::vector<int32_t> starts, ends;  // per rule
};

Result<Draft> emit(const RuleSet& rules, const Limits& limits, WorkBudget& work);

}  // namespace makar::grammar
