// The graph as bytes, one node at a time.
#include <algorithm>

#include "retrieval/hnsw.h"
#include "retrieval/varint.h"

namespace makar {
namespace {

constexpr uint64_t kMaxLevels = 64, kMaxLinks = 4096;

}  // namespace

std::string write_links(const NodeLinks& links) {
  std::string out;
  put_varint(out, links.size());
  for (const auto& level : links) {
    put_varint(out, level.size());
    for (const int64_t label : level) put_varint(out, static_cast<uint64_t>(label));
  }
  return out;
}

Result<NodeLinks> read_links(std::string_view bytes, const std::string& place) {
  const auto damaged = [&](size_t at) {
    return error_at(place, "the links of a node are damaged at byte {}; build the index again", at);
  };
  size_t at = 0;
  uint64_t levels = 0, count = 0, label = 0;
  if (!take_varint(bytes, at, levels) || levels < 1 || levels > kMaxLevels) return damaged(at);
  NodeLinks out(levels);
  for (auto& level : out) {
    if (!take_varint(bytes, at, count) || count > kMaxLinks) return damaged(at);
    for (uint64_t i = 0; i < count; ++i) {
      if (!take_varint(bytes, at, label) || label > INT64_MAX) return damaged(at);
      level.push_back(static_cast<int64_t>(label));
    }
  }
  return at == bytes.size() ? Result<NodeLinks>(std::move(out)) : damaged(at);
}

std::vector<int64_t> Hnsw::take_changed() {
  std::vector<int64_t> out;
  for (const auto& [label, node] : nodes_)
    if (changed_[node]) out.push_back(label);
  std::fill(changed_.begin(), changed_.end(), 0);
  return out;
}

NodeLinks Hnsw::links(int64_t label) const {
  const auto found = nodes_.find(label);
  check(found != nodes_.end(), "the graph has the label");
  NodeLinks out(static_cast<size_t>(level(found->second)) + 1);
  for (size_t i = 0; i < out.size(); ++i)
    for (const uint32_t to : neighbours(found->second, static_cast<int>(i))) out[i].push_back(labels_[to]);
  return out;
}

void Hnsw::restore(int64_t label, const float* vector, NodeLinks links) {
  check(!links.empty(), "a node has level 0");
  restored_.emplace_back(new_node(label, vector, static_cast<int>(links.size()) - 1), std::move(links));
}

Status Hnsw::finish_restore(const std::string& place) {
  for (const auto& [node, links] : restored_)
    for (size_t level_at = 0; level_at < links.size(); ++level_at) {
      std::vector<uint32_t> to;
      for (const int64_t label : links[level_at]) {
        const auto found = nodes_.find(label);
        if (found == nodes_.end() || found->second == node ||
            level(found->second) < static_cast<int>(level_at))
          return error_at(place, "the graph has a link to a node that does not exist; build the index again");
        to.push_back(found->second);
      }
      if (to.size() > max_links(static_cast<int>(level_at)))
        return error_at(place, "a node of the graph has {} links, expected at most {}; build the index again",
                        to.size(), max_links(static_cast<int>(level_at)));
      set_neighbours(node, static_cast<int>(level_at), to);
    }
  restored_.clear();
  std::fill(changed_.begin(), changed_.end(), 0);
  choose_entry();
  return Done{};
}

}  // namespace makar
