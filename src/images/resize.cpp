#include "images/resize.h"

#include <algorithm>
#include <cmath>

namespace makar {
namespace {

constexpr int kWeightBits = 22;  // fraction bits of a weight

double sinc(double x) {
  if (x == 0) return 1;
  x *= M_PI;
  return std::sin(x) / x;
}

struct Filter {
  double support;
  double (*value)(double x);
};

double bilinear(double x) {
  x = std::fabs(x);
  return x < 1 ? 1 - x : 0;
}
double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}
double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }
double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }
double hamming(double x) {
  x = std::fabs(x);
  if (x == 0) return 1;
  if (x >= 1) return 0;
  x *= M_PI;
  return std::sin(x) / x * (0.54 + 0.46 * std::cos(x));
}

Filter filter_of(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kLanczos:
      return {3, lanczos};
    case ResizeFilter::kBicubic:
      return {2, bicubic};
    case ResizeFilter::kBox:
      return {0.5, box};
    case ResizeFilter::kHamming:
      return {1, hamming};
    default:
      return {1, bilinear};
  }
}

// The inputs of one output and their weights.
struct Taps {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<Taps> taps_of(int64_t in, int64_t out, const Filter& filter) {
  const double scale = static_cast<double>(in) / static_cast<double>(out), stretch = std::max(scale, 1.0);
  const double support = filter.support * stretch, inverse = 1.0 / stretch;
  std::vector<Taps> all(static_cast<size_t>(out));
  std::vector<double> w;
  for (int64_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t last = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in);
    double sum = 0;
    w.clear();
    for (int64_t k = first; k < last; ++k) {
      w.push_back(filter.value((static_cast<double>(k) - center + 0.5) * inverse));
      sum += w.back();
    }
    Taps& taps = all[static_cast<size_t>(i)];
    taps.first = first;
    for (double v : w) {
      v = (sum != 0 ? v / sum : v) * (1 << kWeightBits);
      taps.weights.push_back(static_cast<int32_t>(v < 0 ? v - 0.5 : v + 0.5));
    }
  }
  return all;
}

uint8_t rounded(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

Image resized_columns(const Image& image, int64_t width, const Filter& filter) {
  const std::vector<Taps> taps = taps_of(image.width, width, filter);
  Image out{width, image.height, std::vector<uint8_t>(static_cast<size_t>(width * image.height * 3))};
  uint8_t* to = out.rgb.data();
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* row = image.rgb.data() + y * image.width * 3;
    for (const Taps& t : taps) {
      int32_t sums[3] = {1 << (kWeightBits - 1), 1 << (kWeightBits - 1), 1 << (kWeightBits - 1)};
      const uint8_t* from = row + t.first * 3;
      for (const int32_t weight : t.weights)
        for (int32_t& sum : sums) sum += weight * *from++;
      for (const int32_t sum : sums) *to++ = rounded(sum);
    }
  }
  return out;
}

Image resized_rows(const Image& image, int64_t height, const Filter& filter) {
  const std::vector<Taps> taps = taps_of(image.height, height, filter);
  const int64_t row = image.width * 3;
  Image out{image.width, height, std::vector<uint8_t>(static_cast<size_t>(row * height))};
  std::vector<int32_t> sums(static_cast<size_t>(row));
  for (int64_t y = 0; y < height; ++y) {
    const Taps& t = taps[static_cast<size_t>(y)];
    std::fill(sums.begin(), sums.end(), 1 << (kWeightBits - 1));
    for (size_t k = 0; k < t.weights.size(); ++k) {
      const uint8_t* from = image.rgb.data() + (t.first + static_cast<int64_t>(k)) * row;
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += t.weights[k] * from[i];
    }
    for (size_t i = 0; i < sums.size(); ++i) out.rgb[static_cast<size_t>(y * row) + i] = rounded(sums[i]);
  }
  return out;
}

// The input index of each output; positions are sums of steps, with the rounding of Pillow.
std::vector<int64_t> nearest_inputs(int64_t in, int64_t out) {
  const double step = static_cast<double>(in) / static_cast<double>(out);
  std::vector<int64_t> inputs;
  double at = step * 0.5;
  for (int64_t i = 0; i < out; ++i, at += step) inputs.push_back(std::min(static_cast<int64_t>(at), in - 1));
  return inputs;
}

Image nearest(const Image& image, int64_t width, int64_t height) {
  Image out{width, height, {}};
  out.rgb.reserve(static_cast<size_t>(width * height * 3));
  const std::vector<int64_t> columns = nearest_inputs(image.width, width);
  for (const int64_t y : nearest_inputs(image.height, height))
    for (const int64_t x : columns) {
      const auto from = image.rgb.begin() + (y * image.width + x) * 3;
      out.rgb.insert(out.rgb.end(), from, from + 3);
    }
  return out;
}

}  // namespace

Image resized(const Image& image, int64_t width, int64_t height, ResizeFilter filter) {
  check(width > 0 && height > 0 && image.width > 0 && image.height > 0,
        "an image or its new size has no pixels");
  if (width == image.width && height == image.height) return image;
  if (filter == ResizeFilter::kNearest) return nearest(image, width, height);
  const Filter f = filter_of(filter);
  if (width == image.width) return resized_rows(image, height, f);
  const Image new_width = resized_columns(image, width, f);
  return height == image.height ? new_width : resized_rows(new_width, height, f);
}

Image center_cropped(const Image& image, int64_t width, int64_t height) {
  Image out{width, height, std::vector<uint8_t>(static_cast<size_t>(width * height * 3), 0)};
  const auto first = [](int64_t size, int64_t crop_size) {
    return size >= crop_size ? (size - crop_size) / 2 : -((crop_size - size + 1) / 2);
  };
  const int64_t left = first(image.width, width), top = first(image.height, height);
  const int64_t from = std::max<int64_t>(left, 0), to = std::min(left + width, image.width);
  for (int64_t y = std::max<int64_t>(-top, 0); y < height && y + top < image.height; ++y)
    std::copy_n(image.rgb.data() + ((y + top) * image.width + from) * 3, (to - from) * 3,
                out.rgb.data() + (y * width + from - left) * 3);
  return out;
}

}  // namespace makar
