#include "images/image.h"

#include <string_view>

#include "base/file.h"
#include "images/decoders.h"

namespace makar {

Status check_size(int64_t width, int64_t height, const std::string& place, const ImageLimits& limits) {
  if (width < 1 || height < 1) return error_at(place, "the image has no pixels: {} x {}", width, height);
  if (width > limits.pixels / height)
    return error_of(Error::Kind::kLimit, place,
                    "the image has {} x {} pixels, at most {} are allowed; make it smaller", width, height,
                    limits.pixels);
  return Done{};
}

Result<Image> decode_image(ImageBytes bytes, const std::string& place, const ImageLimits& limits) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size > limits.bytes)
    return error_of(Error::Kind::kLimit, place,
                    "the image file has {} bytes, at most {} are allowed; make it smaller", size,
                    limits.bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xff\xd8\xff")) return decode_jpeg(bytes, place, limits);
  if (text.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(bytes, place, limits);
  if (text.starts_with("RIFF") && text.substr(0, 12).ends_with("WEBP"))
    return decode_webp(bytes, place, limits);
  return error_of(Error::Kind::kUnsupported, place,
                  "is not a JPEG, PNG or WebP image; convert it to one of them");
}

Result<Image> read_image(const std::string& path, const ImageLimits& limits) {
  MAKAR_TRY(const auto map, MappedFile::open(path));
  return decode_image(map->bytes(), path, limits);
}

}  // namespace makar
