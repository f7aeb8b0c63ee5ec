// WebP by libwebp; the first frame of an animation by libwebpdemux.
#include <webp/decode.h>
#include <webp/demux.h>

#include <cstring>
#include <memory>

#include "images/decoders.h"

namespace makar {
namespace {

void drop_alpha(const uint8_t* rgba, Image& image) {
  for (size_t i = 0; i < static_cast<size_t>(image.pixels()); ++i)
    std::memcpy(&image.rgb[i * 3], rgba + i * 4, 3);
}

const char* reason(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "the file ends too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it uses a feature that libwebp does not support";
    case VP8_STATUS_OUT_OF_MEMORY:
      return "there is too little memory";
    default:
      return "its data is damaged";
  }
}

}  // namespace

Result<Image> decode_webp(ImageBytes bytes, const std::string& place, const ImageLimits& limits) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPBitstreamFeatures features{};
  const VP8StatusCode header = WebPGetFeatures(data, bytes.size(), &features);
  if (header != VP8_STATUS_OK) return error_at(place, "the WebP image cannot be read: {}", reason(header));
  Image image{features.width, features.height, {}};
  MAKAR_RETURN_IF_ERROR(check_size(image.width, image.height, place, limits));
  image.rgb.resize(static_cast<size_t>(image.pixels() * 3));
  if (features.has_animation) {
    const WebPData all{data, bytes.size()};
    const std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> decoder(
        WebPAnimDecoderNew(&all, nullptr), WebPAnimDecoderDelete);
    uint8_t* rgba = nullptr;
    int time = 0;
    if (!decoder || !WebPAnimDecoderGetNext(decoder.get(), &rgba, &time))
      return error_at(place, "the WebP image cannot be read: its first frame is damaged");
    drop_alpha(rgba, image);
    return image;
  }
  WebPDecoderConfig config;
  check(WebPInitDecoderConfig(&config), "libwebp differs from the version that makar was compiled with");
  config.output.colorspace = MODE_RGBA;
  const VP8StatusCode code = WebPDecode(data, bytes.size(), &config);
  if (code == VP8_STATUS_OK) drop_alpha(config.output.u.RGBA.rgba, image);
  WebPFreeDecBuffer(&config.output);
  if (code != VP8_STATUS_OK) return error_at(place, "the WebP image cannot be read: {}", reason(code));
  return image;
}

}  // namespace makar
