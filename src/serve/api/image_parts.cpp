#include "serve/api/image_parts.h"

#include "base/quote.h"
#include "serve/api/fields.h"
#include "text/base64.h"

namespace makar {
namespace {

constexpr size_t kMaxImages = 16;

// "data:image/png;base64,iVBOR..." -> bytes
Result<std::string> read_data_url(std::string_view url, const std::string& place) {
  if (!url.starts_with("data:")) {
    const std::string_view start = url.substr(0, 60);
    return error_of(Error::Kind::kUnsupported, place,
                    "this server does not fetch images, got {}; send the image itself as a data URL "
                    "(data:image/png;base64,...)",
                    quote(std::string(start)));
  }
  const size_t comma = url.find(',');
  if (comma == std::string_view::npos || !url.substr(0, comma).ends_with(";base64"))
    return error_at(place, "expected data:image/png;base64,... or another image type");
  auto bytes = decode_base64(url.substr(comma + 1));
  if (!bytes || bytes->empty()) return error_at(place, "is not valid base64 after the comma");
  return std::move(*bytes);
}

Json image_part(const std::string& url) { return {{"type", "image_url"}, {"image_url", {{"url", url}}}}; }

}  // namespace

bool is_image_part(const Json& part) {
  return part.is_object() && (part.value("type", Json()) == Json("image_url") ||
                              part.value("type", Json()) == Json("input_image"));
}

Result<Json> read_image_part(const Json& part, const std::string& place, std::vector<RequestImage>& images) {
  if (images.size() >= kMaxImages)
    return error_of(Error::Kind::kLimit, place, "at most {} images are allowed in a request", kMaxImages);
  const Json image_url = part.value("image_url", Json());
  const std::string where = place + (image_url.is_object() ? ".image_url.url" : ".image_url");
  const Json url = image_url.is_object() ? image_url.value("url", Json()) : image_url;
  if (!url.is_string()) return error_at(where, "expected a data URL, found {}", kind_of(url));
  MAKAR_TRY(std::string bytes, read_data_url(url.get_ref<const std::string&>(), where));
  images.push_back({std::move(bytes), where});
  return Json{{"type", "image"}, {"index", images.size() - 1}};
}

Result<Json> anthropic_image(const Json& block, const std::string& place) {
  const Json source = block.value("source", Json());
  if (!source.is_object())
    return error_at(place + ".source", "expected an object, found {}", kind_of(source));
  MAKAR_TRY(const std::string type, text_field(source, "type"));
  if (type == "url")
    return error_of(Error::Kind::kUnsupported, place + ".source.type",
                    "this server does not fetch images; send the image itself as base64");
  if (type != "base64") return error_at(place + ".source.type", "expected base64, got {}", quote(type));
  MAKAR_TRY(const std::string data, text_field(source, "data"));
  if (data.empty()) return error_at(place + ".source.data", "is missing");
  return image_part("data:;base64," + data);
}

Status add_ollama_images(Json& message, const std::string& place) {
  if (!message.is_object() || !message.contains("images")) return Done{};
  const Json images = message["images"];
  message.erase("images");
  if (images.is_null() || (images.is_array() && images.empty())) return Done{};
  if (!images.is_array()) return error_at(place + "images", "expected a list, found {}", kind_of(images));
  Json parts = Json::array();
  for (size_t i = 0; i < images.size(); ++i) {
    if (!images[i].is_string()) return error_at(fmt::format("{}images[{}]", place, i), "expected base64");
    const auto& data = images[i].get_ref<const std::string&>();
    parts.push_back(image_part(data.starts_with("data:") ? data : "data:;base64," + data));
  }
  const Json content = message.value("content", Json(""));
  if (content.is_string() && !content.get_ref<const std::string&>().empty())
    parts.push_back({{"type", "text"}, {"text", content}});
  message["content"] = std::move(parts);
  return Done{};
}

}  // namespace makar
