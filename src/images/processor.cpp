#include "images/processor.h"

#include <algorithm>
#include <cmath>

namespace makar {
namespace {

constexpr int64_t kMaxSide = 8192;
constexpr int64_t kMaxResizedPixels = int64_t{1} << 26;

constexpr std::array<double, 3> kClipMean = {0.48145466, 0.4578275, 0.40821073},
                                kClipDeviation = {0.26862954, 0.26130258, 0.27577711};

struct Size {
  int64_t width = 0, height = 0, shortest = 0;
};

// A number, {"height", "width"} or {"shortest_edge"}.
Result<Size> read_size(const Config& c, const char* key, bool number_is_shortest) {
  Size s;
  if (c.json()[key].is_number()) {
    MAKAR_TRY(const int64_t side, c.integer(key, 1, kMaxSide));
    (number_is_shortest ? s.shortest : s.width) = side;
    s.height = s.width;
    return s;
  }
  MAKAR_TRY(const Config size, c.object(key));
  if (size.has("shortest_edge")) {
    if (size.has("longest_edge"))
      return c.field_error(key, "has 'shortest_edge' and 'longest_edge'; only the first is supported");
    MAKAR_TRY(s.shortest, size.integer("shortest_edge", 1, kMaxSide));
    return s;
  }
  MAKAR_TRY(s.width, size.integer("width", 1, kMaxSide));
  MAKAR_TRY(s.height, size.integer("height", 1, kMaxSide));
  return s;
}

Status read_three(const Config& c, const char* key, std::array<double, 3>& into) {
  if (!c.has(key)) return Done{};
  MAKAR_TRY(const auto values, c.numbers(key, -1e6, 1e6, 3));
  if (values.size() != 3) return c.field_error(key, "must have three numbers");
  std::copy(values.begin(), values.end(), into.begin());
  return Done{};
}

// A square with the image in its middle and the mean colour around it, as in LLaVA.
Image padded_square(const Image& image, const std::array<double, 3>& mean) {
  const int64_t side = std::max(image.width, image.height);
  Image out{side, side, std::vector<uint8_t>(static_cast<size_t>(side * side * 3))};
  for (size_t i = 0; i < out.rgb.size(); ++i)
    out.rgb[i] = static_cast<uint8_t>(std::clamp(static_cast<int>(mean[i % 3] * 255), 0, 255));
  const int64_t left = (side - image.width) / 2, top = (side - image.height) / 2;
  for (int64_t y = 0; y < image.height; ++y)
    std::copy_n(image.rgb.data() + y * image.width * 3, image.width * 3,
                out.rgb.data() + ((y + top) * side + left) * 3);
  return out;
}

}  // namespace

ImageProcessor ImageProcessor::clip(int64_t height, int64_t width) {
  ImageProcessor p;
  p.crop = true, p.shortest = std::min(height, width), p.crop_height = height, p.crop_width = width;
  p.filter = ResizeFilter::kBicubic;
  p.mean = kClipMean, p.deviation = kClipDeviation;
  return p;
}

ImageProcessor ImageProcessor::vit(int64_t height, int64_t width) {
  ImageProcessor p;
  p.height = height, p.width = width;
  return p;
}

Result<ImageProcessor> ImageProcessor::read(const std::string& folder, const ImageProcessor& fallback) {
  auto config = Config::read(folder, "preprocessor_config.json");
  if (config.ok()) return parse(*config);
  if (config.error().kind != Error::Kind::kNotFound) return config.error();
  auto processor_config = Config::read(folder, "processor_config.json");
  if (!processor_config.ok() && processor_config.error().kind == Error::Kind::kNotFound) return fallback;
  if (!processor_config.ok()) return processor_config.error();
  if (!processor_config->has("image_processor")) return fallback;
  MAKAR_TRY(const Config part, processor_config->object("image_processor"));
  return parse(part);
}

Result<ImageProcessor> ImageProcessor::parse(const Config& c) {
  MAKAR_TRY(const std::string type,
            c.text_or({"image_processor_type", "feature_extractor_type"}, "ViTImageProcessor"));
  const auto is = [&](const char* name) { return type.starts_with(name); };
  if (!is("CLIP") && !is("Llava") && !is("ViT") && !is("DeiT"))
    return c.field_error(
        "image_processor_type",
        fmt::format("is '{}'; the processors of CLIP, LLaVA, ViT and DeiT are supported", type));
  if (is("LlavaNext") || is("LlavaOnevision"))
    return c.field_error(
        "image_processor_type",
        fmt::format("is '{}', which splits an image into tiles; this is not supported", type));
  const bool like_clip = is("CLIP") || is("Llava");
  ImageProcessor p = like_clip ? clip(224, 224) : vit(224, 224);
  if (is("DeiT")) p.crop = true, p.width = p.height = 256, p.filter = ResizeFilter::kBicubic;
  MAKAR_TRY(p.resize, c.boolean_or("do_resize", true));
  MAKAR_TRY(p.crop, c.boolean_or("do_center_crop", p.crop));
  MAKAR_TRY(p.rescale, c.boolean_or("do_rescale", true));
  MAKAR_TRY(p.normalize, c.boolean_or("do_normalize", true));
  MAKAR_TRY(p.pad_square, c.boolean_or("do_pad", false));
  if (c.has("size")) {
    MAKAR_TRY(const Size s, read_size(c, "size", like_clip));
    p.shortest = s.shortest;
    if (s.shortest == 0) p.width = s.width, p.height = s.height;
  }
  if (c.has("crop_size")) {
    MAKAR_TRY(const Size s, read_size(c, "crop_size", false));
    if (s.shortest > 0) return c.field_error("crop_size", "needs 'height' and 'width'");
    p.crop_width = s.width, p.crop_height = s.height;
  }
  MAKAR_TRY(const int64_t filter, c.integer_or("resample", static_cast<int64_t>(p.filter), 0, 5));
  p.filter = static_cast<ResizeFilter>(filter);
  MAKAR_TRY(p.factor, c.number_or("rescale_factor", 1.0 / 255, 1e-9, 1e3));
  MAKAR_RETURN_IF_ERROR(read_three(c, "image_mean", p.mean));
  MAKAR_RETURN_IF_ERROR(read_three(c, "image_std", p.deviation));
  for (const double v : p.deviation)
    if (static_cast<float>(v) == 0) return c.field_error("image_std", "must not contain a zero");
  return p;
}

Result<Tensor> ImageProcessor::operator()(const Image& input, const std::string& place) const {
  Image image;
  const Image* current = &input;
  const auto replace = [&](Image next) { image = std::move(next), current = &image; };
  if (pad_square && input.width != input.height) {
    const int64_t side = std::max(input.width, input.height);
    if (side > kMaxResizedPixels / side)
      return error_of(Error::Kind::kLimit, place,
                      "an image of {} x {} pixels is too large to pad to a square; crop it first",
                      input.width, input.height);
    replace(padded_square(input, mean));
  }
  if (resize) {
    int64_t to_width = width, to_height = height;
    if (shortest > 0) {
      const auto [shorter, longer] = std::minmax(current->width, current->height);
      const auto other =
          static_cast<int64_t>(static_cast<double>(shortest * longer) / static_cast<double>(shorter));
      const bool portrait = current->width <= current->height;
      to_width = portrait ? shortest : other, to_height = portrait ? other : shortest;
    }
    if (to_width > kMaxResizedPixels / to_height)
      return error_of(Error::Kind::kLimit, place,
                      "an image of {} x {} pixels would be resized to {} x {}; crop it first", input.width,
                      input.height, to_width, to_height);
    replace(resized(*current, to_width, to_height, filter));
  }
  if (crop) replace(center_cropped(*current, crop_width, crop_height));
  const int64_t area = current->pixels();
  Tensor out = Tensor::empty({3, current->height, current->width});
  for (int64_t c = 0; c < 3; ++c) {
    const float channel_mean = static_cast<float>(mean[static_cast<size_t>(c)]),
                channel_deviation = static_cast<float>(deviation[static_cast<size_t>(c)]);
    float values[256];
    for (int v = 0; v < 256; ++v) {
      values[v] = static_cast<float>(rescale ? v * factor : v);
      if (normalize) values[v] = (values[v] - channel_mean) / channel_deviation;
    }
    for (int64_t i = 0; i < area; ++i)
      out.f32()[c * area + i] = values[current->rgb[static_cast<size_t>(i * 3 + c)]];
  }
  return out;
}

}  // namespace makar
