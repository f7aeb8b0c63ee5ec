#include "serve/routes/table.h"

#include "serve/routes/handlers.h"

namespace makar {

const std::vector<Route>& route_table() {
  using namespace routes;
  using Kind = RouteKind;
  constexpr Dialect kAnthropic = Dialect::kAnthropic, kOllama = Dialect::kOllama;
  static const std::vector<Route> table = {
      {"GET", "/health", Kind::kOpen, health},
      {"GET", "/ready", Kind::kOpen, ready},
      {"GET", "/metrics", Kind::kImmediate, metrics},
      {"GET", "/", Kind::kOpen, page_asset},
      {"GET", "/app.js", Kind::kOpen, page_asset},
      {"GET", "/app.css", Kind::kOpen, page_asset},
      {"GET", "/pdf.js", Kind::kOpen, page_asset},
      {"GET", "/makar/engine", Kind::kImmediate, engine_state},
      {"POST", "/makar/look", Kind::kModel, look},
      {"GET", "/makar/", Kind::kPage, page_data},
      {"POST", "/makar/", Kind::kPage, page_data},
      {"DELETE", "/makar/", Kind::kPage, page_data},
      {"GET", "/v1/models", Kind::kImmediate, list_models},
      {"GET", "/v1/models/", Kind::kImmediate, list_models},
      {"DELETE", "/v1/models/", Kind::kWorker, delete_model},
      {"POST", "/v1/chat/completions", Kind::kModel, chat_completion},
      {"POST", "/v1/completions", Kind::kModel, completion},
      {"POST", "/v1/responses", Kind::kModel, create_response},
      {"GET", "/v1/responses/", Kind::kWorker, stored_response},
      {"DELETE", "/v1/responses/", Kind::kWorker, delete_response},
      {"POST", "/v1/embeddings", Kind::kModel, embeddings},
      {"POST", "/v1/files", Kind::kWorker, upload_file},
      {"GET", "/v1/files", Kind::kWorker, files},
      {"GET", "/v1/files/", Kind::kWorker, files},
      {"DELETE", "/v1/files/", Kind::kWorker, files},
      {"POST", "/v1/batches", Kind::kWorker, create_batch},
      {"GET", "/v1/batches", Kind::kWorker, batches},
      {"GET", "/v1/batches/", Kind::kWorker, batches},
      {"POST", "/v1/batches/", Kind::kWorker, batches},
      {"POST", "/v1/fine_tuning/jobs", Kind::kWorker, create_tuning_job},
      {"GET", "/v1/fine_tuning/jobs", Kind::kWorker, tuning_jobs},
      {"GET", "/v1/fine_tuning/jobs/", Kind::kWorker, tuning_jobs},
      {"POST", "/v1/fine_tuning/jobs/", Kind::kWorker, tuning_jobs},
      {"POST", "/v1/rerank", Kind::kModel, rerank},
      {"POST", "/rerank", Kind::kModel, rerank},
      {"POST", "/v1/moderations", Kind::kClassifier, moderations},
      {"POST", "/tokenize", Kind::kModel, tokenize},
      {"POST", "/detokenize", Kind::kModel, detokenize},
      {"POST", "/score", Kind::kModel, score},
      {"POST", "/v1/messages", Kind::kModel, message, kAnthropic},
      {"POST", "/v1/messages/count_tokens", Kind::kModel, count_message_tokens, kAnthropic},
      {"GET", "/api/tags", Kind::kWorker, ollama_tags, kOllama},
      {"GET", "/api/ps", Kind::kWorker, ollama_loaded, kOllama},
      {"GET", "/api/version", Kind::kImmediate, ollama_version, kOllama},
      {"POST", "/api/show", Kind::kModel, ollama_show, kOllama},
      {"POST", "/api/chat", Kind::kModel, ollama_chat, kOllama},
      {"POST", "/api/generate", Kind::kModel, ollama_generate, kOllama},
      {"POST", "/api/embed", Kind::kModel, ollama_embed, kOllama},
      {"POST", "/api/embeddings", Kind::kModel, ollama_embed, kOllama},
  };
  return table;
}

const Route* find_route(const HttpRequest& request, bool& path_known) {
  path_known = false;
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  for (const Route& route : route_table()) {
    const std::string_view path = route.path;
    const bool is_prefix = path.size() > 1 && path.ends_with('/');
    const bool match = is_prefix ? request.path.starts_with(path) : request.path == path;
    if (!match) continue;
    path_known = true;
    if (method == route.method) return &route;
  }
  return nullptr;
}

}  // namespace makar
