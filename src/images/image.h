// Decodes JPEG, PNG and WebP files to 8-bit RGB, with the pixels that Pillow's convert("RGB") gives: alpha is
// dropped, the first frame of an animation is read, and the orientation in EXIF data is not applied.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace makar {

struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]

  int64_t pixels() const { return width * height; }
};

// Decoding allocates at most about 12 bytes per pixel: 3 for the result, and what a progressive JPEG or a
// WebP canvas needs.
struct ImageLimits {
  int64_t pixels = int64_t{1} << 26;
  int64_t bytes = int64_t{1} << 28;  // of the file
};

// `place` names the image in errors.
Result<Image> decode_image(std::span<const std::byte> bytes, const std::string& place,
                           const ImageLimits& limits = {});
Result<Image> read_image(const std::string& path, const ImageLimits& limits = {});

}  // namespace makar
