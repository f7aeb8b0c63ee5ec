#include "infer/sampler.h"

#include <algorithm>
#include <limits>

#include "base/rng.h"
#include "infer/samplers/step.h"

namespace makar {
namespace {

struct LogitStep {
  bool (*enabled)(const SamplerOptions&);
  void (*run)(std::span<float> logits, const DrawContext& draw);
};
constexpr LogitStep kLogitSteps[] = {
    {[](const SamplerOptions& o) { return !o.logit_bias.empty(); }, logit_bias},
    {[](const SamplerOptions& o) { return o.repetition_penalty != 1; }, repetition_penalty},
    {[](const SamplerOptions& o) { return o.presence_penalty != 0 || o.frequency_penalty != 0; },
     presence_and_frequency},
    {[](const SamplerOptions& o) { return o.dry_multiplier > 0; }, dry},
    {[](const SamplerOptions& o) { return o.no_repeat_ngram_size > 0; }, no_repeat_ngram},
    {[](const SamplerOptions& o) { return o.min_length > 0; }, mask_until_length},
};

struct CandidateStep {
  bool (*enabled)(const SamplerOptions&);
  void (*run)(Candidates& candidates, const DrawContext& draw);
};
constexpr CandidateStep kCandidateSteps[] = {
    {[](const SamplerOptions& o) { return o.top_k > 0; }, top_k},
    {[](const SamplerOptions& o) { return o.temperature != 1; }, temperature},
    {[](const SamplerOptions& o) { return o.top_p < 1; }, top_p},
    {[](const SamplerOptions& o) { return o.min_p > 0; }, min_p},
    {[](const SamplerOptions& o) { return o.typical_p < 1; }, typical},
    {[](const SamplerOptions& o) { return o.epsilon_cutoff > 0; }, epsilon},
    {[](const SamplerOptions& o) { return o.eta_cutoff > 0; }, eta},
    {[](const SamplerOptions& o) { return o.xtc_probability > 0; }, xtc},
    {[](const SamplerOptions& o) { return o.mirostat > 0; }, mirostat},
};

Result<Extremes> extremes_of(std::span<const float> logits) {
  const Extremes e = extremes(logits);
  if (e.broken) {
    size_t at = 0;
    while (logits[at] < std::numeric_limits<float>::infinity()) ++at;
    return error_of(Error::Kind::kIo, "logits", "token {} has {}; the model's weights are broken", at,
                    logits[at] > 0 ? "+infinity" : "NaN");
  }
  if (e.low > e.high)
    return error_at("logits", "none of {} tokens is allowed; the constraints exclude every token",
                    logits.size());
  return e;
}

bool takes_the_best(const SamplerOptions& o) {
  return static_cast<float>(o.temperature) <= 0 || o.top_k == 1;
}

bool alters_logits(const SamplerOptions& o) {
  return std::any_of(std::begin(kLogitSteps), std::end(kLogitSteps),
                     [&](const LogitStep& step) { return step.enabled(o); });
}

void run_logit_steps(std::span<float> logits, const DrawContext& draw) {
  for (const LogitStep& step : kLogitSteps)
    if (step.enabled(draw.options)) step.run(logits, draw);
}

void run_candidate_steps(Candidates& c, const DrawContext& draw) {
  for (const CandidateStep& step : kCandidateSteps)
    if (c.size() > 1 && step.enabled(draw.options)) step.run(c, draw);
}

}  // namespace

Sampler::Sampler(SamplerOptions options)
    : options_(std::move(options)),
      mu_(2 * options_.mirostat_tau),
      candidates_(std::make_unique<Candidates>()) {}
Sampler::Sampler(const Sampler& other)
    : options_(other.options_), mu_(other.mu_), candidates_(std::make_unique<Candidates>()) {}
Sampler& Sampler::operator=(const Sampler& other) {
  options_ = other.options_, mu_ = other.mu_;
  return *this;
}
Sampler::~Sampler() = default;

Result<int64_t> Sampler::next(std::span<const float> logits, std::span<const int64_t> tokens,
                              uint64_t index) {
  const DrawContext draw{options_, tokens, index, mu_};
  std::vector<float> adjusted;
  if (alters_logits(options_)) {
    adjusted.assign(logits.begin(), logits.end());
    run_logit_steps(adjusted, draw);
    logits = adjusted;
  }
  MAKAR_TRY(const Extremes e, extremes_of(logits));
  if (takes_the_best(options_)) return static_cast<int64_t>(find_value(logits, e.high));
  Candidates& c = *candidates_;
  c.reset(logits, e);
  run_candidate_steps(c, draw);
  const double u = Rng(options_.seed, Purpose::kSample).uniform_double(index);
  const size_t chosen = index_of_share(c.weights(), u);
  if (options_.mirostat > 0) mu_ = mirostat_update(options_, mu_, c.weights()[chosen] / c.total());
  return c.id(chosen);
}

std::optional<kernels::RowSampler> Sampler::row_sampler(uint64_t index) const {
  const SamplerOptions& o = options_;
  if (alters_logits(o)) return std::nullopt;
  if (takes_the_best(o)) return kernels::RowSampler{};
  const bool others =
      o.typical_p < 1 || o.epsilon_cutoff > 0 || o.eta_cutoff > 0 || o.xtc_probability > 0 || o.mirostat > 0;
  if (others) return std::nullopt;
  return kernels::RowSampler{
      static_cast<float>(o.temperature), static_cast<float>(o.min_p), o.top_k, o.top_p, o.seed, index};
}

Status Sampler::apply(std::span<float> logits, std::span<const int64_t> tokens, uint64_t index) {
  const DrawContext draw{options_, tokens, index, mu_};
  MAKAR_TRY(Extremes e, extremes_of(logits));
  run_logit_steps(logits, draw);
  if (static_cast<float>(options_.temperature) <= 0) return Done{};
  MAKAR_TRY(e, extremes_of(logits));
  Candidates& c = *candidates_;
  c.reset(logits, e);
  run_candidate_steps(c, draw);
  std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < c.size(); ++i) logits[static_cast<size_t>(c.id(i))] = c.logits()[i];
  return Done{};
}

int64_t sample(std::span<const float> logits, const SamplerOptions& options, uint64_t index) {
  const auto next = Sampler(options).next(logits, {}, index);
  return next.ok() ? *next : -1;
}

}  // namespace makar
