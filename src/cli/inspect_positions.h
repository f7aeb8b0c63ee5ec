// makar inspect --positions: how a model tells positions apart, as heat maps in the terminal or an SVG
// picture.
#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"

namespace makar {

struct PositionView {
  int64_t positions = 0;  // 0: not shown
  int64_t head = 0;       // of a bias
  std::string svg;        // a file for the picture; "" for none
};

Status print_positions(const std::string& model, const PositionView& view, bool json);

}  // namespace makar
