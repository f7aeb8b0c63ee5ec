#include "serve/api/openai_formatter.h"

#include <algorithm>

#include "serve/api/fields.h"

namespace makar {
namespace {

Json token_json(int64_t id, float logprob, const std::vector<std::string>& tokens) {
  const std::string& text = token_at(tokens, id);
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", text}, {"logprob", std::max(logprob, kMinLogprob)}, {"bytes", std::move(bytes)}};
}

}  // namespace

Json logprobs_json(const std::vector<GeneratedToken>& generated, const std::vector<std::string>& tokens) {
  Json out = Json::array();
  for (const GeneratedToken& token : generated) {
    Json one = token_json(token.id, token.logprobs.chosen, tokens);
    Json top = Json::array();
    for (const TokenLogprob& t : token.logprobs.top) top.push_back(token_json(t.id, t.logprob, tokens));
    one["top_logprobs"] = std::move(top);
    out.push_back(std::move(one));
  }
  return out;
}

OpenAiFormatter::OpenAiFormatter(const RequestContext& c, const char* id_prefix, const char* object,
                                 bool include_usage, bool logprobs)
    : head_({{"id", id_prefix + c.id},
             {"object", object},
             {"created", c.created},
             {"model", c.model},
             {"system_fingerprint", nullptr}}),
      tokens_(c.tokens),
      include_usage_(include_usage),
      logprobs_(logprobs) {}

std::string OpenAiFormatter::format_done(const Usage& usage) {
  return (include_usage_ ? chunk(Json::array(), usage_json(usage)) : "") + "data: [DONE]\n\n";
}

std::string OpenAiFormatter::format_error(const ApiError& error) {
  return "data: " + error_body(dialect(), error) + "\n\ndata: [DONE]\n\n";
}

std::string OpenAiFormatter::chunk(Json choices, Json usage) const {
  Json out = head_;
  out["choices"] = std::move(choices);
  if (include_usage_) out["usage"] = std::move(usage);
  return sse(out);
}

Result<bool> read_stream(const Json& body, GenerationRequest& request) {
  MAKAR_TRY(request.stream, flag_field(body, "stream"));
  MAKAR_TRY(const Json options, object_field(body, "stream_options"));
  if (!options.is_object()) return false;
  if (!request.stream) return error_at("stream_options", "requires stream: true");
  return flag_field(options, "include_usage");
}

}  // namespace makar
