// Any bytes as an image: an Error, or an image with as many pixels as its size says, within the limits.
#include "images/processor.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(images_decode) {
  const ImageLimits limits{.pixels = 1 << 16, .bytes = 1 << 20};
  const auto image = decode_image({reinterpret_cast<const std::byte*>(data), size}, "fuzz", limits);
  if (!image.ok()) {
    check(!image.error().message.empty() && image.error().text().size() < 1000,
          "an error has a bounded message");
    return 0;
  }
  check(image->width > 0 && image->height > 0 && image->pixels() <= limits.pixels,
        "an image within the limits");
  check(image->rgb.size() == static_cast<size_t>(image->pixels() * 3), "three bytes per pixel");
  const auto pixels = ImageProcessor::vit(8, 8)(*image, "fuzz");
  check(pixels.ok() && pixels->count() == 3 * 8 * 8, "an image becomes the input of a model");
  return 0;
}
