// makar ppo: trains a language model with rewards for its own answers and a value model.
#include "train/ppo.h"

#include <fmt/format.h>

#include "cli/model_options.h"
#include "cli/policy_run.h"
#include "cli/run.h"
#include "train/model_identity.h"

namespace makar {
namespace {

constexpr double kPpoLearningRate = 1e-6, kPpoAdapterLearningRate = 1e-5;

struct Ppo : PolicyRun {
  std::string value_model;
  double clip = 0.2, value_clip = 0.2, value_weight = 0.1, gamma = 1, lambda = 0.95;
  double kl = 0.05, kl_target = 0, kl_horizon = 10000, stop_kl = 0, value_rate = 1;
  bool whiten = false;
};

void declare(Options& o, Ppo& s) {
  declare_common(o, s.common);
  declare_base(o, s);
  o.add(
      "--value-model", &s.value_model,
      "reward model that the value model starts from; by default the DIR of --reward model=DIR, or the base "
      "with a new head",
      "DIR");
  declare_policy(o, s);
  o.group("Objective");
  o.add("--kl-coef", &s.kl, "weight of the penalty per token for the divergence from the reference", "X");
  o.add("--kl-target", &s.kl_target, "adapt the weight to keep the divergence per answer near this; 0: fixed",
        "X");
  o.add("--kl-horizon", &s.kl_horizon, "answers over which the weight adapts", "N");
  o.add("--target-kl", &s.stop_kl,
        "stop using a rollout when the divergence per token from the policy that sampled it exceeds this; 0: "
        "never",
        "X");
  o.add("--cliprange", &s.clip, "clip range of the probability ratio of a token", "X");
  o.add("--cliprange-value", &s.value_clip, "clip range of the change of values", "X");
  o.add("--vf-coef", &s.value_weight, "weight of the value loss", "X");
  o.add("--value-lr-scale", &s.value_rate, "learning rate of the value model, relative to the policy's", "X");
  o.add("--gamma", &s.gamma, "discount per token", "X");
  o.add("--lam", &s.lambda, "lambda of the generalised advantage estimation", "X");
  o.add("--whiten-rewards", &s.whiten, "scale the rewards of tokens to a variance of 1, keeping their mean");
  declare_adapter(o, s);
}

Status check_options(const Ppo& s) {
  struct Row {
    const char* key;
    double value, low, high;
  };
  for (const Row& r : {Row{"kl_coef", s.kl, 0, 1000},
                       {"kl_target", s.kl_target, 0, 1e6},
                       {"kl_horizon", s.kl_horizon, 1, 1e12},
                       {"target_kl", s.stop_kl, 0, 1e6},
                       {"cliprange", s.clip, 1e-6, 100},
                       {"cliprange_value", s.value_clip, 1e-6, 1e6},
                       {"vf_coef", s.value_weight, 0, 1000},
                       {"value_lr_scale", s.value_rate, 0, 1e6},
                       {"gamma", s.gamma, 0, 1},
                       {"lam", s.lambda, 0, 1}})
    if (!(r.value >= r.low && r.value <= r.high))
      return error_at(r.key, "expected {} to {}, got {}", r.low, r.high, r.value);
  if (s.no_reference)
    return error_at("no_reference",
                    "PPO needs the reference: its penalty is the divergence from it; remove this option");
  return Done{};
}

// The folder that the value model starts from; "": the base.
std::string value_folder(const Ppo& s) {
  if (!s.value_model.empty()) return s.value_model;
  for (const std::string& text : s.rewards)
    if (const auto spec = parse_reward_term(text); spec.ok() && spec->name == "model") return spec->argument;
  return "";
}

Result<LoadedModel> open_value(const Ppo& s, const LanguageModel& policy, Device& device) {
  const std::string folder = value_folder(s), place = folder.empty() ? s.base_model : folder;
  LanguageModelOptions options;
  options.weights = WeightUse::kMapped;
  MAKAR_TRY(const LanguageModel start, LanguageModel::open(place, device, options));
  if (!folder.empty()) MAKAR_RETURN_IF_ERROR(check_reward_model(start.spec(), place));
  const bool same = start.spec().vocab == policy.spec().vocab && start.has_tokenizer() &&
                    start.tokenizer().to_json() == policy.tokenizer().to_json();
  if (!same)
    return error_at(place, "has a different vocabulary from {}; the value model must read the same tokens",
                    s.base_model);
  return with_reward_head(start.model(), place, static_cast<uint64_t>(s.common.loop.seed));
}

int train(Ppo& s, PolicyParts& p, Device& device, const std::string& command) {
  const auto value = open_value(s, *p.language, device);
  if (!value.ok()) return report(value.error());
  for (const auto& [key, number] : {std::pair("kl_coef", s.kl),
                                    {"kl_target", s.kl_target},
                                    {"kl_horizon", s.kl_horizon},
                                    {"target_kl", s.stop_kl},
                                    {"cliprange", s.clip},
                                    {"cliprange_value", s.value_clip},
                                    {"vf_coef", s.value_weight},
                                    {"value_lr_scale", s.value_rate},
                                    {"gamma", s.gamma},
                                    {"lam", s.lambda},
                                    {"whiten_rewards", s.whiten ? 1.0 : 0.0}})
    p.identity[key] = number;
  p.identity["value_model"] = value_folder(s);
  if (const Status added = add_model_files(p.identity, {value_folder(s)}); !added.ok())
    return report(added.error());
  const PpoOptions options{static_cast<float>(s.clip),
                           static_cast<float>(s.value_clip),
                           static_cast<float>(s.value_weight),
                           s.gamma,
                           s.lambda,
                           s.kl,
                           s.kl_target,
                           s.kl_horizon,
                           s.stop_kl,
                           s.whiten};
  PpoTask task(*p.language->loaded().model, *value->model, p.language->tokenizer(), std::move(*p.prompts),
               std::move(p.rewards), *p.reference, s.policy, options);
  return run_policy(s, p, task, device, "trained with rewards", command,
                    {{value->model.get(), "value", s.value_rate}});
}

}  // namespace

int run_ppo(const std::vector<std::string>& arguments) {
  Ppo s;
  s.common.loop.output_dir = "runs/ppo", s.common.loop.learning_rate = kPpoLearningRate;
  s.common.loop.lr_scheduler = "linear", s.common.loop.eps = 1e-5, s.common.loop.logging_steps = 1;
  s.common.loop.gradient_accumulation_steps = 2;
  s.policy.group = 1, s.policy.steps_per_generation = 4, s.policy.iterations = 4;
  Options options(
      "ppo",
      "Train a model with rewards for its own answers and a value model (PPO): a penalty keeps it "
      "close to the reference. A RECIPE.yaml and key=value arguments set options too.",
      "makar ppo -m DIR -d prompts.jsonl --reward model=RM -o runs/mine");
  declare(options, s);
  const auto check = [&]() -> Status {
    MAKAR_RETURN_IF_ERROR(check_f32(s.common, "ppo"));
    return check_options(s);
  };
  const PolicyCommand command{"ppo", kPpoAdapterLearningRate, check,
                              [&](PolicyParts& parts, Device& device, const std::string& line) {
                                return train(s, parts, device, line);
                              }};
  return run_policy_command(command, s, options, arguments);
}

}  // namespace makar
