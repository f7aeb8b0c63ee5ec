#include "infer/sampler_options.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace makar {
namespace {

using O = SamplerOptions;
constexpr double kAny = std::numeric_limits<double>::max(), kTokens = 1 << 30;

constexpr SamplerOption kOptions[] = {
    {"temperature temp", &O::temperature, 0, 1e6, "T", "0 takes the most probable token"},
    {"top_k", &O::top_k, 0, kTokens, "K", "sample among the k most probable, 0 for all"},
    {"top_p", &O::top_p, 1e-9, 1, "P", "sample among the most probable that make up p"},
    {"min_p", &O::min_p, 0, 1, "P", "sample among those with this share of the best one's probability"},
    {"typical_p typical", &O::typical_p, 1e-9, 1, "P",
     "sample among the tokens of typical surprise that make up p"},
    {"epsilon_cutoff", &O::epsilon_cutoff, 0, 1, "P", "bar tokens of a smaller probability"},
    {"eta_cutoff", &O::eta_cutoff, 0, 1, "P", "the same, lower where the choice is open (eta sampling)"},
    {"repetition_penalty repeat_penalty", &O::repetition_penalty, 1e-6, 1e6, "R",
     "divide the logits of tokens seen, 1 for off"},
    {"presence_penalty", &O::presence_penalty, -100, 100, "A", "subtract from the logits of tokens written"},
    {"frequency_penalty", &O::frequency_penalty, -100, 100, "A",
     "subtract for each time a token was written"},
    {"repeat_last_n", &O::repeat_last_n, -1, kTokens, "N", "tokens the penalties look back, -1 for all"},
    {"no_repeat_ngram_size", &O::no_repeat_ngram_size, 0, 1 << 20, "N",
     "write no n tokens in a row twice, 0 for off"},
    {"dry_multiplier", &O::dry_multiplier, 0, 1e6, "A", "penalty of repeated sequences (DRY), 0 for off"},
    {"dry_base", &O::dry_base, 1, 1e6, "B", "growth of DRY's penalty with each further token"},
    {"dry_allowed_length", &O::dry_allowed_length, 1, kTokens, "N", "length that DRY begins with"},
    {"dry_penalty_last_n", &O::dry_penalty_last_n, -1, kTokens, "N", "tokens DRY looks back, -1 for all"},
    {"xtc_probability", &O::xtc_probability, 0, 1, "P", "how often the top choices are excluded (XTC)"},
    {"xtc_threshold", &O::xtc_threshold, 0, 1, "P", "what XTC takes for a top choice"},
    {"mirostat", &O::mirostat, 0, 2, "V", "keep the surprise constant: version 1 or 2, 0 for off"},
    {"mirostat_tau mirostat_ent", &O::mirostat_tau, 0, 100, "BITS", "the surprise mirostat aims at"},
    {"mirostat_eta mirostat_lr", &O::mirostat_eta, 0, 10, "R", "how fast mirostat adapts"},
    {"seed", &O::seed, -kAny, kAny, "N", "of the samples: the same seed writes the same tokens"},
};

Status read_bias(O& o, const Json& value) {
  if (!value.is_object())
    return error_at("logit_bias", "expects an object of token ids, such as {{\"50256\": -100}}");
  o.logit_bias.clear();
  for (const auto& [key, bias] : value.items()) {
    int64_t id = 0;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (code != std::errc() || end != key.data() + key.size() || id < 0 || !bias.is_number())
      return error_at("logit_bias", "expects token ids with numbers, got \"{}\": {}", key.substr(0, 40),
                      bias.dump().substr(0, 40));
    o.logit_bias.emplace_back(id, bias.get<double>());
  }
  return Done{};
}

}  // namespace

std::span<const SamplerOption> sampler_options() { return kOptions; }

void add_sampler_options(Options& options, SamplerOptions& target) {
  add_number_options(options, target, sampler_options());
}

Result<bool> read_sampler_option(SamplerOptions& target, const std::string& key, const Json& value) {
  if (key == "logit_bias") {
    MAKAR_CHECK_OK(read_bias(target, value));
    return true;
  }
  return read_number_option(target, sampler_options(), key, value);
}

Status check_sampler(const SamplerOptions& options) {
  MAKAR_CHECK_OK(check_number_options(options, sampler_options()));
  for (const auto& [id, bias] : options.logit_bias)
    if (!(std::fabs(bias) <= 1e6))
      return error_at("logit_bias", "of token {} must be within 1e6, got {}", id, bias);
  return Done{};
}

}  // namespace makar
