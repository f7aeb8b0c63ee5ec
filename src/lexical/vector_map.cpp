#include "lexical/vector_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "base/xml.h"
#include "lexical/sparse_svd.h"

namespace makar {

std::vector<Point> principal_components(const Vectors& vectors) {
  const size_t n = vectors.size(), w = n == 0 ? 0 : vectors[0].size();
  std::vector<double> mean(w, 0);
  for (const auto& v : vectors)
    for (size_t j = 0; j < w; ++j) mean[j] += v[j] / static_cast<double>(n);
  std::vector<std::vector<double>> covariance(w, std::vector<double>(w, 0));
  for (const auto& v : vectors)
    for (size_t i = 0; i < w; ++i)
      for (size_t j = 0; j < w; ++j) covariance[i][j] += (v[i] - mean[i]) * (v[j] - mean[j]);
  std::vector<double> values;
  std::vector<std::vector<double>> axes;
  symmetric_eigen(std::move(covariance), values, axes);
  for (auto& axis : axes) {  // the sign of an eigenvector is not defined: the largest component is positive
    const auto largest = std::max_element(axis.begin(), axis.end(),
                                          [](double a, double b) { return std::fabs(a) < std::fabs(b); });
    if (largest != axis.end() && *largest < 0)
      for (double& x : axis) x = -x;
  }
  std::vector<Point> out(n, Point{0, 0});
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < 2 && k < w; ++k)
      for (size_t j = 0; j < w; ++j) out[i][k] += (vectors[i][j] - mean[j]) * axes[k][j];
  return out;
}

namespace {

// Conditional probabilities of the neighbours of i, with entropy log(perplexity).
void neighbour_row(const std::vector<double>& squares, size_t i, double perplexity, double* row) {
  double beta = 1, low = 0, high = 1e300;
  const double target_entropy = std::log(perplexity);
  for (int step = 0; step < 100; ++step) {
    double sum = 0, weighted = 0, min = 1e300;
    for (size_t j = 0; j < squares.size(); ++j)
      if (j != i) min = std::min(min, squares[j]);
    for (size_t j = 0; j < squares.size(); ++j) {
      row[j] = j == i ? 0 : std::exp(-beta * (squares[j] - min));
      sum += row[j], weighted += row[j] * (squares[j] - min);
    }
    const double entropy = std::log(sum) + beta * weighted / sum;
    for (size_t j = 0; j < squares.size(); ++j) row[j] /= sum;
    if (std::fabs(entropy - target_entropy) < 1e-6) return;
    (entropy > target_entropy ? low : high) = beta;
    beta = high > 1e299 ? beta * 2 : (low + high) / 2;
  }
}

}  // namespace

