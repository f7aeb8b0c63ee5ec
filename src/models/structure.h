// The tree of a model's tensors, from their dotted names.
#pragma once
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace makar {

struct StructureLeaf {
  std::string name;
  Shape shape;
  std::string dtype;
};

// Consecutively numbered siblings of equal structure are one node.
struct StructureNode {
  std::string name;        // "self_attn", "layers.0..11"
  int64_t repeat = 1;      // how many equal siblings are folded into this node
  int64_t parameters = 0;  // of one of these siblings, with all its children
  bool tensor = false;     // a leaf, which has a shape and a dtype
  Shape shape;
  std::string dtype;  // "f32"; empty when unknown
  std::vector<StructureNode> children;
};

StructureNode make_structure(const std::string& name, const std::vector<StructureLeaf>& leaves);

}  // namespace makar
