#include "models/structure.h"

#include <algorithm>
#include <map>

namespace makar {
namespace {

bool is_number(const std::string& name) {
  return !name.empty() && name.size() <= 9 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// A node under construction, with its children in order and by name.
struct OpenNode {
  StructureNode node;
  std::vector<OpenNode> children;
  std::map<std::string, size_t> by_name;

  OpenNode& child(const std::string& name) {
    const auto [it, inserted] = by_name.emplace(name, children.size());
    if (inserted) children.emplace_back().node.name = name;
    return children[it->second];
  }
};

bool same_structure(const StructureNode& a, const StructureNode& b) {
  return a.tensor == b.tensor && a.dtype == b.dtype && a.shape == b.shape &&
         std::equal(a.children.begin(), a.children.end(), b.children.begin(), b.children.end(),
                    [](const StructureNode& x, const StructureNode& y) {
                      return x.name == y.name && x.repeat == y.repeat && same_structure(x, y);
                    });
}

// Folds consecutively numbered children of equal structure into one: 0, 1, 2 becomes 0..2.
std::vector<StructureNode> fold_runs(std::vector<StructureNode> nodes) {
  std::vector<StructureNode> out;
  int64_t first = 0, last = 0;
  for (auto& node : nodes) {
    const int64_t number = is_number(node.name) ? std::stoll(node.name) : -1;
    if (number >= 0 && !out.empty() && number == last + 1 && same_structure(out.back(), node)) {
      ++out.back().repeat;
      last = number;
      out.back().name = std::to_string(first) + ".." + std::to_string(last);
      continue;
    }
    first = last = number;
    out.push_back(std::move(node));
  }
  return out;
}

StructureNode finish(OpenNode& open) {
  std::vector<StructureNode> children;
  for (auto& c : open.children) children.push_back(finish(c));
  StructureNode node = std::move(open.node);
  node.parameters = node.tensor ? node.shape.count() : 0;
  for (auto& c : fold_runs(std::move(children))) {
    node.parameters += c.parameters * c.repeat;
    // A "layers" level with only numbered children is omitted: its children become layers.0..11.
    const bool is_list = !c.tensor && !c.children.empty() &&
                         std::all_of(c.children.begin(), c.children.end(), [](const StructureNode& n) {
                           return n.name[0] >= '0' && n.name[0] <= '9';
                         });
    if (!is_list || c.repeat > 1) {
      node.children.push_back(std::move(c));
      continue;
    }
    for (auto& child : c.children) {
      child.name = c.name + "." + child.name;
      node.children.push_back(std::move(child));
    }
  }
  return node;
}

}  // namespace

StructureNode make_structure(const std::string& name, const std::vector<StructureLeaf>& leaves) {
  OpenNode root;
  root.node.name = name;
  for (const StructureLeaf& leaf : leaves) {
    OpenNode* at = &root;
    for (size_t begin = 0; begin <= leaf.name.size();) {
      const size_t dot = std::min(leaf.name.find('.', begin), leaf.name.size());
      at = &at->child(leaf.name.substr(begin, dot - begin));
      begin = dot + 1;
    }
    at->node.tensor = true, at->node.shape = leaf.shape, at->node.dtype = leaf.dtype;
  }
  return finish(root);
}

}  // namespace makar
