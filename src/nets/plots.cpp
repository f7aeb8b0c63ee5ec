#include "nets/plots.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "base/xml.h"

namespace makar {
namespace {

void put_u32(std::string& out, uint32_t v) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(v >> shift & 0xFF);
}

void put_chunk(std::string& out, const std::string& type, const std::string& data) {
  put_u32(out, static_cast<uint32_t>(data.size()));
  const std::string body = type + data;
  out += body;
  put_u32(out, static_cast<uint32_t>(
                   crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
}

std::string zlib_compressed(const std::string& data) {
  uLongf size = compressBound(static_cast<uLong>(data.size()));
  std::string out(size, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                             reinterpret_cast<const Bytef*>(data.data()), static_cast<uLong>(data.size()), 6);
  check(code == Z_OK, "zlib could not compress an image");
  out.resize(size);
  return out;
}

constexpr const char* kColours[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44",
                                    "#66ccee", "#aa3377", "#bbbbbb"};
const char* colour(int64_t label) { return kColours[static_cast<size_t>(label) % std::size(kColours)]; }

constexpr double kSize = 420, kEdge = 48;  // pixels of the plot area and of the space around it

struct Frame {
  double low_x = INFINITY, high_x = -INFINITY, low_y = INFINITY, high_y = -INFINITY;
  void include(double x, double y) {
    low_x = std::min(low_x, x), high_x = std::max(high_x, x), low_y = std::min(low_y, y),
    high_y = std::max(high_y, y);
  }
  void add_margins() {
    for (auto [low, high] : {std::pair(&low_x, &high_x), std::pair(&low_y, &high_y)}) {
      const double margin = *high > *low ? 0.08 * (*high - *low) : 1;
      *low -= margin, *high += margin;
    }
  }
  double x(double v) const { return kEdge + kSize * (v - low_x) / (high_x - low_x); }
  double y(double v) const { return kEdge + kSize * (high_y - v) / (high_y - low_y); }
};

std::string svg_header(const std::string& title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{0}\" font-family=\"sans-serif\" "
      "font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{1}\" "
      "y=\"20\">{2}</text>\n",
      kSize + 2 * kEdge, kEdge, xml_escaped(title));
}

std::string dot(const Frame& f, const PlotPoint& p, const char* fill) {
  return fmt::format(
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" stroke=\"#222\" stroke-width=\".6\"/>\n",
      f.x(p.x), f.y(p.y), fill);
}

// A frame with about five round numbers along each axis.
std::string axes(const Frame& f) {
  std::string out =
      fmt::format("<rect x=\"{0}\" y=\"{0}\" width=\"{1}\" height=\"{1}\" fill=\"none\" stroke=\"#888\"/>\n",
                  kEdge, kSize);
  const auto ticks = [](double low, double high, const auto& use) {
    const double rough = (high - low) / 5, power = std::pow(10.0, std::floor(std::log10(rough)));
    const double step = power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : rough / power > 1 ? 2 : 1);
    const double first = std::ceil(low / step);
    if (!(std::abs(first) < 1e15)) return;  // the values differ in their last digits only
    for (int i = 0; i < 12 && (first + i) * step <= high; ++i) use(first + i == 0 ? 0.0 : (first + i) * step);
  };
  ticks(f.low_x, f.high_x, [&](double v) {
    out += fmt::format(
        "<path d=\"M{0:.1f},{1}v5\" stroke=\"#888\"/><text x=\"{0:.1f}\" y=\"{2}\" font-size=\"11\" "
        "text-anchor=\"middle\">{3:.6g}</text>\n",
        f.x(v), kEdge + kSize, kEdge + kSize + 18, v);
  });
  ticks(f.low_y, f.high_y, [&](double v) {
    out += fmt::format(
        "<path d=\"M{0},{1:.1f}h-5\" stroke=\"#888\"/><text x=\"{2}\" y=\"{3:.1f}\" font-size=\"11\" "
        "text-anchor=\"end\">{4:.6g}</text>\n",
        kEdge, f.y(v), kEdge - 8, f.y(v) + 4, v);
  });
  return out;
}

constexpr size_t kMaxDots = 2000;

}  // namespace

