#include "infer/grammar/automaton.h"

#include <algorithm>

#include "infer/grammar/emit.h"

namespace makar::grammar {
namespace {

size_t at(int32_t node) { return static_cast<size_t>(node); }

// Eliminates empty edges: copies to each node the edges of all nodes that it reaches without reading a byte.
class EmptyEdgeRemover {
 public:
  EmptyEdgeRemover(const RawGraph& graph, const Limits& limits, WorkBudget& work)
      : g_(graph), limits_(limits), work_(work), seen_(graph.nodes.size(), -1) {}

  Result<std::vector<Node>> run() {
    std::vector<Node> nodes(g_.nodes.size());
    std::vector<uint8_t> is_end(g_.nodes.size(), 0), is_target(g_.nodes.size(), 0);
    for (const int32_t end : g_.ends) is_end[at(end)] = 1;
    for (const int32_t start : g_.starts) is_target[at(start)] = 1;
    for (const auto& node : g_.nodes) {
      for (const Edge& e : node.edges) is_target[at(e.to)] = 1;
      for (const auto& c : node.calls) is_target[at(c.back)] = 1;
    }
    size_t total = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!is_target[i]) continue;
      for (const int32_t j : empty_closure(static_cast<int32_t>(i))) {
        const auto& from = g_.nodes[at(j)];
        nodes[i].final |= is_end[at(j)] != 0;
        nodes[i].edges.insert(nodes[i].edges.end(), from.edges.begin(), from.edges.end());
        for (const auto& c : from.calls)
          nodes[i].calls.push_back({g_.starts[static_cast<size_t>(c.rule)], c.back});
      }
      if (!work_.spend(1 + static_cast<int64_t>(nodes[i].edges.size() + nodes[i].calls.size())))
        return work_.error("grammar");
      unique(nodes[i].edges);
      unique(nodes[i].calls);
      total += nodes[i].edges.size() + nodes[i].calls.size();
      if (total > limits_.edges || visited_ > limits_.steps)
        return error_of(Error::Kind::kLimit, "grammar",
                        "needs more than {} edges; make its repetitions smaller", limits_.edges);
    }
    return nodes;
  }

 private:
  template <class T>
  static void unique(std::vector<T>& v) {
    std::sort(v.begin(), v.end());
    v.erase(std::unique(v.begin(), v.end()), v.end());
    v.shrink_to_fit();
  }
  const std::vector<int32_t>& empty_closure(int32_t from) {
    closure_.assign(1, from);
    seen_[at(from)] = from;
    for (size_t i = 0; i < closure_.size(); ++i)
      for (const int32_t to : g_.nodes[at(closure_[i])].empty) {
        ++visited_;
        if (seen_[at(to)] == from) continue;
        seen_[at(to)] = from;
        closure_.push_back(to);
      }
    visited_ += closure_.size();
    return closure_;
  }

  const RawGraph& g_;
  const Limits& limits_;
  WorkBudget& work_;
  std::vector<int32_t> seen_, closure_;
  size_t visited_ = 0;
};

// Marks the nodes from which the end of their rule is reachable: after any bytes if `reading`, else without
// reading a byte.
std::vector<uint8_t> can_end(const std::vector<Node>& nodes, bool reading) {
  std::vector<uint8_t> marked(nodes.size(), 0);
  std::vector<std::vector<std::pair<int32_t, int32_t>>> waiting(
      nodes.size());  // (node, second node that must be marked, or -1)
  std::vector<int32_t> pending;
  const auto mark = [&](int32_t n) {
    if (!marked[at(n)]) marked[at(n)] = 1, pending.push_back(n);
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int32_t n = static_cast<int32_t>(i);
    if (reading)
      for (const Edge& e : nodes[i].edges) waiting[at(e.to)].push_back({n, -1});
    for (const Call& c : nodes[i].calls)
      waiting[at(c.start)].push_back({n, c.back}), waiting[at(c.back)].push_back({n, c.start});
    if (nodes[i].final) mark(n);
  }
  while (!pending.empty()) {
    const int32_t n = pending.back();
    pending.pop_back();
    for (const auto& [node, other] : waiting[at(n)])
      if (other < 0 || marked[at(other)]) mark(node);
  }
  return marked;
}

