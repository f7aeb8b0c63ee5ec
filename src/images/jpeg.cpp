// JPEG by libjpeg-turbo. The library reports errors by a jump, so only plain C objects live in the frame that
// it leaves.
#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstdio>

#include "images/decoders.h"

namespace makar {
namespace {

struct JpegError {
  jpeg_error_mgr base;
  jmp_buf jump;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_jpeg_error(j_common_ptr info) {
  auto* error = reinterpret_cast<JpegError*>(info->err);
  info->err->format_message(info, error->text);
  longjmp(error->jump, 1);
}

// Damaged data causes warnings and still decodes; a file that ends too early is an error here.
void on_jpeg_warning(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) on_jpeg_error(info);
}

// A progressive file can repeat scans of the whole image; real ones have about ten.
void on_jpeg_progress(j_common_ptr info) {
  constexpr int kMaxScans = 100;
  if (!info->is_decompressor || reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans)
    return;
  auto* error = reinterpret_cast<JpegError*>(info->err);
  std::snprintf(error->text, sizeof(error->text), "it has more than %d scans", kMaxScans);
  longjmp(error->jump, 1);
}

// read_header() and read_rows() return false on failure; the cause is in error.text.
bool read_header(jpeg_decompress_struct& info, JpegError& error, ImageBytes bytes) {
  if (setjmp(error.jump)) return false;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&info, TRUE);
  return true;
}

bool read_rows(jpeg_decompress_struct& info, JpegError& error, uint8_t* out, size_t row_bytes) {
  if (setjmp(error.jump)) return false;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = out + info.output_scanline * row_bytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

// Files with four channels hold inverted values. Converts them as Pillow does, with its rounding.
void cmyk_to_rgb(const std::vector<uint8_t>& cmyk, std::vector<uint8_t>& rgb) {
  for (size_t i = 0; i < cmyk.size() / 4; ++i) {
    const int white = cmyk[i * 4 + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int product = (255 - cmyk[i * 4 + c]) * white + 128;
      rgb[i * 3 + c] = static_cast<uint8_t>(std::max(white - (((product >> 8) + product) >> 8), 0));
    }
  }
}

struct Decompressor {
  Decompressor() {
    info.err = jpeg_std_error(&error.base);
    error.base.error_exit = on_jpeg_error;
    error.base.emit_message = on_jpeg_warning;
    jpeg_create_decompress(&info);
    progress.progress_monitor = on_jpeg_progress;
    info.progress = &progress;
  }
  ~Decompressor() { jpeg_destroy_decompress(&info); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  jpeg_decompress_struct info{};
  JpegError error{};
  jpeg_progress_mgr progress{};
};

}  // namespace

Result<Image> decode_jpeg(ImageBytes bytes, const std::string& place, const ImageLimits& limits) {
  Decompressor d;
  const auto unreadable = [&] { return error_at(place, "the JPEG image cannot be read: {}", d.error.text); };
  if (!read_header(d.info, d.error, bytes)) return unreadable();
  Image image{d.info.image_width, d.info.image_height, {}};
  MAKAR_RETURN_IF_ERROR(check_size(image.width, image.height, place, limits));
  const bool is_cmyk = d.info.num_components == 4;
  if (!is_cmyk && d.info.num_components != 1 && d.info.num_components != 3)
    return error_of(Error::Kind::kUnsupported, place,
                    "the JPEG image has {} channels; grey, RGB and CMYK are supported",
                    d.info.num_components);
  d.info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  const auto pixels = static_cast<size_t>(image.pixels());
  image.rgb.resize(pixels * 3);
  std::vector<uint8_t> cmyk(is_cmyk ? pixels * 4 : 0);
  if (!read_rows(d.info, d.error, is_cmyk ? cmyk.data() : image.rgb.data(),
                 static_cast<size_t>(image.width) * (is_cmyk ? 4 : 3)))
    return unreadable();
  if (is_cmyk) cmyk_to_rgb(cmyk, image.rgb);
  return image;
}

}  // namespace makar
