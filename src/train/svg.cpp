#include "train/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace makar {
namespace {

// Margins and the size of the plot, in pixels.
constexpr double kLeft = 60, kTop = 30, kWidth = 640, kHeight = 300;

struct Range {
  double low = INFINITY, high = -INFINITY;
  void include(double v) { low = std::min(low, v), high = std::max(high, v); }
  double fraction(double v) const { return high > low ? (v - low) / (high - low) : 0.5; }
};

// About five tick values: multiples of 1, 2 or 5 times a power of ten; integers if `integers`.
std::vector<double> ticks(const Range& range, bool integers) {
  if (!(range.high > range.low)) return {range.low};
  const double rough = (range.high - range.low) / 5, power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10);
  if (integers) step = std::max(1.0, std::round(step));
  std::vector<double> out;
  for (double i = std::ceil(range.low / step - 1e-9); i * step <= range.high + 1e-9 * step; ++i)
    out.push_back(i * step + 0.0);  // no -0
  return out;
}

}  // namespace

Curve Curve::thinned(size_t points) const {
  if (x.size() <= points) return *this;
  Curve out{name, {}, {}};
  for (size_t p = 0; p < points; ++p) {
    const size_t begin = p * x.size() / points, end = (p + 1) * x.size() / points;
    double sx = 0, sy = 0;
    for (size_t i = begin; i < end; ++i) sx += x[i], sy += y[i];
    out.add(sx / static_cast<double>(end - begin), sy / static_cast<double>(end - begin));
  }
  return out;
}

std::string svg_chart(const std::string& title, const std::vector<Curve>& curves, XAxis axis) {
  static const char* const kColours[] = {"#1f6feb", "#d1242f", "#1a7f37", "#8250df"};
  Range x, y;
  for (const Curve& c : curves)
    for (size_t i = 0; i < c.x.size(); ++i) x.include(c.x[i]), y.include(c.y[i]);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/><text x=\"{}\" y=\"18\" "
      "font-size=\"14\">{}</text>\n",
      kLeft + kWidth + 20, kTop + kHeight + 40, kLeft, title);
  if (std::isfinite(x.low)) {
    for (const double tick : ticks(y, false)) {
      const double py = kTop + kHeight * (1 - y.fraction(tick));
      out += fmt::format(
          "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/><text x=\"{3}\" "
          "y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>\n",
          kLeft, kLeft + kWidth, py, kLeft - 6, py + 4, tick);
    }
    for (const double tick : ticks(x, axis == XAxis::kSteps))
      out += fmt::format("<text class=\"x\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.10g}</text>\n",
                         kLeft + kWidth * x.fraction(tick), kTop + kHeight + 18, tick);
  }
  for (size_t c = 0; c < curves.size(); ++c) {
    std::string points;
    for (size_t i = 0; i < curves[c].x.size(); ++i)
      points += fmt::format("{:.1f},{:.1f} ", kLeft + kWidth * x.fraction(curves[c].x[i]),
                            kTop + kHeight * (1 - y.fraction(curves[c].y[i])));
    const char* colour = kColours[c % std::size(kColours)];
    out += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/>\n", colour,
                       points);
    out += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft + kWidth,
                       kTop + 14 + 16 * static_cast<double>(c), colour, curves[c].name);
  }
  return out + "</svg>\n";
}

}  // namespace makar
