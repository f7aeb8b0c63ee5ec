// The steps from an image to the input of a model, as the image processors of transformers do them (CLIP,
// ViT, DeiT, LLaVA): resize, center crop, rescale, normalize.
#pragma once
#include <array>

#include "formats/config.h"
#include "images/resize.h"
#include "tensor/tensor.h"

namespace makar {

struct ImageProcessor {
  bool resize = true, crop = false, rescale = true, normalize = true;
  bool pad_square = false;  // before all other steps, pad to a square with the mean colour (LLaVA)
  int64_t width = 224, height = 224;
  int64_t shortest = 0;  // > 0: the length of the shorter side; keeps the aspect ratio
  int64_t crop_width = 224, crop_height = 224;
  ResizeFilter filter = ResizeFilter::kBilinear;
  double factor = 1.0 / 255;  // of the step `rescale`
  std::array<double, 3> mean = {0.5, 0.5, 0.5}, deviation = {0.5, 0.5, 0.5};

  // For models without a processor file: the steps of CLIP or of ViT, with images of this size as output.
  static ImageProcessor clip(int64_t height, int64_t width);
  static ImageProcessor vit(int64_t height, int64_t width);
  // Reads preprocessor_config.json or, from newer versions, processor_config.json; `fallback` if there is
  // none.
  static Result<ImageProcessor> read(const std::string& folder, const ImageProcessor& fallback);
  static Result<ImageProcessor> parse(const Config& config);

  // The size of the result if the steps fix one.
  int64_t output_width() const { return crop ? crop_width : width; }
  int64_t output_height() const { return crop ? crop_height : height; }
  bool fixed_size() const { return crop || (resize && shortest == 0); }

  // f32 [3, height, width]. Fails if padding or resizing would give too many pixels, as an extreme aspect
  // ratio does.
  Result<Tensor> operator()(const Image& image, const std::string& place) const;
};

}  // namespace makar
