// Bodies of requests in every dialect: an error that names a place, or a GenerationRequest within its bounds
// whose answer can be written.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "llm/tool_calls.h"
#include "serve/api/fields.h"
#include "serve/api/generation_request.h"
#include "serve/api/ranking.h"
#include "serve/api/response_store.h"
#include "serve/page/look.h"
#include "target.h"

FUZZ_TARGET(serve_api) {
  using namespace makar;
  const std::string text(reinterpret_cast<const char*>(data), size);
  static const std::vector<std::string> tokens = {"a", "\xff", "<|end|>"};
  const RequestContext context{"model", {}, tokens, 1, "id", std::make_shared<ResponseStore>(4)};
  const auto body = read_body(text);
  if (body.ok()) {
    for (const auto reader : {read_chat_completion, read_completion, read_response, read_message,
                              read_ollama_chat, read_ollama_generate}) {
      auto request = reader(*body, context);
      if (!request.ok()) {
        if (request.error().place.empty() || request.error().message.empty()) std::abort();
        if (!parse_json(error_body(Dialect::kOpenAi, ApiError::of(request.error())), "error").ok())
          std::abort();
        continue;
      }
      if (request->options.answers < 1 || request->options.answers > 128 ||
          request->options.max_new_tokens > (1 << 20))
        std::abort();
      if (!request->chat && request->prompts.empty()) std::abort();
      CompleteAnswer answer;
      answer.text = text.substr(0, 100);
      answer.tokens = {{0, {}}, {1, {-1, 0, {{2, -2}, {99, -3}}}}};
      if (!parse_json(request->formatter->format_complete({answer}, {1, 2, {}}), "answer").ok()) std::abort();
      request->formatter->format_delta(0, answer);
    }
  }
  if (body.ok()) {
    const auto ranks = read_rerank(*body);
    if (ranks.ok()) {
      const std::vector<double> scores(ranks->documents.size(), 0.5);
      if (!parse_json(dump(rerank_json(*ranks, scores, "m", "id", 1)), "answer").ok()) std::abort();
    }
    const auto moderation = read_moderation(*body);
    if (moderation.ok() && moderation->empty()) std::abort();
    const auto look = read_look(*body);
    if (look.ok() && (look->top < 1 || look->top > kMaxLookTop || look->prompt.size() > (size_t{64} << 10)))
      std::abort();
    if (!look.ok() && look.error().place.empty()) std::abort();
  }
  // Tool calls: wherever the text is split, no byte outside of a call is lost.
  ToolCallReader at_once({"f", "name"}, true), byte_by_byte({"f", "name"}, true);
  TextWithCalls first = at_once.push(text), remainder = at_once.finish();
  std::string pieces;
  size_t calls = 0;
  for (const char c : text) {
    const TextWithCalls piece = byte_by_byte.push(std::string(1, c));
    pieces += piece.text, calls += piece.calls.size();
  }
  const TextWithCalls last = byte_by_byte.finish();
  if (pieces + last.text != first.text + remainder.text) std::abort();
  if (calls + last.calls.size() != first.calls.size() + remainder.calls.size()) std::abort();
  return 0;
}
