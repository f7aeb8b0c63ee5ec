// The reliability diagram of a calibration (Guo et al., 2017): accuracy of each bin of confidence, the gap to
// the mean confidence, and how many items each bin has.
#include <fmt/format.h>

#include <algorithm>

#include "cli/metrics.h"

namespace makar {
namespace {

constexpr double kLeft = 60, kTop = 64, kSize = 360, kCountsHeight = 70;  // pixels

double px(double share) { return kLeft + kSize * share; }
double py(double share) { return kTop + kSize * (1 - share); }

std::string rect(double x, double top, double width, double height, const char* fill) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x,
                     top, std::max(width, 0.5), std::max(height, 0.0), fill);
}
std::string label(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, text);
}
std::string line(double x1, double x2, double y1, double y2, const char* style) {
  return fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, x2, y1, y2,
                     style);
}

}  // namespace

std::string calibration_plot(const Evaluation& e) {
  const Json& bins = e.details["bins"];
  int64_t max_count = 1, items = 0;
  for (const Json& bin : bins) {
    max_count = std::max(max_count, bin["count"].get<int64_t>());
    items += bin["count"].get<int64_t>();
  }
  const double bottom = py(0) + 40, height = bottom + kCountsHeight + 52;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"460\" height=\"{:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{}\" y=\"22\" font-size=\"14\">Expected calibration error {:.4f}, {} items</text>\n",
      height, kLeft, e.details["calibration_error"].get<double>(), items);
  out += rect(kLeft, 34, 12, 12, "#3366aa") + label(kLeft + 18, 44, "start", "accuracy");
  out +=
      rect(kLeft + 90, 34, 12, 12, "#eebbaa") + label(kLeft + 108, 44, "start", "gap to the mean confidence");
  for (int tick = 0; tick <= 5; ++tick) {
    const double share = tick / 5.0;
    out += line(px(0), px(1), py(share), py(share), "stroke=\"#dddddd\"");
    out += label(px(0) - 6, py(share) + 4, "end", fmt::format("{:g}", share));
    out += label(px(share), bottom + kCountsHeight + 18, "middle", fmt::format("{:g}", share));
  }
  const double width = 1 / static_cast<double>(bins.size());
  for (size_t i = 0; i < bins.size(); ++i) {
    const auto count = bins[i]["count"].get<int64_t>();
    if (count == 0) continue;
    const double accuracy = bins[i]["accuracy"].get<double>(),
                 confidence = bins[i]["confidence"].get<double>();
    const double x = px(width * static_cast<double>(i)) + 1, bar = kSize * width - 2;
    out += rect(x, py(accuracy), bar, kSize * accuracy, "#3366aa");
    const double high = std::max(accuracy, confidence), low = std::min(accuracy, confidence);
    out += rect(x, py(high), bar, kSize * (high - low), "#eebbaa");
    out +=
        line(x, x + std::max(bar, 0.5), py(accuracy), py(accuracy), "stroke=\"#224477\" stroke-width=\"2\"");
    const double share = static_cast<double>(count) / static_cast<double>(max_count);
    out += rect(x, bottom + kCountsHeight * (1 - share), bar, kCountsHeight * share, "#999999");
  }
  out += line(px(0), px(1), py(0), py(1), "stroke=\"#555555\" stroke-dasharray=\"4 4\"");
  out += line(px(0), px(1), bottom + kCountsHeight, bottom + kCountsHeight, "stroke=\"#999999\"");
  out += label(px(0) - 6, bottom + 10, "end", fmt::format("{}", max_count));
  out += label(px(0) - 6, bottom + kCountsHeight, "end", "0");
  out += label(px(0), bottom - 8, "start", "items per bin");
  return out + label(px(0.5), bottom + kCountsHeight + 38, "middle", "confidence") + "</svg>\n";
}

}  // namespace makar
