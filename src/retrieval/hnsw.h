// Hierarchical navigable small world graph (Malkov and Yashunin, 2018) for approximate nearest neighbours,
// with real deletion: a removed node leaves the graph, and its neighbours are connected again.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "retrieval/vector_rows.h"

namespace makar {

struct HnswOptions {
  int64_t m = 16;                 // links per node on the upper levels; twice as many on level 0
  int64_t ef_construction = 200;  // candidates when a node is added
  uint64_t seed = 1;
};

// The neighbours of a node by label, level 0 first.
using NodeLinks = std::vector<std::vector<int64_t>>;
std::string write_links(const NodeLinks& links);
Result<NodeLinks> read_links(std::string_view bytes, const std::string& place);

// The level of a node depends on the seed and its label alone, and equal distances are ordered by node, so
// the same changes in the same order give the same graph.
class Hnsw {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  Hnsw(int64_t width, VectorType type, Similarity similarity, const HnswOptions& options = {});

  // Labels are unique.
  void add(int64_t label, const float* vector);
  void remove(std::span<const int64_t> labels);  // unknown labels are ignored
  size_t size() const { return nodes_.size(); }

  struct Neighbour {
    int64_t label = 0;
    float distance = 0;
  };
  // The nearest k that `allowed` accepts (empty: all), best first. ef: candidates, at least k. Not
  // thread-safe.
  std::vector<Neighbour> search(const std::vector<float>& query, size_t k, size_t ef,
                                const std::function<bool(int64_t label)>& allowed = {}) const;

  // The exact result, by comparing with every node.
  std::vector<Neighbour> scan(const std::vector<float>& query, size_t k,
                              const std::function<bool(int64_t label)>& allowed = {}) const;
  int64_t width() const { return rows_.width(); }

  // For storage. The labels of the nodes whose links changed since the last call, ascending.
  std::vector<int64_t> take_changed();
  NodeLinks links(int64_t label) const;
  // Adds a node with its stored links; call finish_restore() after the last one. Links to nodes that do not
  // exist are an error.
  void restore(int64_t label, const float* vector, NodeLinks links);
  Status finish_restore(const std::string& place);

 private:
  struct Candidate {
    float distance;
    uint32_t node;
    bool operator<(const Candidate& o) const {
      return distance < o.distance || (distance == o.distance && node < o.node);
    }
  };
  using UpperLinks = std::vector<std::vector<uint32_t>>;  // of a node, on levels 1 and up

  int level_of(int64_t label) const;
  uint32_t new_node(int64_t label, const float* vector, int level);
  size_t max_links(int level) const { return static_cast<size_t>(level == 0 ? 2 * options_.m : options_.m); }
  std::span<const uint32_t> neighbours(uint32_t node, int level) const;
  void set_neighbours(uint32_t node, int level, const std::vector<uint32_t>& to);
  int level(uint32_t node) const { return static_cast<int>(upper_[node].size()); }
  // Greedy search from the entry on the levels above `to`: the nearest node that it finds.
  Candidate descend(const VectorRows::Query& query, int to) const;
  // The `ef` nearest candidates on a level, ascending.
  std::vector<Candidate> search_level(const VectorRows::Query& query, Candidate from, size_t ef, int level,
                                      const std::function<bool(int64_t)>* allowed) const;
  // `chosen` and, up to `max`, candidates (ascending) that are nearer to the node than to all others in the
  // result.
  std::vector<uint32_t> select(const std::vector<Candidate>& candidates, size_t max,
                               std::vector<uint32_t> chosen = {}) const;
  void connect(uint32_t node, int level, const std::vector<Candidate>& candidates);
  void link(uint32_t from, uint32_t to, int level);
  void insert(uint32_t node, const VectorRows::Query& query);
  void repair(int level, const std::vector<uint8_t>& removed, std::vector<uint32_t>& orphans);
  void choose_entry();

  HnswOptions options_;
  double level_scale_;
  VectorRows rows_;
  std::vector<int64_t> labels_;  // by node
  std::vector<uint32_t> base_;   // level 0: count and 2 m links per node
  std::vector<UpperLinks> upper_;
  std::map<int64_t, uint32_t> nodes_;  // by label
  std::vector<uint32_t> free_;         // removed nodes, which are reused
  uint32_t entry_ = kNone;
  std::vector<uint8_t> changed_;  // by node
  std::vector<std::pair<uint32_t, NodeLinks>> restored_;
  // By node: the number of the last search that visited it. One byte, so that many nodes fit into the L1
  // cache.
  mutable std::vector<uint8_t> visited_;
  mutable uint8_t search_number_ = 0;
};

}  // namespace makar
