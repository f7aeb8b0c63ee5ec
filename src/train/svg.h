// Curves as an SVG picture.
#pragma once
#include <string>
#include <vector>

namespace makar {

struct Curve {
  std::string name;
  std::vector<double> x, y;
  void add(double at, double value) { x.push_back(at), y.push_back(value); }
  // Means of neighbours, at most `points` of them.
  Curve thinned(size_t points) const;
};

std::string svg_chart(const std::string& title, const std::vector<Curve>& curves);

}  // namespace makar
