// A model under evaluation: three calls, each for a batch. Implemented by the engine (engine_model.h) and by
// a client of an HTTP server (url_model.h); tests compute the results by a formula.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "llm/loglikelihood.h"

namespace makar {

struct LikelihoodRequest {
  std::string context, continuation;
  Json messages = {};  // not null: the context is this conversation, followed by the generation prompt
};

struct UntilRequest {
  std::string prompt;
  std::vector<std::string> until;  // strings that end the answer; not part of it
  int64_t max_tokens = 256;
  double temperature = 0, top_p = 1;
  uint64_t seed = 0;
  Json messages = {};  // not null: the prompt is this conversation
};

struct UntilAnswer {
  std::string text;
  bool ended = false;  // at an end token or a stop string, not at max_tokens
};

class EvalModel {
 public:
  virtual ~EvalModel() = default;
  // One result per request, in order. A result does not depend on the other requests of its batch.
  virtual std::vector<Result<Loglikelihood>> loglikelihood(std::span<const LikelihoodRequest> requests) = 0;
  virtual std::vector<Result<Loglikelihood>> loglikelihood_rolling(std::span<const std::string> texts) = 0;
  virtual std::vector<Result<std::string>> generate_until(std::span<const UntilRequest> requests) = 0;
  // Like generate_until, and reports how each answer ended. The default, for models that cannot tell, marks
  // only empty answers as ended.
  virtual std::vector<Result<UntilAnswer>> generate_block(std::span<const UntilRequest> requests);
  // Everything that changes results; part of the keys of the cache and of the results file.
  virtual Json identity() const = 0;
};

}  // namespace makar
