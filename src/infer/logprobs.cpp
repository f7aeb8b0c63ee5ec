#include "infer/logprobs.h"

#include "infer/samplers/ranking.h"
#include "infer/samplers/step.h"
#include "kernels/host_math.h"

namespace makar {
namespace {

Status check_logits(std::span<const float> logits, const Extremes& e) {
  if (!e.broken && e.low <= e.high) return Done{};
  return error_of(e.broken ? Error::Kind::kIo : Error::Kind::kInvalid, "logits",
                  "{}; the {} tokens have no probabilities",
                  e.broken ? "NaN or +infinity, the model's weights are broken"
                           : "all are -infinity, the constraints exclude every token",
                  logits.size());
}

}  // namespace

Result<Logprobs> logprobs(std::span<const float> logits, int64_t token, int64_t top) {
  const Extremes e = extremes(logits);
  MAKAR_RETURN_IF_ERROR(check_logits(logits, e));
  if (token < 0 || static_cast<size_t>(token) >= logits.size())
    return error_at("logprobs", "token {} is outside of the vocabulary of {}", token, logits.size());
  const float lse = kernels::log_sum_exp(logits.data(), static_cast<int64_t>(logits.size()));
  const float token_logit = logits[static_cast<size_t>(token)];
  Logprobs out;
  out.chosen = token_logit - lse;
  for (size_t i = 0; i < logits.size(); ++i)
    out.rank +=
        logits[i] > token_logit || (logits[i] == token_logit && i < static_cast<size_t>(token)) ? 1 : 0;
  if (top > 0) {
    Candidates c;
    c.reset(logits, e);
    for (const size_t i : largest(c.logits(), static_cast<size_t>(top)))
      out.top.push_back({c.id(i), c.logits()[i] - lse});
  }
  return out;
}

Result<double> entropy(std::span<const float> logits) {
  const Extremes e = extremes(logits);
  MAKAR_RETURN_IF_ERROR(check_logits(logits, e));
  Candidates c;
  c.reset(logits, e);
  return c.entropy();
}

}  // namespace makar
