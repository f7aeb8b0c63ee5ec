// Draws curves as an SVG image.
#pragma once
#include <string>
#include <vector>

namespace makar {

struct Curve {
  std::string name;
  std::vector<double> x, y;
  void add(double at, double value) { x.push_back(at), y.push_back(value); }
  // Averages neighbouring points down to at most `points`.
  Curve thinned(size_t points) const;
};

// The unit of x: steps have integer ticks.
enum class XAxis { kSteps, kNumbers };
std::string svg_chart(const std::string& title, const std::vector<Curve>& curves, XAxis axis = XAxis::kSteps);

}  // namespace makar
