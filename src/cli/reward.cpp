// makar reward: trains a model that scores answers, on rankings and pairs; makar reward score runs it.
#include "train/reward.h"

#include <fmt/format.h>

#include "base/file.h"
#include "cli/fine_tune.h"
#include "cli/model_options.h"
#include "cli/run.h"

namespace makar {

int run_reward_score(const std::vector<std::string>& arguments);    // reward_score.cpp
int run_reward_best(const std::vector<std::string>& arguments);     // reward_best.cpp
int run_reward_quality(const std::vector<std::string>& arguments);  // reward_quality.cpp

namespace {

constexpr double kRewardAdapterLearningRate = 1e-4;

struct Reward : FineTuneOptions {
  double margin = 0, centring = 0;
};

void declare(Options& o, Reward& s) {
  declare_common(o, s.common);
  declare_base(o, s);
  o.group("Objective");
  o.add("--margin", &s.margin, "margin by which the score of the better answer should be higher", "X");
  o.add("--center-rewards-coefficient", &s.centring,
        "weight of the squared sum of the scores of a pair, which keeps scores around 0 (try 0.01)", "X");
  o.add("--sequence-len", &s.sequence_len,
        "maximum tokens of prompt and answer; longer ones are truncated at the beginning", "N");
  o.group("Adapter");
  o.add("--adapter", &s.adapter,
        "lora: train an adapter and the head on the frozen model; the adapter is merged into the saved model",
        "KIND");
  declare_lora(o, s);
}

// Attaches the adapter to the frozen body; the head is trained in full.
Status adapt(const Reward& s, const LoadedModel& loaded, Device& device, Json& identity) {
  MAKAR_TRY(const auto adapter, open_adapter(s, loaded, device));
  if (!adapter) return Done{};
  for (const auto& p : loaded.model->parameters().all())
    if (p->name.starts_with("head.")) p->trainable = true;
  identity["adapter"] = {adapter->rank, adapter->scale(), adapter->dropout, adapter->targets};
  return Done{};
}

Status check_options(const Reward& s) {
  if (!(s.margin >= 0 && s.margin <= 1000)) return error_at("margin", "expected 0 to 1000, got {}", s.margin);
  if (!(s.centring >= 0 && s.centring <= 1000))
    return error_at("center_rewards_coefficient", "expected 0 to 1000, got {}", s.centring);
  if (s.sequence_len < 2) return error_at("sequence_len", "expected 2 or more, got {}", s.sequence_len);
  if (s.common.loop.label_smoothing > 0)
    return error_at("label_smoothing", "has no effect on makar reward; remove it");
  return Done{};
}

Result<Rankings> read_data(Reward& s, const LanguageModel& language, Json& identity) {
  if (s.common.datasets[0].ends_with(".safetensors")) {
    MAKAR_TRY(const AnswerPairs pairs,
              read_fixed_pairs(s.common.datasets[0], s.common.loop.output_dir, language.spec().vocab));
    return rankings_of(pairs, s.common.loop.output_dir);
  }
  if (!language.has_tokenizer())
    return error_of(Error::Kind::kNotFound, s.base_model, "has no tokenizer; training on text needs it");
  MAKAR_TRY(ChatTemplate chat, find_template(s, language));
  const ConversationEncoder encoder(language.tokenizer(), std::move(chat), {s.sequence_len, false, true});
  return open_rankings(dataset_options(s.common), encoder, identity);
}

// The calibration plot of the last validation.
Status write_calibration(const Reward& s, const RewardTask& task) {
  double pairs = 0;
  for (const double n : task.calibration().pairs) pairs += n;
  if (pairs == 0) return Done{};
  const std::string path = s.common.loop.output_dir + "/calibration.svg";
  MAKAR_RETURN_IF_ERROR(write_file(path, task.calibration().svg()));
  say(s.common, fmt::format("calibration on {} held-out pairs: {}", pairs, path));
  return Done{};
}

int train(Reward& s, const std::string& command) {
  const auto compute = open_device_option(s.common.device, s.common.threads);
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  LanguageModelOptions model_options;
  model_options.weights = WeightUse::kMapped;
  const auto language = LanguageModel::open(s.base_model, device, model_options);
  if (!language.ok()) return report(language.error());
  const ModelSpec& spec = language->spec();
  if (spec.max_positions > 0) s.sequence_len = std::min(s.sequence_len, spec.max_positions);
  const auto seed = static_cast<uint64_t>(s.common.loop.seed);
  const auto loaded = with_reward_head(language->model(), s.base_model, seed);
  if (!loaded.ok()) return report(loaded.error());
  Json identity = {
      {"base_model", s.base_model}, {"margin", s.margin}, {"center_rewards_coefficient", s.centring}};
  if (const Status adapted = adapt(s, *loaded, device, identity); !adapted.ok())
    return report(adapted.error()), 2;
  print_trained_parameters(s.common, *loaded->model);
  auto data = read_data(s, *language, identity);
  if (!data.ok()) return report(data.error());
  RewardTask task(*loaded->model, std::move(*data),
                  {static_cast<float>(s.margin), static_cast<float>(s.centring)},
                  s.common.loop.micro_batch_size, seed);
  const Tokenizer* tokenizer = language->has_tokenizer() ? &language->tokenizer() : nullptr;
  TrainJob job{
      s.common,        *loaded,      task,
      device,          nullptr,      tokenizer,
      s.base_model,    "trained",    command,
      identity,        s.base_model, tokenizer ? tokenizer_config(s.base_model, *tokenizer) : Json::object(),
      s.saved_template};
  job.merge = s.has_adapter();
  const int code = run_job(job);
  if (code != 0 || s.common.lr_find) return code;
  const Status written = write_calibration(s, task);
  return written.ok() ? 0 : report(written.error());
}

}  // namespace

int run_reward(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "score")
    return run_reward_score({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments[0] == "best")
    return run_reward_best({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments[0] == "quality")
    return run_reward_quality({arguments.begin() + 1, arguments.end()});
  Reward s;
  s.common.loop.output_dir = "runs/reward", s.common.loop.learning_rate = 1e-5;
  s.common.loop.micro_batch_size = 4;
  Options options(
      "reward",
      "Train a reward model: a language model with a head that scores answers, from pairs (prompt, chosen, "
      "rejected) or rankings (prompt, answers, ranks). A RECIPE.yaml and key=value arguments set options "
      "too.",
      "makar reward -m DIR -d ranked.jsonl -o runs/mine");
  options.subcommand("score", "score answers with a reward model");
  options.subcommand("quality", "train heads that rate qualities of answers");
  options.subcommand("best", "sample answers and keep the best");
  declare(options, s);
  if (const auto code = parse_training(options, arguments, s.common)) return *code;
  if (const Status ok = check_f32(s.common, "reward"); !ok.ok()) return report(ok.error());
  if (const Status checked = check_options(s); !checked.ok()) return report(checked.error()), 2;
  if (const Status checked = check_fine_tune(s, options, kRewardAdapterLearningRate); !checked.ok())
    return report(checked.error()), 2;
  if (s.adapter == "qlora")
    return report(error_of(Error::Kind::kUnsupported, "adapter",
                           "a reward model cannot be trained with qlora; use lora")),
           2;
  return train(s, command_line("reward", arguments));
}

}  // namespace makar
