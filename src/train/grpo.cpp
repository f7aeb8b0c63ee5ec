#include "train/grpo.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar {
namespace {

constexpr std::pair<const char*, TokenMean> kMeans[] = {
    {"grpo", TokenMean::kAnswer}, {"dapo", TokenMean::kTokens}, {"dr_grpo", TokenMean::kConstant}};

}  // namespace

std::optional<TokenMean> token_mean_named(const std::string& name) {
  for (const auto& [known, mean] : kMeans)
    if (name == known) return mean;
  return std::nullopt;
}

std::vector<std::string> token_mean_names() {
  std::vector<std::string> out;
  for (const auto& row : kMeans) out.emplace_back(row.first);
  return out;
}

std::vector<float> token_weights(const PolicySlice& s, TokenMean mean, int64_t max_new_tokens) {
  std::vector<float> out;
  const auto answers = static_cast<double>(s.starts.size() - 1);
  for (size_t i = 0; i + 1 < s.starts.size(); ++i) {
    const auto length = static_cast<double>(s.starts[i + 1] - s.starts[i]);
    const double divisor = mean == TokenMean::kAnswer   ? length * answers
                           : mean == TokenMean::kTokens ? std::max(1.0, s.tokens)
                                                        : static_cast<double>(max_new_tokens) * answers;
    for (int64_t t = s.starts[i]; t < s.starts[i + 1]; ++t)
      out.push_back(s.counted[static_cast<size_t>(t)] / static_cast<float>(divisor));
  }
  return out;
}

GrpoTask::GrpoTask(Model& policy, const Tokenizer& tokenizer, PolicyPrompts prompts,
                   std::vector<RewardTerm> rewards, std::optional<Reference> reference,
                   const PolicyOptions& options, const GrpoOptions& grpo)
    : PolicyTask(policy, tokenizer, std::move(prompts), std::move(rewards), std::move(reference), options),
      g_(grpo) {}

Status GrpoTask::estimate(PolicyBuffer& b, Device&) {
  const std::vector<float> rewards(b.rewards.begin(), b.rewards.end());
  const Tensor advantages =
      group_advantages(Tensor::from({static_cast<int64_t>(rewards.size())}, std::span<const float>(rewards)),
                       o_.group, g_.scale);
  for (size_t i = 0; i < b.rollouts.size(); ++i)
    b.advantages.insert(b.advantages.end(), b.rollouts[i].log_probabilities.size(), advantages.f32()[i]);
  return Done{};
}

double GrpoTask::weight_of(const PolicySlice& s) const {
  return g_.mean == TokenMean::kTokens ? std::max(1.0, s.tokens) : static_cast<double>(s.starts.size() - 1);
}

Result<Tensor> GrpoTask::loss(ForwardContext& f, const PolicySlice& s, const Tensor& log_probabilities) {
  Context& ctx = f.ops;
  count(s, log_probabilities, g_.clip_low, g_.clip_high);
  Tensor terms = clipped_policy_terms(ctx, log_probabilities, constant_row(ctx, s.old),
                                      constant_row(ctx, s.advantages), g_.clip_low, g_.clip_high);
  if (g_.beta > 0)
    terms =
        ops::add(ctx, terms,
                 ops::scale(ctx, kl_terms(ctx, log_probabilities, constant_row(ctx, s.reference)), g_.beta));
  return ops::sum(ctx,
                  ops::multiply(ctx, terms, constant_row(ctx, token_weights(s, g_.mean, o_.max_new_tokens))));
}

// The share of groups whose answers have equal rewards, and so no advantage.
void GrpoTask::add_metrics(Metrics& metrics) const {
  double equal = 0, groups = 0;
  const auto size = static_cast<size_t>(o_.group);
  for (size_t i = 0; i + size <= buffer_.rewards.size(); i += size, ++groups)
    equal += std::all_of(buffer_.rewards.begin() + static_cast<std::ptrdiff_t>(i),
                         buffer_.rewards.begin() + static_cast<std::ptrdiff_t>(i + size),
                         [&](double r) { return r == buffer_.rewards[i]; });
  metrics["zero-advantage groups"] = groups > 0 ? equal / groups : 0;
}

}  // namespace makar
