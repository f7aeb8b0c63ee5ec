// Any bytes as preprocessor_config.json: an Error, or steps that an image can go through.
#include "images/processor.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(images_processor) {
  const auto config = Config::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!config.ok()) return 0;
  auto steps = ImageProcessor::parse(*config);
  if (!steps.ok()) {
    check(!steps.error().message.empty() && steps.error().text().size() < 2000,
          "an error has a bounded message");
    return 0;
  }
  if (steps->width > 64 || steps->height > 64 || steps->shortest > 64 || steps->crop_width > 64 ||
      steps->crop_height > 64)
    return 0;  // valid, but slow to run
  const Image image{5, 3, std::vector<uint8_t>(45, 77)};
  const auto pixels = (*steps)(image, "fuzz");
  check(pixels.ok(), "a small image is accepted");
  if (steps->fixed_size())
    check(pixels->dim(1) == steps->output_height() && pixels->dim(2) == steps->output_width(),
          "the output has the size that the steps promise");
  return 0;
}
