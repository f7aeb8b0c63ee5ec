// One function per file format; decode_image() selects among them by the first bytes.
#pragma once
#include "images/image.h"

namespace makar {

using ImageBytes = std::span<const std::byte>;

Result<Image> decode_jpeg(ImageBytes bytes, const std::string& place, const ImageLimits& limits);
Result<Image> decode_png(ImageBytes bytes, const std::string& place, const ImageLimits& limits);
Result<Image> decode_webp(ImageBytes bytes, const std::string& place, const ImageLimits& limits);

// Checks the size that a header states, before memory is allocated.
Status check_size(int64_t width, int64_t height, const std::string& place, const ImageLimits& limits);

}  // namespace makar