void drop_dead_ends(std::vector<Node>& nodes) {
  const std::vector<uint8_t> alive = can_end(nodes, true);
  for (Node& node : nodes) {
    node.edges.erase(
        std::remove_if(node.edges.begin(), node.edges.end(), [&](const Edge& e) { return !alive[at(e.to)]; }),
        node.edges.end());
    node.calls.erase(std::remove_if(node.calls.begin(), node.calls.end(),
                                    [&](const Call& c) { return !alive[at(c.start)] || !alive[at(c.back)]; }),
                     node.calls.end());
  }
}

// Returns a node that a call reaches again before a byte is read (left recursion), or -1. Finds the
// strongly connected components (Tarjan, iterative) of the graph of calls and of skipped empty rules.
int32_t find_left_recursion(const std::vector<Node>& nodes) {
  const std::vector<uint8_t> skippable = can_end(nodes, false);
  std::vector<int32_t> order(nodes.size(), 0), low(nodes.size(), 0), component(nodes.size(), -1), stack;
  struct Visit {
    int32_t node;
    size_t next;
  };
  std::vector<Visit> path;
  int32_t counter = 0;
  const auto enter = [&](int32_t n) {
    order[at(n)] = low[at(n)] = ++counter;
    stack.push_back(n);
    path.push_back({n, 0});
  };
  for (size_t root = 0; root < nodes.size(); ++root) {
    if (order[root] || nodes[root].calls.empty()) continue;
    enter(static_cast<int32_t>(root));
    while (!path.empty()) {
      Visit& v = path.back();
      const auto& calls = nodes[at(v.node)].calls;
      if (v.next / 2 < calls.size()) {
        const size_t i = v.next++;  // even: enter the rule; odd: skip it
        const int32_t n = v.node;
        const Call& c = calls[i / 2];
        if (i % 2 == 1 && !skippable[at(c.start)]) continue;
        const int32_t to = i % 2 == 0 ? c.start : c.back;
        if (!order[at(to)])
          enter(to);
        else if (component[at(to)] < 0)
          low[at(n)] = std::min(low[at(n)], order[at(to)]);
        continue;
      }
      const int32_t n = v.node;
      path.pop_back();
      if (!path.empty()) low[at(path.back().node)] = std::min(low[at(path.back().node)], low[at(n)]);
      if (low[at(n)] != order[at(n)]) continue;
      int32_t member = -1;
      do {
        member = stack.back();
        stack.pop_back();
        component[at(member)] = n;
      } while (member != n);
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Call& c : nodes[i].calls)
      if (component[i] >= 0 && component[i] == component[at(c.start)]) return static_cast<int32_t>(i);
  return -1;
}

}  // namespace

Result<Automaton> compile(const RuleSet& rules, const Limits& limits, WorkBudget& work) {
  MAKAR_TRY(const RawGraph graph, emit(rules, limits, work));
  MAKAR_TRY(auto nodes, EmptyEdgeRemover(graph, limits, work).run());
  if (!work.spend(4 * static_cast<int64_t>(nodes.size()))) return work.error("grammar");
  const int32_t start = graph.starts[0];
  if (!can_end(nodes, true)[at(start)])
    return error_at("grammar",
                    "no text satisfies rule '{}'; each path through it never ends or needs a "
                    "character from an empty set",
                    rules.names[0]);
  drop_dead_ends(nodes);
  if (const int32_t node = find_left_recursion(nodes); node >= 0) {
    // Rule starts are in ascending order.
    const auto rule =
        std::upper_bound(graph.starts.begin(), graph.starts.end(), node) - graph.starts.begin() - 1;
    return error_at("grammar",
                    "rule '{}' is left-recursive: it calls itself before it reads a character; "
                    "write the repetition with * instead",
                    rules.names[static_cast<size_t>(rule)]);
  }
  if (!work.check()) return work.error("grammar");
  std::vector<int32_t> equivalent = equivalent_nodes(nodes, kEquivalentBytes, work);
  if (work.stopped()) return work.error("grammar");
  return Automaton{std::move(nodes), start, limits, std::move(equivalent)};
}

}  // namespace makar::grammar
