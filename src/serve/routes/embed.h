// Embeddings of a request's `input`, for the APIs of OpenAI and Ollama.
#pragma once
#include <functional>

#include "serve/call.h"
#include "serve/serve_context.h"

namespace makar::routes {

// Computes the vectors and sends them in the format of `to_json`.
void embed(ServeContext& server, Call& call,
           std::function<Json(const std::vector<std::vector<float>>& vectors, int64_t tokens)> to_json);

}  // namespace makar::routes
