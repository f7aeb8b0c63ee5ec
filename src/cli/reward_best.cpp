// makar reward best: samples several answers per prompt and writes the best, pairs or rankings as data.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/nearest.h"
#include "base/progress.h"
#include "cli/model_options.h"
#include "cli/policy_run.h"
#include "cli/run.h"
#include "train/best_answers.h"

namespace makar {
namespace {

constexpr size_t kPromptsPerBatch = 16;

struct BestCommand : PolicyRun {
  ModelOptions model;
  std::vector<std::string> files;
  std::string output, form = "best";
  double temperature = 1, min_reward = -INFINITY;
  int64_t keep = 1, seed = 42;
  bool json = false, quiet = false;
};

// Sums over all prompts.
struct BestSums {
  double prompts = 0, answers = 0, reward = 0, best = 0, truncated = 0, records = 0;
};

std::string text_of(const Rollout& r, const Tokenizer& tokenizer) {
  std::vector<uint32_t> ids;
  for (size_t i = static_cast<size_t>(r.prompt_tokens); i < r.tokens.size(); ++i)
    ids.push_back(static_cast<uint32_t>(r.tokens[i]));
  if (r.finish == Finish::kStop && !ids.empty()) ids.pop_back();
  return tokenizer.decode(ids, true);
}

// Samples answers to the prompts and computes their rewards; one list per prompt.
Result<std::vector<std::vector<RewardedAnswer>>> sample_answers(const BestCommand& c, PolicyParts& parts,
                                                                Device& device,
                                                                std::span<const PolicyPrompt> prompts,
                                                                uint64_t step, BestSums& sums) {
  std::vector<std::vector<int64_t>> ids;
  std::vector<Json> records, turns;
  for (const PolicyPrompt& p : prompts) {
    ids.push_back(p.ids);
    MAKAR_TRY(records.emplace_back(), parse_json(p.record, "prompt"));
    MAKAR_TRY(turns.emplace_back(), parse_json(p.turns, "prompt"));
  }
  RolloutOptions options;
  options.max_new_tokens = c.policy.max_new_tokens, options.answers = c.policy.group;
  options.stop = parts.language->stop_ids(), options.sampler.temperature = c.temperature;
  options.seed = static_cast<uint64_t>(c.seed), options.step = step;
  MAKAR_TRY(const auto rollouts, roll_out(*parts.language->loaded().model, device, ids, options));
  std::vector<RewardInput> answers;
  for (const Rollout& r : rollouts)
    answers.push_back({records[r.prompt], turns[r.prompt], text_of(r, parts.language->tokenizer()),
                       r.finish == Finish::kStop});
  MAKAR_TRY(SummedRewards summed, sum_rewards(parts.rewards, answers, device));
  std::vector<double>& rewards = summed.rewards;
  std::vector<std::vector<RewardedAnswer>> out(prompts.size());
  for (size_t i = 0; i < rollouts.size(); ++i) {
    if (!answers[i].finished) rewards[i] -= c.policy.missing_eos_penalty, sums.truncated += 1;
    sums.answers += 1, sums.reward += rewards[i];
    out[rollouts[i].prompt].push_back({answers[i].text, rewards[i], answers[i].finished});
  }
  for (const auto& list : out) {
    double best = -INFINITY;
    for (const RewardedAnswer& a : list)
      if (a.finished) best = std::max(best, a.reward);
    if (std::isfinite(best)) sums.prompts += 1, sums.best += best;
  }
  return out;
}

Status open_parts(BestCommand& c, PolicyParts& parts, Device& device) {
  MAKAR_TRY(parts.language, open_model(c.model, device));
  const LanguageModel& language = *parts.language;
  if (language.spec().head.kind != HeadKind::kCausalLm || language.spec().encoder)
    return error_of(Error::Kind::kUnsupported, c.model.model,
                    "a {} cannot answer prompts; use a causal language model", language.spec().architecture);
  if (!language.has_tokenizer())
    return error_of(Error::Kind::kNotFound, c.model.model, "has no tokenizer; sampling text needs it");
  if (language.stop_ids().empty())
    return error_at(c.model.model,
                    "has no end-of-text token, so no answer would end; add eos_token_id to its config.json");
  MAKAR_RETURN_IF_ERROR(open_rewards(c, parts, device));
  c.common.quiet = true;
  MAKAR_TRY(ChatTemplate chat, find_template(c, language));
  const int64_t context =
      language.spec().max_positions > 0 ? language.spec().max_positions : int64_t{1} << 20;
  if (context <= c.policy.max_new_tokens)
    return error_at("max_completion_length", "the model has {} positions, which leaves none for a prompt",
                    context);
  DatasetOptions data;
  data.train = c.files, data.validation_share = 0;
  data.folder = std::filesystem::temp_directory_path().string();
  if (!c.quiet) data.say = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
  const ConversationEncoder encoder(language.tokenizer(), std::move(chat), {context, false});
  Json identity;
  MAKAR_TRY(parts.prompts, open_policy_prompts(data, encoder, context - c.policy.max_new_tokens, identity,
                                               {.rewards = parts.rewards}));
  return Done{};
}

Status run(BestCommand& c, BestSums& sums) {
  MAKAR_TRY(const auto compute, c.model.open_device());
  PolicyParts parts;
  MAKAR_RETURN_IF_ERROR(open_parts(c, parts, *compute));
  BestOptions options{*best_form_named(c.form), c.keep, {}};
  if (std::isfinite(c.min_reward)) options.min_reward = c.min_reward;
  std::ofstream out(c.output, std::ios::binary | std::ios::trunc);
  if (!out) return error_at(c.output, "cannot be written: is its folder missing?");
  Progress progress(c.quiet || c.json);
  const auto& prompts = parts.prompts->train;
  for (size_t at = 0; at < prompts.size(); at += kPromptsPerBatch) {
    std::vector<PolicyPrompt> batch;
    for (size_t i = at; i < std::min(at + kPromptsPerBatch, prompts.size()); ++i) {
      MAKAR_TRY(batch.emplace_back(), prompts.read(i));
    }
    MAKAR_TRY(auto answers, sample_answers(c, parts, *compute, batch, at, sums));
    for (size_t i = 0; i < batch.size(); ++i) {
      MAKAR_TRY(const Json turns, parse_json(batch[i].turns, "prompt"));
      for (const Json& record : best_records(turns, std::move(answers[i]), options)) {
        out << record.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
        sums.records += 1;
      }
    }
    progress.show("prompts", at + batch.size(), prompts.size());
  }
  out.flush();
  if (!out) return error_at(c.output, "could not be written completely; is the disk full?");
  return Done{};
}

Status check_command(BestCommand& c, const Options& options) {
  if (!best_form_named(c.form))
    return error_at("form", "expected {}, got '{}'{}", fmt::join(best_form_names(), ", "), c.form,
                    did_you_mean(c.form, best_form_names()));
  if (c.policy.group < 2 || c.policy.group > 1024)
    return error_at("num_generations", "expected 2 to 1024, got {}", c.policy.group);
  if (c.policy.max_new_tokens < 1 || c.policy.max_new_tokens > 1 << 20)
    return error_at("max_completion_length", "expected 1 to {}, got {}", 1 << 20, c.policy.max_new_tokens);
  if (!(c.temperature > 0 && c.temperature <= 100))
    return error_at("temp", "expected above 0, up to 100, got {}; at 0 all answers would be equal",
                    c.temperature);
  if (c.keep < 1) return error_at("keep", "expected 1 or more, got {}", c.keep);
  if (options.given("--keep") && c.form != "best")
    return error_at("keep", "has no effect with --form {}; remove it", c.form);
  for (const std::string& text : c.rewards) MAKAR_RETURN_IF_ERROR(parse_reward_term(text));
  return Done{};
}

}  // namespace

int run_reward_best(const std::vector<std::string>& arguments) {
  BestCommand c;
  c.policy.max_new_tokens = 256;
  Options options("reward best",
                  "Sample several answers to each prompt and write the best of them as training data: "
                  "conversations for sft (rejection sampling), pairs for dpo, or rankings for reward.",
                  "makar reward best -m DIR prompts.jsonl --reward model=runs/reward -o best.jsonl");
  c.model.declare(options);
  c.model.declare_chat(options);
  options.group("Data");
  options.positional("FILE", &c.files, "files of prompts: prompt, messages, conversations or instruction")
      .required = true;
  options.add("-o --output --out", &c.output, "JSONL file to write", "FILE").required = true;
  options.add("--form", &c.form,
              "best (messages), pairs (prompt, chosen, rejected) or ranked (answers, ranks)", "NAME");
  options.add("--keep", &c.keep, "form best: number of answers to keep per prompt", "N");
  options.add("--min-reward", &c.min_reward, "drop prompts whose best answer has a lower reward", "X");
  options.group("Rewards");
  options
      .add("--reward", &c.rewards,
           "the reward of an answer: " + reward_term_forms() +
               "; add ,weight=X to weight it; repeat to sum several",
           "RULE")
      .required = true;
  declare_programs(options, c);
  options.add("--missing-eos-penalty", &c.policy.missing_eos_penalty,
              "subtracted from the reward of truncated answers", "X");
  options.group("Sampling");
  options.add("-n --num-generations", &c.policy.group, "answers per prompt", "N");
  options.add("--max-completion-length --max-new-tokens", &c.policy.max_new_tokens,
              "maximum number of tokens per answer", "N");
  options.add("--temp --temperature", &c.temperature, "sampling temperature", "X");
  options.add("--seed", &c.seed, "random seed", "N");
  options.group("Output");
  options.add("-q --quiet", &c.quiet, "print no progress");
  options.add("--json", &c.json, "print the figures as JSON");
  declare_device(options, c.model.device);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = check_command(c, options); !checked.ok()) return report(checked.error()), 2;
  BestSums s;
  if (const Status done = run(c, s); !done.ok()) return report(done.error());
  const double prompts = std::max(1.0, s.prompts), answers = std::max(1.0, s.answers);
  const auto n = static_cast<double>(c.policy.group);
  const double kl = std::log(n) - (n - 1) / n;  // bound on KL(best of n || sampled policy)
  if (c.json) {
    const Json out = {{"records", s.records},
                      {"prompts", s.prompts},
                      {"answers", s.answers},
                      {"reward", s.reward / answers},
                      {"best_reward", s.best / prompts},
                      {"truncated", s.truncated / answers},
                      {"kl_bound", kl}};
    fmt::print("{}\n", out.dump());
    return 0;
  }
  fmt::print(
      "{}: {} records; mean reward {:.4f}, best of {} {:.4f} (KL at most {:.3f}); {:.1f} % "
      "truncated\n",
      c.output, s.records, s.reward / answers, c.policy.group, s.best / prompts, kl,
      100 * s.truncated / answers);
  return 0;
}

}  // namespace makar
