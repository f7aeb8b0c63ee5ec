// Vectors in the plane: principal components and t-SNE (van der Maaten and Hinton, 2008), and a picture with
// labels.
#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace makar {

using Point = std::array<double, 2>;
using Vectors = std::vector<std::vector<double>>;

std::vector<Point> principal_components(const Vectors& vectors);

struct TsneOptions {
  double perplexity = 30;    // at most (points - 1) / 3 + 1 is used
  double learning_rate = 0;  // 0: points / 12, at least 50
  int64_t iterations = 500;
  std::function<void(int64_t done, int64_t total)> progress = [](int64_t, int64_t) {};
};
// Exact, quadratic in the number of points; starts from the principal components.
std::vector<Point> tsne(const Vectors& vectors, const TsneOptions& options, ThreadPool& pool);

// An SVG image with a label at each point.
std::string map_svg(const std::string& title, const std::vector<Point>& points,
                    const std::vector<std::string>& labels);

}  // namespace makar
