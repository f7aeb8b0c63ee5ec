// Choosing the next token from logits: a chain of small samplers in one fixed order.
//
// On the logits of the whole vocabulary:
//   1. logit bias               2. repetition penalty       3. presence and frequency penalties
//   4. DRY                      5. no-repeat n-gram         6. no end before the least number of tokens
// then greedily the best token when the temperature is 0, or on the candidates that are left:
//   7. top-k    8. temperature  9. top-p   10. min-p        11. typical
//  12. epsilon 13. eta         14. XTC     15. mirostat     and a draw.
// Each truncation sees the probabilities renormalised over what the one before it left, and leaves one token
// at least. This is the order of transformers; top-k stands before the temperature because it does not depend
// on it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

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

  double repetition_penalty = 1;  // Keskar et al., 2019: of every token seen, as transformers does
  double presence_penalty = 0, frequency_penalty = 0;
  int64_t repeat_last_n = -1;  // tokens the three penalties look back; -1: all
  int64_t no_repeat_ngram_size = 0;

  double dry_multiplier = 0, dry_base = 1.75;  // minus multiplier * base^(length - allowed)
  int64_t dry_allowed_length = 2, dry_penalty_last_n = -1;
  double xtc_probability = 0, xtc_threshold = 0.1;
  int64_t mirostat = 0;  // 1 or 2: the version (Basu et al., 2021)
  double mirostat_tau = 5, mirostat_eta = 0.1;

  std::vector<std::pair<int64_t, double>> logit_bias = {};  // (token, added to its logit)
  std::vector<int64_t> dry_breakers = {};                   // tokens over which DRY sees no repetition
  int64_t prompt_tokens = 0;  // presence and frequency count only what was written after these
  // Tokens that are barred while there are fewer tokens than this, the prompt's included.
  std::vector<int64_t> late = {};
  int64_t late_from = 0;
};

class Candidates;

class Sampler {
 public:
  explicit Sampler(SamplerOptions options = {});
  Sampler(const Sampler& other);  // options and mirostat state; the work space is its own
  Sampler& operator=(const Sampler& other);
  ~Sampler();

  // `tokens` are those so far, prompt included. `index` numbers the draw: the same (options, logits, tokens,
  // index, mirostat state) give the same token, whatever else runs. Errors: a logit that is NaN or +infinity,
  // no token left. A logit of -infinity bars its token.
  Result<int64_t> next(std::span<const float> logits, std::span<const int64_t> tokens, uint64_t index);

  // Only transforms the logits, barred tokens to -infinity: for beams and for looking. At temperature 0 the
  // samplers that work on the whole vocabulary alone.
  Status apply(std::span<float> logits, std::span<const int64_t> tokens, uint64_t index = 0);

  const SamplerOptions& options() const { return options_; }
  double mirostat_mu() const { return mu_; }

 private:
  SamplerOptions options_;
  double mu_;  // mirostat's bound on the surprise of a token, in bits
  std::unique_ptr<Candidates> work_;
};

// A single draw that does not look at earlier tokens; -1 where Sampler::next gives an error.
int64_t sample(std::span<const float> logits, const SamplerOptions& options, uint64_t index);

}  // namespace makar
