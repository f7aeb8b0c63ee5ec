// Shared by the commands that train with rewards of sampled answers (grpo, ppo): options of rollouts and
// rewards, the models besides the policy.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "cli/fine_tune.h"
#include "train/policy_task.h"

namespace makar {

struct PolicyRun : FineTuneOptions {
  std::string ref_model;
  std::vector<std::string> rewards;
  bool allow_programs = false, run_code = false, no_reference = false;
  PolicyOptions policy;
};

// The options of these commands that FineTuneOptions does not have.
void declare_policy(Options& options, PolicyRun& s);
// The options that allow rewards to run programs.
void declare_programs(Options& options, PolicyRun& s);
Status check_policy(PolicyRun& s, const Options& options, double adapter_learning_rate);

// The models and data of a run, opened from the options.
struct PolicyParts {
  std::optional<LanguageModel> language, reference_model;
  std::vector<std::unique_ptr<LanguageModel>> reward_models;  // and quality models
  std::optional<AdapterConfig> adapter;
  std::optional<Reference> reference;
  std::vector<RewardTerm> rewards;
  std::optional<PolicyPrompts> prompts;
  Json identity;
};
// Opens the rewards named by s.rewards into `parts`.
Status open_rewards(const PolicyRun& s, PolicyParts& parts, Device& device);
Result<std::unique_ptr<PolicyParts>> open_policy(PolicyRun& s, Device& device, ThreadPool& pool);

// A command: parses and checks its options, opens its models and data, and calls `train`, which ends in
// run_policy().
struct PolicyCommand {
  const char* name;
  double adapter_learning_rate;  // learning rate if only an adapter is trained
  std::function<Status()> check;
  std::function<int(PolicyParts& parts, Device& device, const std::string& command)> train;
};
int run_policy_command(const PolicyCommand& c, PolicyRun& s, Options& options,
                       const std::vector<std::string>& arguments);
// Runs the loop and saves the policy.
int run_policy(PolicyRun& s, PolicyParts& parts, Task& task, Device& device, const char* kind,
               const std::string& command, std::vector<TrainedModel> others = {});

}  // namespace makar
