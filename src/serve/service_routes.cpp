// The route table.
#include "serve/service.h"

namespace makar {

const std::vector<Service::Route>& Service::routes() {
  using S = Service;
  constexpr Dialect kAnthropic = Dialect::kAnthropic, kOllama = Dialect::kOllama;
  static const std::vector<Route> table = {
      {"GET", "/health", Kind::kOpen, &S::health},
      {"GET", "/ready", Kind::kOpen, &S::ready},
      {"GET", "/metrics", Kind::kAtOnce, &S::counters},
      {"GET", "/", Kind::kOpen, &S::page_files},
      {"GET", "/app.js", Kind::kOpen, &S::page_files},
      {"GET", "/app.css", Kind::kOpen, &S::page_files},
      {"GET", "/pdf.js", Kind::kOpen, &S::page_files},
      {"GET", "/makar/engine", Kind::kAtOnce, &S::engine},
      {"POST", "/makar/look", Kind::kModel, &S::look},
      {"GET", "/makar/", Kind::kPage, &S::page},
      {"POST", "/makar/", Kind::kPage, &S::page},
      {"DELETE", "/makar/", Kind::kPage, &S::page},
      {"GET", "/v1/models", Kind::kAtOnce, &S::models},
      {"GET", "/v1/models/", Kind::kAtOnce, &S::models},
      {"POST", "/v1/chat/completions", Kind::kWrite, nullptr, read_chat_completion},
      {"POST", "/v1/completions", Kind::kWrite, nullptr, read_completion},
      {"POST", "/v1/responses", Kind::kWrite, nullptr, read_response},
      {"GET", "/v1/responses/", Kind::kWorker, &S::kept_response},
      {"DELETE", "/v1/responses/", Kind::kWorker, &S::forget_response},
      {"POST", "/v1/embeddings", Kind::kModel, &S::embeddings},
      {"POST", "/v1/files", Kind::kWorker, &S::add_file},
      {"GET", "/v1/files", Kind::kWorker, &S::files},
      {"GET", "/v1/files/", Kind::kWorker, &S::files},
      {"DELETE", "/v1/files/", Kind::kWorker, &S::files},
      {"POST", "/v1/batches", Kind::kWorker, &S::add_batch},
      {"GET", "/v1/batches", Kind::kWorker, &S::batches},
      {"GET", "/v1/batches/", Kind::kWorker, &S::batches},
      {"POST", "/v1/batches/", Kind::kWorker, &S::batches},
      {"POST", "/v1/rerank", Kind::kModel, &S::rerank},
      {"POST", "/rerank", Kind::kModel, &S::rerank},
      {"POST", "/v1/moderations", Kind::kClass, &S::moderations},
      {"POST", "/tokenize", Kind::kModel, &S::tokenize},
      {"POST", "/detokenize", Kind::kModel, &S::detokenize},
      {"POST", "/score", Kind::kModel, &S::score},
      {"POST", "/v1/messages", Kind::kWrite, nullptr, read_message, kAnthropic},
      {"POST", "/v1/messages/count_tokens", Kind::kModel, &S::count_tokens, nullptr, kAnthropic},
      {"GET", "/api/tags", Kind::kWorker, &S::tags, nullptr, kOllama},
      {"GET", "/api/ps", Kind::kWorker, &S::loaded_tags, nullptr, kOllama},
      {"GET", "/api/version", Kind::kAtOnce, &S::version, nullptr, kOllama},
      {"POST", "/api/show", Kind::kModel, &S::show, nullptr, kOllama},
      {"POST", "/api/chat", Kind::kWrite, nullptr, read_ollama_chat, kOllama},
      {"POST", "/api/generate", Kind::kWrite, nullptr, read_ollama_generate, kOllama},
      {"POST", "/api/embed", Kind::kModel, &S::ollama_embed, nullptr, kOllama},
      {"POST", "/api/embeddings", Kind::kModel, &S::ollama_embed, nullptr, kOllama},
  };
  return table;
}

const Service::Route* Service::find(const HttpRequest& request, bool& path_known) {
  path_known = false;
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  for (const Route& route : routes()) {
    const std::string_view path = route.path;
    const bool below = path.size() > 1 && path.ends_with('/');
    const bool match = below ? request.path.starts_with(path) : request.path == path;
    if (!match) continue;
    path_known = true;
    if (method == route.method) return &route;
  }
  return nullptr;
}

}  // namespace makar
