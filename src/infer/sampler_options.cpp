#include "infer/sampler_options.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace makar {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::max(), kMaxTokens = 1 << 30;

constexpr const char* kSampling = "Sampling";
constexpr SamplerOption kSamplerOptions[] = {
    {"temperature temp", &SamplerOptions::temperature, 0, 1e6, "T",
     "sampling temperature; 0 always takes the most probable token (greedy)", kSampling},
    {"top_k", &SamplerOptions::top_k, 0, kMaxTokens, "K", "sample from the K most probable tokens; 0 for all",
     kSampling},
    {"top_p", &SamplerOptions::top_p, 1e-9, 1, "P",
     "nucleus sampling: sample from the smallest set of tokens with total probability P", kSampling},
    {"min_p", &SamplerOptions::min_p, 0, 1, "P",
     "drop tokens less probable than P times the most probable one; 0 for off", kSampling},
    {"typical_p typical", &SamplerOptions::typical_p, 1e-9, 1, "P",
     "locally typical sampling with total probability P; 1 for off", kSampling},
    {"epsilon_cutoff", &SamplerOptions::epsilon_cutoff, 0, 1, "P",
     "drop tokens with probability below P; 0 for off", kSampling},
    {"eta_cutoff", &SamplerOptions::eta_cutoff, 0, 1, "P",
     "eta sampling: like --epsilon-cutoff, lower where the entropy is high; 0 for off", kSampling},
    {"repetition_penalty repeat_penalty", &SamplerOptions::repetition_penalty, 1e-6, 1e6, "R",
     "divide positive logits of tokens in the context by R and multiply negative ones; 1 for off", kSampling},
    {"presence_penalty", &SamplerOptions::presence_penalty, -100, 100, "A",
     "subtract A from the logits of tokens generated so far", kSampling},
    {"frequency_penalty", &SamplerOptions::frequency_penalty, -100, 100, "A",
     "subtract A for each time a token was generated", kSampling},
    {"repeat_last_n", &SamplerOptions::repeat_last_n, -1, kMaxTokens, "N",
     "number of recent tokens the penalties consider; -1 for all", kSampling},
    {"no_repeat_ngram_size", &SamplerOptions::no_repeat_ngram_size, 0, 1 << 20, "N",
     "never generate an N-gram that the context already has; 0 for off", kSampling},
    {"dry_multiplier", &SamplerOptions::dry_multiplier, 0, 1e6, "A",
     "DRY: penalty for extending a repeated sequence; 0 for off", kSampling},
    {"dry_base", &SamplerOptions::dry_base, 1, 1e6, "B", "DRY: growth of the penalty per repeated token",
     kSampling},
    {"dry_allowed_length", &SamplerOptions::dry_allowed_length, 1, kMaxTokens, "N",
     "DRY: longest repetition without a penalty", kSampling},
    {"dry_penalty_last_n", &SamplerOptions::dry_penalty_last_n, -1, kMaxTokens, "N",
     "DRY: number of recent tokens to search; -1 for all", kSampling},
    {"xtc_probability", &SamplerOptions::xtc_probability, 0, 1, "P",
     "XTC: probability, per token, of removing the top choices; 0 for off", kSampling},
    {"xtc_threshold", &SamplerOptions::xtc_threshold, 0, 1, "P",
     "XTC: probability from which a token is a top choice", kSampling},
    {"mirostat", &SamplerOptions::mirostat, 0, 2, "V", "mirostat sampling, version 1 or 2; 0 for off",
     kSampling},
    {"mirostat_tau mirostat_ent", &SamplerOptions::mirostat_tau, 0, 100, "BITS", "mirostat: target surprise",
     kSampling},
    {"mirostat_eta mirostat_lr", &SamplerOptions::mirostat_eta, 0, 10, "R", "mirostat: learning rate",
     kSampling},
    {"seed", &SamplerOptions::seed, -kNoBound, kNoBound, "N",
     "random seed; the same seed gives the same tokens", kSampling},
};

Status read_bias(SamplerOptions& o, const Json& value) {
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

std::span<const SamplerOption> sampler_options() { return kSamplerOptions; }

void add_sampler_options(Options& options, SamplerOptions& target) {
  declare_table(options, target, sampler_options());
}

Result<bool> read_sampler_option(SamplerOptions& target, const std::string& key, const Json& value) {
  if (key == "logit_bias") {
    MAKAR_RETURN_IF_ERROR(read_bias(target, value));
    return true;
  }
  return read_table(target, sampler_options(), key, value);
}

Status check_sampler(const SamplerOptions& options) {
  MAKAR_RETURN_IF_ERROR(check_table(options, sampler_options()));
  for (const auto& [id, bias] : options.logit_bias)
    if (!(std::fabs(bias) <= 1e6))
      return error_at("`logit_bias`", "of token {} must be between -1e6 and 1e6, got {}", id, bias);
  return Done{};
}

}  // namespace makar
