// Pictures in requests: base64 data, never fetched from a URL.
#pragma once
#include "serve/api/generation_request.h"

namespace makar {

// Reads an OpenAI part {"type": "image_url", "image_url": {"url": "data:..."}} and appends its bytes. Returns
// the part for the chat template: {"type": "image", "picture": index}.
Result<Json> read_picture(const Json& part, const std::string& place, std::vector<RequestPicture>& pictures);

bool is_picture_part(const Json& part);

// OpenAI parts for the other APIs.
Result<Json> anthropic_picture(const Json& block, const std::string& place);  // {"type": "image", "source"}
Status add_ollama_pictures(Json& message, const std::string& place);          // "images" of a message

}  // namespace makar
