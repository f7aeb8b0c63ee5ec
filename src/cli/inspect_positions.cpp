#include "cli/inspect_positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "cli/run.h"
#include "kernels/cpu_device.h"
#include "models/positions.h"

namespace makar {
namespace {

constexpr int64_t kMaxPositions = 512;
constexpr const char* kCells[] = {"  ", "░░", "▒▒", "▓▓", "██"};

const char* description_of(const std::string& kind) {
  if (kind == "learned") return "learned positions: a table, added to the tokens";
  if (kind == "sinusoidal") return "sinusoidal positions: a table of sines and cosines, added to the tokens";
  if (kind == "rotary") return "rotary positions: pairs of dimensions of queries and keys are rotated";
  if (kind == "alibi") return "ALiBi: a score decreases with the distance";
  return "relative bias: each score gets a number from a table of distances";
}

// A matrix [size, size] with the range of its shades.
struct Picture {
  std::string title;
  const std::vector<double>* values = nullptr;
  int64_t size = 0;
  bool causal = false;
  double low = 0, high = 0;
  Picture(std::string name, const std::vector<double>& from, const PositionMap& map)
      : title(std::move(name)), values(&from), size(map.size), causal(map.causal) {
    const auto [min, max] = std::minmax_element(from.begin(), from.end());
    low = *min, high = *max;
  }
  double share(int64_t row, int64_t column) const {  // 0 to 1
    const double value = (*values)[static_cast<size_t>(row * size + column)];
    return high > low ? (value - low) / (high - low) : 0;
  }
};

std::vector<Picture> pictures_of(const PositionMap& map) {
  if (map.distances.empty()) return {Picture("bias", map.values, map)};
  return {Picture("dot product", map.values, map), Picture("distance", map.distances, map)};
}

void print_picture(const Picture& p) {
  const int64_t shown = std::min(p.size, (static_cast<int64_t>(terminal_width()) - 6) / 2);
  fmt::print("{} of positions 0 to {}: blank is {:.2f}, full is {:.2f}\n\n", p.title, shown - 1, p.low,
             p.high);
  for (int64_t r = 0; r < shown; ++r) {
    std::string line = fmt::format("{:>4} |", r);
    for (int64_t c = 0; c < (p.causal ? r + 1 : shown); ++c) line += kCells[std::lround(4 * p.share(r, c))];
    while (line.ends_with(' ')) line.pop_back();
    fmt::print("{}\n", line);
  }
  fmt::print("\n");
}

// One of 24 shades from white to blue.
int shade_of(double share) { return 255 - 9 * static_cast<int>(std::lround(23 * share)); }

// The pictures side by side, one row for each map.
std::string svg_of(const std::vector<PositionMap>& maps) {
  constexpr double kSide = 320, kGap = 24, kTop = 44;
  const double width = 2 * kSide + 3 * kGap;
  const double height = (kSide + kTop + kGap) * static_cast<double>(maps.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      width, height);
  double top = 0;
  for (const PositionMap& map : maps) {
    double left = kGap;
    out += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kGap, top + 18, description_of(map.kind));
    for (const Picture& p : pictures_of(map)) {
      const double cell = kSide / static_cast<double>(p.size);
      out += fmt::format("<text x=\"{}\" y=\"{}\">{}: {:.2f} (white) to {:.2f}</text>\n", left, top + 36,
                         p.title, p.low, p.high);
      out += fmt::format("<g transform=\"translate({} {}) scale({:.4f})\" shape-rendering=\"crispEdges\">\n",
                         left, top + kTop, cell);
      std::map<int, std::string> cells;  // by shade: one path each keeps the file small
      for (int64_t r = 0; r < p.size; ++r) {
        const int64_t end = p.causal ? r + 1 : p.size;
        for (int64_t c = 0, next = 0; c < end; c = next) {
          const int shade = shade_of(p.share(r, c));
          while (next < end && shade_of(p.share(r, next)) == shade) ++next;
          cells[shade] += fmt::format("M{} {}h{}v1H{}z", c, r, next - c, c);
        }
      }
      for (const auto& [shade, path] : cells)
        out += fmt::format("<path d=\"{}\" fill=\"#{:02x}{:02x}ff\"/>\n", path, shade, shade);
      out += "</g>\n";
      left += kSide + kGap;
    }
    top += kSide + kTop + kGap;
  }
  return out + "</svg>\n";
}

Json json_of(const std::vector<double>& values, int64_t size) {
  Json rows = Json::array();
  for (int64_t r = 0; r < size; ++r)
    rows.push_back(std::vector<double>(values.begin() + r * size, values.begin() + (r + 1) * size));
  return rows;
}

}  // namespace

Status print_positions(const std::string& path, const PositionView& view, bool json) {
  if (view.positions < 2 || view.positions > kMaxPositions)
    return error_of(Error::Kind::kLimit, "--positions", "expected 2 to {}, got {}", kMaxPositions,
                    view.positions);
  MAKAR_TRY(const LoadedModel loaded, load_model(path));
  const StackSpec& stack = loaded.model->spec().main();
  if (view.head < 0 || view.head >= stack.first().attention.heads)
    return error_of(Error::Kind::kNotFound, "--head", "the model has {} heads",
                    stack.first().attention.heads);
  CpuDevice device(1);
  Context ctx{device};
  const auto maps = position_maps(ctx, *loaded.model, stack, view.positions, view.head);
  if (maps.empty())
    return error_of(Error::Kind::kUnsupported, "--positions",
                    "this model has no encoding of positions that can be drawn");
  if (!view.svg.empty()) MAKAR_RETURN_IF_ERROR(write_file(view.svg, svg_of(maps)));
  Json all = Json::array();
  for (const PositionMap& map : maps) {
    if (json) {
      Json one = {{"kind", map.kind}, {"spread", map.spread()}};
      one[map.distances.empty() ? "bias" : "dot_products"] = json_of(map.values, map.size);
      if (!map.distances.empty()) one["distances"] = json_of(map.distances, map.size);
      all.push_back(std::move(one));
      continue;
    }
    fmt::print("{}\n\n", description_of(map.kind));
    for (const Picture& p : pictures_of(map)) print_picture(p);
    fmt::print("pairs at the same distance differ by {:.2g} at most\n", map.spread());
  }
  if (json) fmt::print("{}\n", dump(all));
  return Done{};
}

}  // namespace makar
