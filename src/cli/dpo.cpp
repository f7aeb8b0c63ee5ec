// makar dpo: trains a language model on pairs of answers, all weights or an adapter.
#include "train/dpo.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "cli/fine_tuned.h"
#include "cli/model_options.h"
#include "cli/run.h"

namespace makar {
namespace {

// A small rate: the rewards of all answers change with every step. Ten times that for adapters.
constexpr double kDpoRate = 1e-6, kDpoAdapterRate = 1e-5;

struct Dpo : FineTuned {
  std::string ref_model, loss_type = "sigmoid";
  double beta = 0.1, gamma = 0.5;
};

void declare(Options& o, Dpo& s) {
  declare_common(o, s.common);
  declare_base(o, s);
  o.add("--ref-model", &s.ref_model, "the frozen reference; by default the model as it is before training",
        "DIR");
  o.group("Objective");
  o.add("--loss-type --loss", &s.loss_type,
        "sigmoid (DPO; --label-smoothing: the share of wrong labels), hinge, ipo or simpo (no reference)",
        "NAME");
  o.add("--beta", &s.beta,
        "factor of the rewards: a larger one keeps the model closer to the reference (simpo: try 2)", "X");
  o.add("--simpo-gamma", &s.gamma, "simpo: the margin that the rewards of a pair should have", "X");
  o.add("--sequence-len", &s.sequence_len, "tokens of prompt and answer; longer ones are cut at their end",
        "N");
  declare_adapter(o, s);
}

Status check_options(const Dpo& s, const Options& options) {
  if (!preference_loss_named(s.loss_type))
    return error_at("loss_type", "expected {}, got '{}'{}", fmt::join(preference_loss_names(), ", "),
                    s.loss_type, did_you_mean(s.loss_type, preference_loss_names()));
  if (!(s.beta > 0 && s.beta <= 1000)) return error_at("beta", "expected a number above 0, got {}", s.beta);
  if (!(s.gamma >= 0 && s.gamma <= 1000))
    return error_at("simpo_gamma", "expected 0 or more, got {}", s.gamma);
  if (s.common.loop.label_smoothing >= 0.5)
    return error_at("label_smoothing", "expected less than 0.5, got {}: half of the labels would be wrong",
                    s.common.loop.label_smoothing);
  const auto only = [&](const char* option, const char* key, const char* loss) -> Status {
    if (!options.given(option) || s.loss_type == loss) return Done{};
    return error_at(key, "has no effect with --loss-type {}; remove it, or use --loss-type {}", s.loss_type,
                    loss);
  };
  MAKAR_CHECK_OK(only("--label-smoothing", "label_smoothing", "sigmoid"));
  MAKAR_CHECK_OK(only("--simpo-gamma", "simpo_gamma", "simpo"));
  if (!s.ref_model.empty() && s.loss_type == "simpo")
    return error_at("ref_model", "has no effect with --loss-type simpo, which uses no reference; remove it");
  return Done{};
}

// Scores all answers with the reference, and frees it.
Status score_reference(const Dpo& s, LanguageModel& language, DpoTask& task, Device& device, Json& identity) {
  Model& model = *language.loaded().model;
  if (s.ref_model.empty()) {
    model.parameters().to(device.memory());
    return task.score_reference(Reference(model), device, identity);
  }
  LanguageModelOptions options;
  options.weights = WeightUse::kMapped;
  MAKAR_TRY(LanguageModel other, LanguageModel::open(s.ref_model, device, options));
  const ModelSpec& spec = other.spec();
  if (spec.head.kind != HeadKind::kCausalLm || spec.encoder)
    return error_of(Error::Kind::kUnsupported, s.ref_model,
                    "a {} cannot be the reference; use a causal language model", spec.architecture);
  if (spec.vocab != model.spec().vocab ||
      (other.has_tokenizer() && other.tokenizer().to_json() != language.tokenizer().to_json()))
    return error_at(s.ref_model, "has another vocabulary than {}; the reference must read the same tokens",
                    s.base_model);
  other.loaded().model->parameters().to(device.memory());
  return task.score_reference(Reference(*other.loaded().model), device, identity);
}

Result<AnswerPairs> read_pairs(Dpo& s, const LanguageModel& language, Json& identity) {
  MAKAR_TRY(ChatTemplate chat, find_template(s, language));
  const ConversationEncoder encoder(language.tokenizer(), std::move(chat), {s.sequence_len, false});
  return open_answer_pairs(dataset_options(s.common), encoder, identity);
}

int train(Dpo& s, const std::string& command) {
  ThreadPool pool(static_cast<int>(s.common.threads));
  const auto compute = open_compute(s.common.device, pool);
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  auto language = load_base(s, device, pool);
  if (!language.ok()) return report(language.error());
  const LoadedModel& loaded = language->loaded();
  const ModelSpec& spec = loaded.model->spec();
  if (spec.head.kind != HeadKind::kCausalLm || spec.encoder)
    return report(error_of(Error::Kind::kUnsupported, s.base_model,
                           "a {} is no causal language model; makar dpo trains only those",
                           spec.architecture));
  const bool given = s.common.datasets[0].ends_with(".safetensors");
  if (!given && !language->has_tokenizer())
    return report(
        error_of(Error::Kind::kNotFound, s.base_model, "has no tokenizer; training on text needs it"));
  if (spec.max_positions > 0) s.sequence_len = std::min(s.sequence_len, spec.max_positions);
  const auto adapter = put_adapter(s, loaded, device);
  if (!adapter.ok()) return report(adapter.error());
  say_trained_parameters(s.common, *loaded.model);
  Json identity = {{"base_model", s.base_model},
                   {"adapter", adapter->has_value() ? (*adapter)->scale() : 0.0f},
                   {"loss_type", s.loss_type},
                   {"beta", s.beta}};
  if (!s.quantize_base.empty()) identity["quantize_base"] = s.quantize_base;
  if (s.loss_type == "simpo") identity["simpo_gamma"] = s.gamma;
  auto data = given ? read_given_pairs(s.common.datasets[0], s.common.loop.output_dir, spec.vocab)
                    : read_pairs(s, *language, identity);
  if (!data.ok()) return report(data.error());
  const DpoOptions options{*preference_loss_named(s.loss_type), static_cast<float>(s.beta),
                           static_cast<float>(s.common.loop.label_smoothing), static_cast<float>(s.gamma)};
  DpoTask task(*loaded.model, std::move(*data), options, s.common.loop.micro_batch_size,
               static_cast<uint64_t>(s.common.loop.seed));
  if (options.uses_reference()) {
    say(s.common, fmt::format("reference: scoring all answers with {}",
                              s.ref_model.empty() ? "the model before training" : s.ref_model));
    if (const Status scored = score_reference(s, *language, task, device, identity); !scored.ok())
      return report(scored.error());
  }
  const Tokenizer* tokenizer = language->has_tokenizer() ? &language->tokenizer() : nullptr;
  return run_job({s.common, loaded, task, device, adapter->has_value() ? &**adapter : nullptr, tokenizer,
                  s.base_model, "preference-tuned", command, identity, s.base_model,
                  tokenizer ? tokenizer_config(s.base_model, *tokenizer) : Json::object(), s.used_template});
}

}  // namespace

int run_dpo(const std::vector<std::string>& arguments) {
  Dpo s;
  s.common.loop.output_dir = "runs/dpo", s.common.loop.learning_rate = kDpoRate;
  Options options(
      "dpo",
      "Train a model to prefer the better of two answers (prompt, chosen, rejected), without a reward "
      "model. A RECIPE.yaml and key=value words set options too.",
      "makar dpo -m DIR -d pairs.jsonl --adapter lora -o runs/mine");
  declare(options, s);
  if (const auto code = parse_training(options, arguments, s.common)) return *code;
  Status checked = check_options(s, options);
  if (checked.ok()) checked = check_fine_tuned(s, options, kDpoAdapterRate);
  if (!checked.ok()) return report(checked.error()), 2;
  return train(s, command_line("dpo", arguments));
}

}  // namespace makar
