// Choosing the next token from logits: a chain of small samplers in one fixed order.
//
// On the logits of the whole vocabulary:
//   1. logit bias               2. repetition penalty       3. presence and frequency penalties
//   4. DRY                      5. no-repeat n-gram         6. no end token before min_tokens
// then the best token if the temperature is 0 (greedy), or on the remaining candidates:
//   7. top-k    8. temperature  9. top-p   10. min-p        11. typical
//  12. epsilon 13. eta         14. XTC     15. mirostat     and sampling.
// Each truncation works on probabilities renormalised over the tokens that remain, and keeps at least one
// token. This is the order of transformers; top-k comes before the temperature because it does not depend on
// it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/args/rows.h"

namespace makar {

// Everything is off by default. Names, bounds and help of the fields: sampler_options.h.
struct SamplerOptions {
  double temperature = 0;  // 0: the most probable token
  int64_t top_k = 0;       // 0: all; tokens that tie with the k-th stay
  double top_p = 1;
  uint64_t seed = 0;

  double min_p = 0;                           // at least this share of the best token's probability
  double typical_p = 1;                       // locally typical sampling (Meister et al., 2022)
  double epsilon_cutoff = 0, eta_cutoff = 0;  // Hewitt et al., 2022

  double repetition_penalty = 1;  // Keskar et al., 2019: tokens of prompt and answer, as in transformers
  double presence_penalty = 0, frequency_penalty = 0;
  int64_t repeat_last_n = -1;  // window of the three penalties in tokens; -1: all
  int64_t no_repeat_ngram_size = 0;

  double dry_multiplier = 0, dry_base = 1.75;  // minus multiplier * base^(length - allowed)
  int64_t dry_allowed_length = 2, dry_penalty_last_n = -1;
  double xtc_probability = 0, xtc_threshold = 0.1;
  int64_t mirostat = 0;  // 1 or 2: the version (Basu et al., 2021)
  double mirostat_tau = 5, mirostat_eta = 0.1;

  std::vector<std::pair<int64_t, double>> logit_bias = {};  // (token, added to its logit)
  std::vector<int64_t> dry_breakers = {};                   // tokens that break a repetition for DRY
  int64_t prompt_tokens = 0;  // presence and frequency penalties count only tokens after these
  // Ids that are masked until the sequence, prompt included, has min_length tokens.
  std::vector<int64_t> masked_until_min_length = {};
  int64_t min_length = 0;
};

class Candidates;

class Sampler {
 public:
  explicit Sampler(SamplerOptions options = {});
  Sampler(const Sampler& other);  // copies options and mirostat state, not the scratch buffers
  Sampler& operator=(const Sampler& other);
  ~Sampler();

  // `tokens`: the sequence so far, prompt included. `index`: number of the draw. The same options, logits,
  // tokens, index and mirostat state give the same token, independent of other requests. Fails if a logit is
  // NaN or +infinity or no token is left. A logit of -infinity masks its token.
  Result<int64_t> next(std::span<const float> logits, std::span<const int64_t> tokens, uint64_t index);

  // Only transforms the logits (masked tokens become -infinity), for beam search and inspection. At
  // temperature 0, only the whole-vocabulary samplers apply.
  Status apply(std::span<float> logits, std::span<const int64_t> tokens, uint64_t index = 0);

  // For kernels that draw as next() does; nothing if the options have more than they know.
  std::optional<kernels::RowSampler> row_sampler(uint64_t index) const;

  const SamplerOptions& options() const { return options_; }
  double mirostat_mu() const { return mu_; }

 private:
  SamplerOptions options_;
  double mu_;  // mirostat's bound on token surprise, in bits
  std::unique_ptr<Candidates> candidates_;
};

// A single draw without earlier tokens; -1 if Sampler::next fails.
int64_t sample(std::span<const float> logits, const SamplerOptions& options, uint64_t index);

}  // namespace makar
