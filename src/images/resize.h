// Pillow's resize of 8-bit images, with the same bytes: a filter widened by the scale, in fixed point.
#pragma once
#include "images/image.h"

namespace makar {

enum class ResizeFilter { kNearest, kLanczos, kBilinear, kBicubic, kBox, kHamming };  // Pillow's numbers

Image resized(const Image& image, int64_t width, int64_t height, ResizeFilter filter);
// The centre of an image; black where the image is smaller.
Image center_cropped(const Image& image, int64_t width, int64_t height);

}  // namespace makar