std::string png_bytes(const std::vector<uint8_t>& pixels, int64_t width, int64_t height) {
  check(static_cast<int64_t>(pixels.size()) == width * height, "an image has width * height pixels");
  std::string header, rows;
  put_u32(header, static_cast<uint32_t>(width)), put_u32(header, static_cast<uint32_t>(height));
  header += std::string("\x08\x00\x00\x00\x00", 5);  // 8 bits, grey
  for (int64_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + y * width, static_cast<size_t>(width));
  }
  std::string out = "\x89PNG\r\n\x1a\n";
  put_chunk(out, "IHDR", header), put_chunk(out, "IDAT", zlib_compressed(rows)), put_chunk(out, "IEND", "");
  return out;
}

std::string image_grid(const std::vector<float>& values, int64_t count, int64_t height, int64_t width,
                       int64_t columns) {
  constexpr int64_t kGap = 2;
  constexpr uint8_t kGapGrey = 64;
  const int64_t rows = (count + columns - 1) / columns;
  const int64_t grid_width = columns * (width + kGap) + kGap, grid_height = rows * (height + kGap) + kGap;
  std::vector<uint8_t> pixels(static_cast<size_t>(grid_width * grid_height), kGapGrey);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const float v = std::clamp(values[static_cast<size_t>((i * height + y) * width + x)], 0.0f, 1.0f);
        const int64_t at = ((i / columns) * (height + kGap) + kGap + y) * grid_width +
                           (i % columns) * (width + kGap) + kGap + x;
        pixels[static_cast<size_t>(at)] = static_cast<uint8_t>(std::lround(v * 255.0f));
      }
  return png_bytes(pixels, grid_width, grid_height);
}

std::string boundary_plot(
    const std::string& title, const std::vector<PlotPoint>& points, const std::vector<std::string>& classes,
    const std::function<std::vector<int64_t>(const std::vector<PlotPoint>&)>& classify) {
  constexpr int kCells = 70;
  Frame f;
  for (const PlotPoint& p : points) f.include(p.x, p.y);
  f.add_margins();
  std::vector<PlotPoint> grid;
  const double dx = (f.high_x - f.low_x) / kCells, dy = (f.high_y - f.low_y) / kCells;
  for (int i = 0; i < kCells; ++i)
    for (int j = 0; j < kCells; ++j) grid.push_back({f.low_x + (i + 0.5) * dx, f.low_y + (j + 0.5) * dy});
  const std::vector<int64_t> answers = classify(grid);
  std::string out = svg_header(title) + "<g shape-rendering=\"crispEdges\" opacity=\".35\">\n";
  const double cell = kSize / kCells;
  for (size_t i = 0; i < grid.size(); ++i)
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
                       f.x(grid[i].x) - cell / 2, f.y(grid[i].y) - cell / 2, cell + 0.2, cell + 0.2,
                       colour(answers[i]));
  out += "</g>\n" + axes(f);
  for (size_t i = 0; i < std::min(points.size(), kMaxDots); ++i)
    out += dot(f, points[i], colour(points[i].label));
  for (size_t c = 0; c < std::min(classes.size(), std::size(kColours)); ++c)
    out += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", kEdge + 4, kEdge + 18 + 16 * c,
                       colour(static_cast<int64_t>(c)), xml_escaped(classes[c]));
  return out + "</svg>\n";
}

std::string fit_plot(const std::string& title, const std::vector<PlotPoint>& points,
                     const std::function<std::vector<double>(const std::vector<double>&)>& fit) {
  constexpr int kSteps = 200;
  Frame f;
  for (const PlotPoint& p : points) f.include(p.x, p.y);
  f.add_margins();
  std::vector<double> xs;
  for (int i = 0; i <= kSteps; ++i) xs.push_back(f.low_x + (f.high_x - f.low_x) * i / kSteps);
  const std::vector<double> ys = fit(xs);
  for (const double y : ys) f.include(f.low_x, y);
  std::string out = svg_header(title) + axes(f), line;
  for (size_t i = 0; i < std::min(points.size(), kMaxDots); ++i) out += dot(f, points[i], kColours[0]);
  for (size_t i = 0; i < xs.size(); ++i) line += fmt::format("{:.1f},{:.1f} ", f.x(xs[i]), f.y(ys[i]));
  return out +
         fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n</svg>\n",
                     line, kColours[1]);
}

}  // namespace makar
