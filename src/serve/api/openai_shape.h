// What OpenAI's two routes of writing have in common: the head of every answer, chunks, the end of a stream.
#pragma once
#include "serve/api/ask.h"

namespace makar {

class OpenAiShape : public AnswerShape {
 public:
  Dialect dialect() const override { return Dialect::kOpenAi; }
  std::string done(const Usage& usage) override;
  std::string failed(const ApiError& error) override;

 protected:
  OpenAiShape(const AskContext& c, const char* id_prefix, const char* object, bool include_usage,
              bool logprobs);
  std::string chunk(Json choices, Json usage = nullptr) const;

  Json head_;
  const std::vector<std::string>& tokens_;
  bool include_usage_, logprobs_;
};

// Tokens with their log-probabilities and alternatives, as chats and responses tell them.
Json logprobs_json(const std::vector<Written>& written, const std::vector<std::string>& tokens);

// `model`, `stream` and `stream_options`; whether the stream tells its usage.
Result<bool> read_stream(const Json& body, Ask& ask);

}  // namespace makar
