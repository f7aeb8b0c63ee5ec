// PNG by libpng, without its corrections for gamma and colour profiles, as Pillow reads it. The library
// reports errors by a jump, so only plain C objects live in the frame that it leaves.
#include <png.h>

#include <cstdio>
#include <cstring>

#include "images/decoders.h"

namespace makar {
namespace {

struct PngError {
  char text[256];
};

struct PngSource {
  const std::byte* data;
  size_t left;
};

[[noreturn]] void on_png_error(png_structp png, png_const_charp message) {
  std::snprintf(static_cast<PngError*>(png_get_error_ptr(png))->text, sizeof(PngError), "%s", message);
  png_longjmp(png, 1);
}
void on_png_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep out, size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->left) png_error(png, "the file ends too early");
  std::memcpy(out, source->data, count);
  source->data += count, source->left -= count;
}

struct PngReader {
  explicit PngReader(ImageBytes bytes) : source{bytes.data(), bytes.size()} {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &error, on_png_error, on_png_warning);
    check(png, "libpng differs from the version that makar was compiled with");
    info = png_create_info_struct(png);
    check(info, "libpng cannot allocate its header");
  }
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  PngError error{};
  PngSource source;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

bool read_header(PngReader& r) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  png_set_read_fn(r.png, &r.source, read_bytes);
  // The caller checks width and height; these limits bound the other chunks.
  png_set_user_limits(r.png, 0x7fffffff, 0x7fffffff);
  png_set_chunk_malloc_max(r.png, 1 << 22);
  png_set_chunk_cache_max(r.png, 64);
  png_read_info(r.png, r.info);
  return true;
}

// 16-bit grey stays 16-bit; everything else becomes 8-bit RGB.
bool read_rows(PngReader& r, bool is_grey16, uint8_t* out, size_t row_bytes, png_uint_32 height) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  if (!is_grey16) {
    png_set_strip_16(r.png);
    png_set_palette_to_rgb(r.png);
    png_set_expand_gray_1_2_4_to_8(r.png);
    png_set_strip_alpha(r.png);
    png_set_gray_to_rgb(r.png);
  }
  const int passes = png_set_interlace_handling(r.png);
  png_read_update_info(r.png, r.info);
  if (png_get_rowbytes(r.png, r.info) != row_bytes) png_error(r.png, "its rows have an unexpected size");
  for (int pass = 0; pass < passes; ++pass)
    for (png_uint_32 y = 0; y < height; ++y) png_read_row(r.png, out + y * row_bytes, nullptr);
  png_read_end(r.png, nullptr);
  return true;
}

}  // namespace

Result<Image> decode_png(ImageBytes bytes, const std::string& place, const ImageLimits& limits) {
  PngReader r(bytes);
  const auto unreadable = [&] { return error_at(place, "the PNG image cannot be read: {}", r.error.text); };
  if (!read_header(r)) return unreadable();
  const png_uint_32 height = png_get_image_height(r.png, r.info);
  Image image{png_get_image_width(r.png, r.info), height, {}};
  MAKAR_RETURN_IF_ERROR(check_size(image.width, image.height, place, limits));
  const bool is_grey16 =
      png_get_bit_depth(r.png, r.info) == 16 && png_get_color_type(r.png, r.info) == PNG_COLOR_TYPE_GRAY;
  const auto pixels = static_cast<size_t>(image.pixels());
  image.rgb.resize(pixels * 3);
  std::vector<uint8_t> grey16(is_grey16 ? pixels * 2 : 0);
  if (!read_rows(r, is_grey16, is_grey16 ? grey16.data() : image.rgb.data(),
                 static_cast<size_t>(image.width) * (is_grey16 ? 2 : 3), height))
    return unreadable();
  // Pillow limits 16-bit grey to 255 instead of scaling it.
  for (size_t i = 0; is_grey16 && i < pixels; ++i)
    std::memset(&image.rgb[i * 3], grey16[i * 2] ? 255 : grey16[i * 2 + 1], 3);
  return image;
}

}  // namespace makar
