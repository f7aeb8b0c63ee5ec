// Images in requests: base64 data, never fetched from a URL.
#pragma once
#include "serve/api/generation_request.h"

namespace makar {

// Reads an OpenAI part {"type": "image_url", "image_url": {"url": "data:..."}} and appends its bytes. Returns
// the part for the chat template: {"type": "image", "index": index}.
Result<Json> read_image_part(const Json& part, const std::string& place, std::vector<RequestImage>& images);

bool is_image_part(const Json& part);

// Convert images of the other APIs to OpenAI parts.
Result<Json> anthropic_image(const Json& block, const std::string& place);  // {"type": "image", "source"}
Status add_ollama_images(Json& message, const std::string& place);          // "images" of a message

}  // namespace makar
