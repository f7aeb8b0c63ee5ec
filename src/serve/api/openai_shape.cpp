#include "serve/api/openai_shape.h"

#include "serve/api/fields.h"

namespace makar {

OpenAiShape::OpenAiShape(const AskContext& c, const char* id_prefix, const char* object, bool include_usage,
                         bool logprobs)
    : head_({{"id", id_prefix + c.id},
             {"object", object},
             {"created", c.created},
             {"model", c.model},
             {"system_fingerprint", nullptr}}),
      tokens_(c.tokens),
      include_usage_(include_usage),
      logprobs_(logprobs) {}

std::string OpenAiShape::done(const Usage& usage) {
  return (include_usage_ ? chunk(Json::array(), usage_json(usage)) : "") + "data: [DONE]\n\n";
}

std::string OpenAiShape::failed(const ApiError& error) {
  return "data: " + error_body(dialect(), error) + "\n\ndata: [DONE]\n\n";
}

std::string OpenAiShape::chunk(Json choices, Json usage) const {
  Json out = head_;
  out["choices"] = std::move(choices);
  if (include_usage_) out["usage"] = std::move(usage);
  return sse(out);
}

Result<bool> read_stream(const Json& body, Ask& ask) {
  MAKAR_TRY(ask.stream, flag_field(body, "stream"));
  MAKAR_TRY(const Json options, object_field(body, "stream_options"));
  if (!options.is_object()) return false;
  if (!ask.stream) return error_at("stream_options", "is for requests with stream: true");
  return flag_field(options, "include_usage");
}

}  // namespace makar