std::vector<Point> tsne(const Vectors& vectors, const TsneOptions& o, ThreadPool& pool) {
  const size_t n = vectors.size();
  std::vector<Point> y = principal_components(vectors);
  if (n < 3) return y;
  std::vector<double> p(n * n), q(n * n);
  const double perplexity = std::min(o.perplexity, static_cast<double>(n - 1) / 3 + 1);
  pool.run(static_cast<int64_t>(n), [&](int64_t at) {
    const auto i = static_cast<size_t>(at);
    std::vector<double> squares(n, 0);
    for (size_t j = 0; j < n; ++j)
      for (size_t k = 0; k < vectors[i].size(); ++k)
        squares[j] += (vectors[i][k] - vectors[j][k]) * (vectors[i][k] - vectors[j][k]);
    neighbour_row(squares, i, perplexity, &p[i * n]);
  });
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < i; ++j)
      p[i * n + j] = p[j * n + i] =
          std::max((p[i * n + j] + p[j * n + i]) / (2 * static_cast<double>(n)), 1e-12);
  double spread = 0;
  for (const Point& point : y) spread = std::max(spread, std::fabs(point[0]));
  for (Point& point : y)
    for (double& x : point) x *= spread > 0 ? 1e-4 / spread : 1;
  std::vector<Point> velocity(n, Point{0, 0}), gain(n, Point{1, 1}), gradient(n);
  const double rate = o.learning_rate > 0 ? o.learning_rate : std::max(static_cast<double>(n) / 12, 50.0);
  std::vector<double> row_sum(n);
  // Early exaggeration, momentum and gains as in scikit-learn.
  for (int64_t step = 0; step < o.iterations; ++step) {
    const double exaggeration = step < std::min<int64_t>(250, o.iterations / 2) ? 12 : 1;
    pool.run(static_cast<int64_t>(n), [&](int64_t at) {
      const auto i = static_cast<size_t>(at);
      row_sum[i] = 0;
      for (size_t j = 0; j < n; ++j) {
        const double a = y[i][0] - y[j][0], b = y[i][1] - y[j][1];
        row_sum[i] += q[i * n + j] = i == j ? 0 : 1 / (1 + a * a + b * b);
      }
    });
    double sum = 0;
    for (const double s : row_sum) sum += s;
    pool.run(static_cast<int64_t>(n), [&](int64_t at) {
      const auto i = static_cast<size_t>(at);
      gradient[i] = {0, 0};
      for (size_t j = 0; j < n; ++j) {
        const double force = 4 * (exaggeration * p[i * n + j] - q[i * n + j] / sum) * q[i * n + j];
        for (size_t k = 0; k < 2; ++k) gradient[i][k] += i == j ? 0 : force * (y[i][k] - y[j][k]);
      }
    });
    const double momentum = exaggeration > 1 ? 0.5 : 0.8;
    Point mean = {0, 0};
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < 2; ++k) {
        gain[i][k] = std::max(
            0.01, (gradient[i][k] > 0) != (velocity[i][k] > 0) ? gain[i][k] + 0.2 : gain[i][k] * 0.8);
        velocity[i][k] = momentum * velocity[i][k] - rate * gain[i][k] * gradient[i][k];
        y[i][k] += velocity[i][k], mean[k] += y[i][k] / static_cast<double>(n);
      }
    for (Point& point : y)
      for (size_t k = 0; k < 2; ++k) point[k] -= mean[k];
    o.progress(step + 1, o.iterations);
  }
  return y;
}

std::string map_svg(const std::string& title, const std::vector<Point>& points,
                    const std::vector<std::string>& labels) {
  check(points.size() == labels.size(), "a label for each point");
  constexpr double kWidth = 1000, kHeight = 800, kEdge = 60;
  const auto escaped = [](const std::string& text) { return xml_escaped(to_valid_utf8(text)); };
  Point low = {1e300, 1e300}, high = {-1e300, -1e300};
  for (const Point& p : points)
    for (size_t k = 0; k < 2; ++k) low[k] = std::min(low[k], p[k]), high[k] = std::max(high[k], p[k]);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n<text x=\"20\" y=\"28\" "
      "font-size=\"16\">{2}</text>\n",
      kWidth, kHeight, escaped(title));
  // A label is placed right of its point, or at the first other position where it overlaps no earlier label;
  // if it overlaps everywhere, the point has only a tooltip.
  struct Box {
    double left, top, right, bottom;
  };
  std::vector<Box> placed;
  for (size_t i = 0; i < points.size(); ++i) {
    const auto at = [&](size_t k, double size) {
      const double span = high[k] - low[k];
      return kEdge + (span > 0 ? (points[i][k] - low[k]) / span : 0.5) * (size - 2 * kEdge);
    };
    const double x = at(0, kWidth), y = kHeight - at(1, kHeight);
    const std::string label = escaped(labels[i]);
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\" fill=\"#36c\"><title>{}</title></circle>",
                       x, y, label);
    const double label_width = 6.0 * static_cast<double>(std::min<size_t>(labels[i].size(), 60)),
                 label_height = 11;
    for (const auto& [dx, dy] : {Point{4, 4}, Point{-4 - label_width, 4}, Point{-label_width / 2, -5},
                                 Point{-label_width / 2, 14}}) {
      const Box box{x + dx, y + dy - label_height + 2, x + dx + label_width, y + dy + 1};
      const bool free = std::none_of(placed.begin(), placed.end(), [&](const Box& b) {
        return b.left < box.right && box.left < b.right && b.top < box.bottom && box.top < b.bottom;
      });
      if (!free) continue;
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x + dx, y + dy, label);
      placed.push_back(box);
      break;
    }
    out += '\n';
  }
  return out + "</svg>\n";
}

}  // namespace makar
