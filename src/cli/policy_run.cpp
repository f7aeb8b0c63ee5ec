#include "cli/policy_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/executed_rewards.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "llm/classify.h"
#include "train/model_identity.h"
#include "train/quality.h"

namespace makar {
namespace {

Status check_causal(const ModelSpec& spec, const std::string& place, const char* use) {
  if (spec.head.kind == HeadKind::kCausalLm && !spec.encoder) return Done{};
  return error_of(Error::Kind::kUnsupported, place, "a {} cannot be {}; use a causal language model",
                  spec.architecture, use);
}

Result<LanguageModel> open_mapped(const std::string& path, Device& device) {
  LanguageModelOptions options;
  options.weights = WeightUse::kMapped;
  MAKAR_TRY(LanguageModel out, LanguageModel::open(path, device, options));
  out.loaded().model->parameters().to(device.memory());
  return out;
}

// The model before training: without an adapter that is new, so that it changes nothing yet; with a copy of
// another adapter; or another copy of the base.
Status open_reference(const PolicyRun& s, PolicyParts& parts, Device& device) {
  if (s.no_reference) return Done{};
  if (s.ref_model.empty() && parts.adapter) {
    Model& model = *parts.language->loaded().model;
    if (!s.lora_model_dir.empty() || s.dora || !parts.adapter->modules_to_save.empty()) {
      parts.reference.emplace(Reference::copy_of(model, device, s.policy.activations));
      return Done{};
    }
    MAKAR_TRY(const Reference base, Reference::without_adapter(model, s.policy.activations));
    parts.reference.emplace(base);
    return Done{};
  }
  const std::string path = s.ref_model.empty() ? s.base_model : s.ref_model;
  MAKAR_TRY(parts.reference_model, open_mapped(path, device));
  MAKAR_RETURN_IF_ERROR(check_causal(parts.reference_model->spec(), path, "the reference"));
  if (parts.reference_model->spec().vocab != parts.language->spec().vocab)
    return error_at(path, "has a different vocabulary from {}; the reference must read the same tokens",
                    s.base_model);
  parts.reference.emplace(parts.reference_model->model(), s.policy.activations);
  return Done{};
}

bool names_model(const RewardTermSpec& spec) { return spec.name == "model" || spec.name == "quality"; }

// A reward model or a quality model.
Result<RewardTerm> open_reward_model(const PolicyRun& s, const RewardTermSpec& spec, PolicyParts& parts,
                                     Device& device) {
  if (spec.argument.empty()) return error_at("reward", "{0} needs a folder: {0}=DIR", spec.name);
  MAKAR_TRY(LanguageModel opened, open_mapped(spec.argument, device));
  const bool quality = spec.name == "quality";
  MAKAR_RETURN_IF_ERROR(quality ? check_quality_model(opened.spec(), spec.argument)
                                : check_reward_model(opened.spec(), spec.argument));
  if (!opened.has_tokenizer()) return error_of(Error::Kind::kNotFound, spec.argument, "has no tokenizer");
  parts.reward_models.push_back(std::make_unique<LanguageModel>(std::move(opened)));
  const LanguageModel& scorer = *parts.reward_models.back();
  FineTuneOptions options;
  options.common.quiet = s.common.quiet;
  MAKAR_TRY(ChatTemplate chat, find_template(options, scorer));
  constexpr int64_t kUnlimitedContext = 4096;  // for models without a position limit
  const int64_t context = scorer.spec().max_positions > 0 ? scorer.spec().max_positions : kUnlimitedContext;
  // The model belongs to `parts`, which outlives the task.
  const std::shared_ptr<const Model> model(std::shared_ptr<void>(), &scorer.model());
  const auto encoder = std::make_shared<ConversationEncoder>(scorer.tokenizer(), std::move(chat),
                                                             ConversationOptions{context, false, true});
  return quality ? quality_reward(spec.weight, model, label_names(scorer.spec()), encoder)
                 : model_reward("model", spec.weight, model, encoder);
}

Result<RewardTerm> open_reward(const PolicyRun& s, const RewardTermSpec& spec, PolicyParts& parts,
                               Device& device) {
  if (spec.name == "program" && !s.allow_programs)
    return error_at("reward",
                    "program runs a command for every answer; add --allow-programs if you trust it");
  if (spec.name == "tests" && !s.run_code)
    return error_at("reward",
                    "tests runs programs that the model writes, in a sandbox; allow it with "
                    "--confirm-run-unsafe-code");
  if (names_model(spec)) return open_reward_model(s, spec, parts, device);
  if (spec.name == "tests") return tests_reward(spec);
  if (spec.name == "sql") return sql_reward(spec);
  return make_reward_term(spec);
}

}  // namespace

void declare_programs(Options& o, PolicyRun& s) {
  o.add("--allow-programs", &s.allow_programs, "allow rewards by programs; they run with your permissions");
  o.add("--confirm-run-unsafe-code", &s.run_code,
        "allow rewards by tests, which run the model's programs in a sandbox without network");
}

Status open_rewards(const PolicyRun& s, PolicyParts& parts, Device& device) {
  for (const std::string& text : s.rewards) {
    MAKAR_TRY(const RewardTermSpec spec, parse_reward_term(text));
    MAKAR_TRY(RewardTerm term, open_reward(s, spec, parts, device));
    parts.rewards.push_back(std::move(term));
  }
  return Done{};
}

void declare_policy(Options& o, PolicyRun& s) {
  o.add("--ref-model", &s.ref_model, "the frozen reference; by default the model as it is before training",
        "DIR");
  o.add("--no-reference", &s.no_reference,
        "load no reference model; the KL divergence from it is not measured");
  o.group("Rewards");
  o.add("--reward", &s.rewards,
        "the reward of an answer: " + reward_term_forms() +
            "; add ,weight=X to weight it; repeat to sum several",
        "RULE")
      .required = true;
  declare_programs(o, s);
  o.add("--missing-eos-penalty", &s.policy.missing_eos_penalty,
        "subtracted from the reward of truncated answers", "X");
  o.group("Rollouts");
  o.add("--num-generations", &s.policy.group, "answers per prompt", "N");
  o.add("--max-completion-length --max-new-tokens", &s.policy.max_new_tokens,
        "maximum number of tokens per answer", "N");
  o.add("--steps-per-generation", &s.policy.steps_per_generation,
        "steps that share the answers of one rollout", "N");
  o.add("--num-iterations", &s.policy.iterations, "number of passes over the answers of a rollout", "N");
  o.add("--mask-truncated-completions", &s.policy.mask_truncated, "leave truncated answers out of the loss");
}

Status check_policy(PolicyRun& s, const Options& options, double adapter_learning_rate) {
  PolicyOptions& p = s.policy;
  const auto range = [](const char* key, int64_t value, int64_t low, int64_t high) -> Status {
    if (value >= low && value <= high) return Done{};
    return error_at(key, "expected {} to {}, got {}", low, high, value);
  };
  MAKAR_RETURN_IF_ERROR(range("num_generations", p.group, 1, 1024));
  MAKAR_RETURN_IF_ERROR(range("max_completion_length", p.max_new_tokens, 1, 1 << 20));
  MAKAR_RETURN_IF_ERROR(range("steps_per_generation", p.steps_per_generation, 1, 1024));
  MAKAR_RETURN_IF_ERROR(range("num_iterations", p.iterations, 1, 64));
  p.micro_batch = s.common.loop.micro_batch_size, p.accumulate = s.common.loop.gradient_accumulation_steps;
  MAKAR_RETURN_IF_ERROR(range("micro_batch_size", p.micro_batch, 1, 1 << 16));
  if (p.answers() % p.group != 0)
    return error_at("num_generations",
                    "a rollout has micro_batch_size * gradient_accumulation_steps * steps_per_generation = "
                    "{} answers, which is not a multiple of {}",
                    p.answers(), p.group);
  if (!(p.missing_eos_penalty >= 0 && p.missing_eos_penalty <= 1e6))
    return error_at("missing_eos_penalty", "expected 0 or more, got {}", p.missing_eos_penalty);
  if (s.common.loop.label_smoothing > 0) return error_at("label_smoothing", "has no effect here; remove it");
  if (s.no_reference && !s.ref_model.empty())
    return error_at("ref_model", "contradicts no_reference; remove one of them");
  p.seed = static_cast<uint64_t>(s.common.loop.seed);
  p.activations = activations_of(s.common.loop);
  s.common.loop.no_dropout = true;  // with dropout, the trained policy would not be the sampled one
  for (const std::string& text : s.rewards) MAKAR_RETURN_IF_ERROR(parse_reward_term(text));
  return check_fine_tune(s, options, adapter_learning_rate);
}

Result<std::unique_ptr<PolicyParts>> open_policy(PolicyRun& s, Device& device, ThreadPool& pool) {
  auto parts = std::make_unique<PolicyParts>();
  MAKAR_TRY(parts->language, load_base(s, device, pool));
  LanguageModel& language = *parts->language;
  MAKAR_RETURN_IF_ERROR(check_causal(language.spec(), s.base_model, "the policy"));
  if (!language.has_tokenizer())
    return error_of(Error::Kind::kNotFound, s.base_model, "has no tokenizer; sampling text needs it");
  MAKAR_TRY(parts->adapter, open_adapter(s, language.loaded(), device));
  print_trained_parameters(s.common, language.model());
  MAKAR_RETURN_IF_ERROR(open_reference(s, *parts, device));
  MAKAR_RETURN_IF_ERROR(open_rewards(s, *parts, device));
  s.policy.stop = language.stop_ids();
  if (s.policy.stop.empty())
    return error_at(s.base_model,
                    "has no end-of-text token, so no answer would end; add eos_token_id to its config.json");
  parts->identity = {{"base_model", s.base_model},
                     {"ref_model", s.no_reference ? "none" : s.ref_model},
                     {"adapter", parts->adapter ? parts->adapter->scale() : 0.0f},
                     {"rewards", s.rewards},
                     {"num_generations", s.policy.group},
                     {"max_completion_length", s.policy.max_new_tokens},
                     {"steps_per_generation", s.policy.steps_per_generation},
                     {"num_iterations", s.policy.iterations},
                     {"missing_eos_penalty", s.policy.missing_eos_penalty},
                     {"mask_truncated_completions", s.policy.mask_truncated}};
  if (!s.quantize_base.empty()) parts->identity["quantize_base"] = s.quantize_base;
  std::vector<std::string> models = {s.base_model, s.ref_model, s.lora_model_dir};
  for (const std::string& text : s.rewards)
    if (const auto spec = parse_reward_term(text); spec.ok() && names_model(*spec))
      models.push_back(spec->argument);
  MAKAR_RETURN_IF_ERROR(add_model_files(parts->identity, models));
  MAKAR_TRY(ChatTemplate chat, find_template(s, language));
  const ConversationEncoder encoder(language.tokenizer(), std::move(chat), {s.sequence_len, false});
  const int64_t context =
      language.spec().max_positions > 0 ? language.spec().max_positions : int64_t{1} << 20;
  if (context <= s.policy.max_new_tokens)
    return error_at("max_completion_length", "the model has {} positions, which leaves none for a prompt",
                    context);
  MAKAR_TRY(parts->prompts,
            open_policy_prompts(dataset_options(s.common), encoder, context - s.policy.max_new_tokens,
                                parts->identity, {.rewards = parts->rewards}));
  for (const RewardTerm& term : parts->rewards)
    if (term.files) MAKAR_RETURN_IF_ERROR(add_model_files(parts->identity, term.files()));
  return parts;
}

int run_policy_command(const PolicyCommand& c, PolicyRun& s, Options& options,
                       const std::vector<std::string>& arguments) {
  if (const auto code = parse_training(options, arguments, s.common)) return *code;
  Status checked = c.check();
  if (checked.ok()) checked = check_policy(s, options, c.adapter_learning_rate);
  if (!checked.ok()) return report(checked.error()), 2;
  ThreadPool pool(static_cast<int>(s.common.threads));
  const auto compute = open_device_option(s.common.device, pool);
  if (!compute.ok()) return report(compute.error());
  const auto parts = open_policy(s, **compute, pool);
  if (!parts.ok()) return report(parts.error());
  return c.train(**parts, **compute, command_line(c.name, arguments));
}

int run_policy(PolicyRun& s, PolicyParts& parts, Task& task, Device& device, const char* kind,
               const std::string& command, std::vector<TrainedModel> others) {
  const Tokenizer& tokenizer = parts.language->tokenizer();
  return run_job({s.common, parts.language->loaded(), task, device, parts.adapter ? &*parts.adapter : nullptr,
                  &tokenizer, s.base_model, kind, command, parts.identity, s.base_model,
                  tokenizer_config(s.base_model, tokenizer), s.saved_template, std::move(others)});
}

}  // namespace makar
