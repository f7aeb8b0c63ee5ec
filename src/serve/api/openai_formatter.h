// Common to chat completions and completions: the header fields of every answer, chunks, the end of a stream.
#pragma once
#include "serve/api/generation_request.h"

namespace makar {

// Replaces lower log-probabilities, in particular -infinity, which JSON cannot represent.
constexpr float kMinLogprob = -9999.0F;

class OpenAiFormatter : public AnswerFormatter {
 public:
  Dialect dialect() const override { return Dialect::kOpenAi; }
  std::string format_done(const Usage& usage) override;
  std::string format_error(const ApiError& error) override;

 protected:
  OpenAiFormatter(const RequestContext& c, const char* id_prefix, const char* object, bool include_usage,
                  bool logprobs);
  std::string chunk(Json choices, Json usage = nullptr) const;

  Json head_;
  const std::vector<std::string>& tokens_;
  bool include_usage_, logprobs_;
};

// Tokens with log-probabilities and alternatives, in the format of chat completions and responses.
Json logprobs_json(const std::vector<GeneratedToken>& generated, const std::vector<std::string>& tokens);

// Reads `stream` and `stream_options`. Returns whether the stream includes usage.
Result<bool> read_stream(const Json& body, GenerationRequest& request);

}  // namespace makar
