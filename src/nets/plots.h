// Plots of networks: grids of images as PNG, decision boundaries and fitted curves as SVG.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace makar {

// A grey image: bytes [height, width].
std::string png_bytes(const std::vector<uint8_t>& pixels, int64_t width, int64_t height);

// Images of height x width, row by row in `columns` columns with margins of 2 pixels; values from 0 to 1.
std::string image_grid(const std::vector<float>& values, int64_t count, int64_t height, int64_t width,
                       int64_t columns);

struct PlotPoint {
  double x = 0, y = 0;
  int64_t label = 0;
};
// The regions of a classifier of two numbers: `classify` returns the classes of a grid of points; dots are
// the examples.
std::string boundary_plot(const std::string& title, const std::vector<PlotPoint>& points,
                          const std::vector<std::string>& classes,
                          const std::function<std::vector<int64_t>(const std::vector<PlotPoint>&)>& classify);
// The curve of a function of one number; dots are the examples.
std::string fit_plot(const std::string& title, const std::vector<PlotPoint>& points,
                     const std::function<std::vector<double>(const std::vector<double>&)>& fit);

}  // namespace makar
