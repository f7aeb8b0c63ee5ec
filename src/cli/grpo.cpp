// makar grpo: trains a language model with rewards of its own answers, relative to the other answers to a
// prompt.
#include "train/grpo.h"

#include <fmt/format.h>

#include "base/nearest.h"
#include "cli/model_options.h"
#include "cli/policy_run.h"
#include "cli/run.h"

namespace makar {
namespace {

constexpr double kGrpoLearningRate = 1e-6, kGrpoAdapterLearningRate = 1e-5;

struct Grpo : PolicyRun {
  std::string loss_type = "dapo", scale;
  double beta = 0, low = 0.2, high = -1;
};

void declare(Options& o, Grpo& s) {
  declare_common(o, s.common);
  declare_base(o, s);
  declare_policy(o, s);
  o.group("Objective");
  o.add("--loss-type --loss", &s.loss_type,
        "mean over tokens: grpo (per answer, then over answers), dapo (over all tokens of a step), dr_grpo "
        "(divided by the "
        "longest length)",
        "NAME");
  o.add("--scale-rewards", &s.scale,
        "divide advantages by the standard deviation of rewards: group, batch or none (default of dr_grpo)",
        "NAME");
  o.add("--epsilon", &s.low, "lower clip range of the probability ratio of a token", "X");
  o.add("--epsilon-high", &s.high, "upper clip range (DAPO: 0.28); --epsilon if not set", "X");
  o.add("--beta", &s.beta, "weight of the divergence from the reference", "X");
  declare_adapter(o, s);
}

const std::vector<std::string> kScales = {"group", "batch", "none"};

Status check_options(Grpo& s) {
  if (!token_mean_named(s.loss_type))
    return error_at("loss_type", "expected {}, got '{}'{}", fmt::join(token_mean_names(), ", "), s.loss_type,
                    did_you_mean(s.loss_type, token_mean_names()));
  if (s.scale.empty()) s.scale = s.loss_type == "dr_grpo" ? "none" : "group";
  if (std::find(kScales.begin(), kScales.end(), s.scale) == kScales.end())
    return error_at("scale_rewards", "expected {}, got '{}'{}", fmt::join(kScales, ", "), s.scale,
                    did_you_mean(s.scale, kScales));
  if (s.high < 0) s.high = s.low;
  if (!(s.low > 0 && s.low <= 1)) return error_at("epsilon", "expected above 0, up to 1, got {}", s.low);
  if (!(s.high > 0 && s.high <= 100))
    return error_at("epsilon_high", "expected above 0, up to 100, got {}", s.high);
  if (!(s.beta >= 0 && s.beta <= 1000)) return error_at("beta", "expected 0 to 1000, got {}", s.beta);
  if (s.beta > 0 && s.no_reference) return error_at("beta", "needs the reference; remove no_reference");
  if (s.policy.group < 2)
    return error_at("num_generations", "expected 2 or more, got {}: an answer is compared with others",
                    s.policy.group);
  return Done{};
}

int train(Grpo& s, PolicyParts& p, Device& device, const std::string& command) {
  for (const auto& [key, value] : {std::pair("epsilon", s.low), {"epsilon_high", s.high}, {"beta", s.beta}})
    p.identity[key] = value;
  p.identity["loss_type"] = s.loss_type, p.identity["scale_rewards"] = s.scale;
  const GrpoOptions options{*token_mean_named(s.loss_type),
                            s.scale == "none"    ? AdvantageScale::kNone
                            : s.scale == "batch" ? AdvantageScale::kBatch
                                                 : AdvantageScale::kGroup,
                            static_cast<float>(s.low), static_cast<float>(s.high),
                            static_cast<float>(s.beta)};
  GrpoTask task(*p.language->loaded().model, p.language->tokenizer(), std::move(*p.prompts),
                std::move(p.rewards), p.reference, s.policy, options);
  return run_policy(s, p, task, device, "trained with rewards", command);
}

}  // namespace

int run_grpo(const std::vector<std::string>& arguments) {
  Grpo s;
  s.common.loop.output_dir = "runs/grpo", s.common.loop.learning_rate = kGrpoLearningRate;
  s.common.loop.gradient_accumulation_steps = 4, s.common.loop.lr_scheduler = "constant";
  s.common.loop.logging_steps = 1;
  Options options(
      "grpo",
      "Train a model with rewards of its own answers: it samples a group of answers to each prompt, and "
      "learns from "
      "how their rewards differ (GRPO, Dr. GRPO, DAPO). A RECIPE.yaml and key=value arguments set options "
      "too.",
      "makar grpo -m DIR -d prompts.jsonl --reward exact -o runs/mine");
  declare(options, s);
  const PolicyCommand command{"grpo", kGrpoAdapterLearningRate, [&] { return check_options(s); },
                              [&](PolicyParts& parts, Device& device, const std::string& line) {
                                return train(s, parts, device, line);
                              }};
  return run_policy_command(command, s, options, arguments);
}

}  // namespace makar
