// A model behind an OpenAI-compatible server: /v1/completions, and /v1/chat/completions for conversations.
#pragma once
#include "eval/model.h"
#include "hub/http_client.h"

namespace makar {

struct UrlModelOptions {
  std::string url;       // http://host:port, with or without /v1
  std::string model;     // the model's name in requests
  std::string token;     // API key
  int64_t parallel = 8;  // requests in flight
};

// Log-likelihoods need `echo` with `logprobs` (makar, llama.cpp and vLLM have it); they exist for texts only,
// not for conversations. A request that fails with status 429 or 5xx is tried again, at most three times.
class UrlModel : public EvalModel {
 public:
  explicit UrlModel(UrlModelOptions options);
  std::vector<Result<Loglikelihood>> loglikelihood(std::span<const LikelihoodRequest> requests) override;
  std::vector<Result<Loglikelihood>> loglikelihood_rolling(std::span<const std::string> texts) override;
  std::vector<Result<std::string>> generate_until(std::span<const UntilRequest> requests) override;
  Json identity() const override { return {{"model", o_.model}, {"url", o_.url}}; }

 private:
  Result<Json> post(const std::string& route, Json body) const;
  Result<Loglikelihood> score(const std::string& context, const std::string& continuation) const;
  Result<std::string> generate(const UntilRequest& request) const;
  UrlModelOptions o_;
};

// The log-likelihood of the text after `context` characters, from the answer to a request with echo and
// logprobs.
Result<Loglikelihood> echoed_loglikelihood(const Json& answer, size_t context, const std::string& place);

}  // namespace makar
