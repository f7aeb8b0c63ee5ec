// makar dpo: trains a language model on pairs of answers, all weights or an adapter.
#include "train/dpo.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "cli/fine_tune.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "train/kto.h"

namespace makar {
namespace {

// A small rate: the rewards of all answers change with every step. Ten times that for adapters.
constexpr double kDpoLearningRate = 1e-6, kDpoAdapterLearningRate = 1e-5;

struct Dpo : FineTuneOptions {
  std::string ref_model, loss_type = "sigmoid";
  double beta = 0.1, gamma = 0.5, good_weight = 1, bad_weight = 1;
  bool single_answers() const { return loss_type == "kto"; }
  bool uses_reference() const { return loss_type != "simpo" && loss_type != "orpo"; }
};

std::vector<std::string> loss_names() {
  std::vector<std::string> out = preference_loss_names();
  out.emplace_back("kto");
  return out;
}

void declare(Options& o, Dpo& s) {
  declare_common(o, s.common);
  declare_base(o, s);
  o.add("--ref-model", &s.ref_model, "the frozen reference; by default the model as it is before training",
        "DIR");
  o.group("Objective");
  o.add(
      "--loss-type --loss", &s.loss_type,
      "sigmoid (DPO; --label-smoothing: the share of wrong labels), hinge, ipo, kto_pair; simpo and orpo (no "
      "reference); kto (single answers: prompt, completion, label)",
      "NAME");
  o.add(
      "--beta", &s.beta,
      "factor of the rewards: a larger one keeps the model closer to the reference (simpo: try 2; orpo: the "
      "weight of the odds ratio)",
      "X");
  o.add("--simpo-gamma", &s.gamma, "simpo: the margin that the rewards of a pair should have", "X");
  o.add("--desirable-weight", &s.good_weight, "kto: weight of the good answers", "X");
  o.add("--undesirable-weight", &s.bad_weight, "kto: weight of the bad answers", "X");
  o.add("--sequence-len", &s.sequence_len,
        "maximum tokens of prompt and answer; longer ones are truncated at the end", "N");
  declare_adapter(o, s);
}

Status check_options(const Dpo& s, const Options& options) {
  if (!preference_loss_named(s.loss_type) && !s.single_answers())
    return error_at("loss_type", "expected {}, got '{}'{}", fmt::join(loss_names(), ", "), s.loss_type,
                    did_you_mean(s.loss_type, loss_names()));
  for (const auto& [name, weight] :
       {std::pair("desirable_weight", s.good_weight), {"undesirable_weight", s.bad_weight}})
    if (!(weight >= 0 && weight <= 1000)) return error_at(name, "expected 0 to 1000, got {}", weight);
  if (!(s.beta > 0 && s.beta <= 1000))
    return error_at("beta", "expected above 0, up to 1000, got {}", s.beta);
  if (!(s.gamma >= 0 && s.gamma <= 1000))
    return error_at("simpo_gamma", "expected 0 to 1000, got {}", s.gamma);
  if (s.common.loop.label_smoothing >= 0.5)
    return error_at("label_smoothing", "expected less than 0.5, got {}: half of the labels would be wrong",
                    s.common.loop.label_smoothing);
  const auto check_effect = [&](const char* option, const char* key, const char* loss) -> Status {
    if (!options.given(option) || s.loss_type == loss) return Done{};
    return error_at(key, "has no effect with --loss-type {}; remove it, or use --loss-type {}", s.loss_type,
                    loss);
  };
  MAKAR_RETURN_IF_ERROR(check_effect("--label-smoothing", "label_smoothing", "sigmoid"));
  MAKAR_RETURN_IF_ERROR(check_effect("--simpo-gamma", "simpo_gamma", "simpo"));
  MAKAR_RETURN_IF_ERROR(check_effect("--desirable-weight", "desirable_weight", "kto"));
  MAKAR_RETURN_IF_ERROR(check_effect("--undesirable-weight", "undesirable_weight", "kto"));
  if (!s.ref_model.empty() && !s.uses_reference())
    return error_at("ref_model", "has no effect with --loss-type {}, which uses no reference; remove it",
                    s.loss_type);
  return Done{};
}

// Scores all answers with the reference model, which is then freed.
template <class T>
Status score_reference(const Dpo& s, LanguageModel& language, T& task, Device& device, Json& identity) {
  say(s.common, fmt::format("reference: scoring all answers with {}",
                            s.ref_model.empty() ? "the model before training" : s.ref_model));
  Model& model = *language.loaded().model;
  if (s.ref_model.empty()) {
    model.parameters().to(device.memory());
    return task.score_reference(Reference(model, activations_of(s.common.loop)), device, identity);
  }
  LanguageModelOptions options;
  options.weights = WeightUse::kMapped;
  MAKAR_TRY(LanguageModel reference, LanguageModel::open(s.ref_model, device, options));
  const ModelSpec& spec = reference.spec();
  if (spec.head.kind != HeadKind::kCausalLm || spec.encoder)
    return error_of(Error::Kind::kUnsupported, s.ref_model,
                    "a {} cannot be the reference; use a causal language model", spec.architecture);
  if (spec.vocab != model.spec().vocab ||
      (reference.has_tokenizer() && reference.tokenizer().to_json() != language.tokenizer().to_json()))
    return error_at(s.ref_model,
                    "has a different vocabulary from {}; the reference must read the same tokens",
                    s.base_model);
  reference.loaded().model->parameters().to(device.memory());
  return task.score_reference(Reference(*reference.loaded().model, activations_of(s.common.loop)), device,
                              identity);
}

Result<ConversationEncoder> encoder_of(Dpo& s, const LanguageModel& language) {
  if (!language.has_tokenizer())
    return error_of(Error::Kind::kNotFound, s.base_model, "has no tokenizer; training on text needs it");
  MAKAR_TRY(ChatTemplate chat, find_template(s, language));
  return ConversationEncoder(language.tokenizer(), std::move(chat), {s.sequence_len, false});
}

Result<std::unique_ptr<Task>> make_pair_task(Dpo& s, LanguageModel& language, Device& device,
                                             Json& identity) {
  const auto read_pairs = [&]() -> Result<AnswerPairs> {
    if (s.common.datasets[0].ends_with(".safetensors"))
      return read_fixed_pairs(s.common.datasets[0], s.common.loop.output_dir, language.spec().vocab);
    MAKAR_TRY(const ConversationEncoder encoder, encoder_of(s, language));
    return open_answer_pairs(dataset_options(s.common), encoder, identity);
  };
  MAKAR_TRY(AnswerPairs data, read_pairs());
  const DpoOptions options{*preference_loss_named(s.loss_type), static_cast<float>(s.beta),
                           static_cast<float>(s.common.loop.label_smoothing), static_cast<float>(s.gamma),
                           activations_of(s.common.loop)};
  auto task =
      std::make_unique<DpoTask>(*language.loaded().model, std::move(data), options,
                                s.common.loop.micro_batch_size, static_cast<uint64_t>(s.common.loop.seed));
  if (options.uses_reference()) MAKAR_RETURN_IF_ERROR(score_reference(s, language, *task, device, identity));
  return std::unique_ptr<Task>(std::move(task));
}

Result<std::unique_ptr<Task>> make_kto_task(Dpo& s, LanguageModel& language, Device& device, Json& identity) {
  MAKAR_TRY(const ConversationEncoder encoder, encoder_of(s, language));
  MAKAR_TRY(Ratings data, open_ratings(dataset_options(s.common), encoder, identity));
  const KtoOptions options{static_cast<float>(s.beta), static_cast<float>(s.good_weight),
                           static_cast<float>(s.bad_weight), activations_of(s.common.loop)};
  auto task =
      std::make_unique<KtoTask>(*language.loaded().model, std::move(data), options,
                                s.common.loop.micro_batch_size, static_cast<uint64_t>(s.common.loop.seed));
  MAKAR_RETURN_IF_ERROR(score_reference(s, language, *task, device, identity));
  return std::unique_ptr<Task>(std::move(task));
}

int train(Dpo& s, const std::string& command) {
  ThreadPool pool(static_cast<int>(s.common.threads));
  const auto compute = open_device_option(s.common.device, pool);
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  auto language = load_base(s, device, pool);
  if (!language.ok()) return report(language.error());
  const LoadedModel& loaded = language->loaded();
  const ModelSpec& spec = loaded.model->spec();
  if (spec.head.kind != HeadKind::kCausalLm || spec.encoder)
    return report(error_of(Error::Kind::kUnsupported, s.base_model,
                           "a {} is not a causal language model; makar dpo trains only those",
                           spec.architecture));
  if (spec.max_positions > 0) s.sequence_len = std::min(s.sequence_len, spec.max_positions);
  const auto adapter = open_adapter(s, loaded, device);
  if (!adapter.ok()) return report(adapter.error());
  print_trained_parameters(s.common, *loaded.model);
  Json identity = {{"base_model", s.base_model},
                   {"adapter", adapter->has_value() ? (*adapter)->scale() : 0.0f},
                   {"loss_type", s.loss_type},
                   {"beta", s.beta}};
  if (!s.quantize_base.empty()) identity["quantize_base"] = s.quantize_base;
  if (s.loss_type == "simpo") identity["simpo_gamma"] = s.gamma;
  if (s.single_answers()) identity["weights"] = {s.good_weight, s.bad_weight};
  const auto task = s.single_answers() ? make_kto_task(s, *language, device, identity)
                                       : make_pair_task(s, *language, device, identity);
  if (!task.ok()) return report(task.error());
  const Tokenizer* tokenizer = language->has_tokenizer() ? &language->tokenizer() : nullptr;
  return run_job({s.common, loaded, **task, device, adapter->has_value() ? &**adapter : nullptr, tokenizer,
                  s.base_model, "preference-tuned", command, identity, s.base_model,
                  tokenizer ? tokenizer_config(s.base_model, *tokenizer) : Json::object(), s.saved_template});
}

}  // namespace

int run_dpo(const std::vector<std::string>& arguments) {
  Dpo s;
  s.common.loop.output_dir = "runs/dpo", s.common.loop.learning_rate = kDpoLearningRate;
  Options options(
      "dpo",
      "Train a model to prefer the better of two answers (prompt, chosen, rejected), without a reward "
      "model. A RECIPE.yaml and key=value arguments set options too.",
      "makar dpo -m DIR -d pairs.jsonl --adapter lora -o runs/mine");
  declare(options, s);
  if (const auto code = parse_training(options, arguments, s.common)) return *code;
  Status checked = check_options(s, options);
  if (checked.ok()) checked = check_fine_tune(s, options, kDpoAdapterLearningRate);
  if (!checked.ok()) return report(checked.error()), 2;
  return train(s, command_line("dpo", arguments));
}

}  // namespace makar
