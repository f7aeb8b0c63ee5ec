// makar distill: trains a student on the predictions of a teacher.
#include "train/distill.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "base/progress.h"
#include "cli/distill_student.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "train/conversation.h"
#include "train/denoise.h"
#include "train/model_identity.h"
#include "train/pairs.h"
#include "train/sampled_answers.h"

namespace makar {
namespace {

constexpr double kDistillLearningRate = 2e-5;

void declare(Options& o, Distill& s) {
  declare_common(o, s.common);
  o.group("Models");
  o.add("--teacher", &s.teacher, "the model to learn from: a folder, or a GGUF file", "DIR").required = true;
  o.add("-m --student --base-model", &s.base_model,
        "the model to train; or use --student-layers or --student-config", "DIR");
  o.add("--student-layers", &s.student_layers,
        "a new student: this many layers of the teacher, evenly spread, or the listed ones, such as 1,3,4,8",
        "N");
  o.add("--student-config", &s.student_config, "a new student with random weights: its config.json", "FILE");
  o.add("--chat-template", &s.chat_template, "chat template file to use instead of the model's own", "FILE");
  o.group("Objective");
  o.add("--loss-type --loss", &s.loss_type,
        "divergence of the student's distribution from the teacher's: forward (forward KL), reverse (reverse "
        "KL) or jensen_shannon",
        "NAME");
  o.add("--temperature", &s.temperature,
        "temperature of both distributions; the loss is multiplied by its square", "X");
  o.add("--alpha", &s.alpha,
        "weight of the loss on the teacher's predictions; the loss on the data has weight 1 - alpha", "X");
  o.add("--beta", &s.beta, "jensen_shannon: share of the teacher in the mixture", "X");
  o.add("--hidden-weight", &s.hidden_weight, "weight of the loss on hidden states; 0 for none", "X");
  o.add("--hidden-loss", &s.hidden_loss, "loss on hidden states: mse (TinyBERT) or cosine (DistilBERT)",
        "NAME");
  o.add("--attention-weight", &s.attention_weight, "weight of the loss on attention; 0 for none", "X");
  o.add("--attention-loss", &s.attention_loss,
        "loss on attention: mse of the scores (TinyBERT) or kl of the weights (MiniLM)", "NAME");
  o.add("--layer-map", &s.layer_map,
        "which layers are compared, STUDENT:TEACHER,...; 0 is the embedding; evenly spread if not set",
        "MAP");
  o.add("--sequence-len", &s.sequence_len, "maximum tokens per window of text or per conversation", "N");
  o.add("--sample-packing", &s.sample_packing,
        "pack conversations into examples of up to sequence_len tokens; attention does not cross "
        "conversations");
  o.group("Answers");
  o.add("--answers", &s.answers,
        "answers to train on: data: those of the data; teacher: sampled by the teacher before training "
        "(sequence-level); student: sampled by the student during training (on-policy)",
        "data|teacher|student");
  o.add("--student-share", &s.student_share,
        "--answers student: share of the steps with sampled answers; the others use the data's", "X");
  o.add("--temp", &s.sampled.temperature, "temperature of sampled answers; 0: the most probable tokens", "X");
  o.add("--num-generations", &s.sampled.answers, "--answers teacher: answers per prompt", "N");
  o.add("--max-completion-length --max-new-tokens", &s.sampled.max_new_tokens,
        "maximum number of tokens per answer", "N");
  o.add("--system-prompt", &s.system,
        "--answers teacher: a system message for the teacher only, such as a request to explain each step",
        "TEXT");
}

Status check_options(Distill& s, const Options& options) {
  const auto check_name = [](const char* key, const std::string& value,
                             const std::vector<std::string>& known) -> Status {
    if (std::find(known.begin(), known.end(), value) != known.end()) return Done{};
    return error_at(key, "expected {}, got '{}'{}", fmt::join(known, ", "), value,
                    did_you_mean(value, known));
  };
  const auto check_range = [](const char* key, double value, double low, double high) -> Status {
    if (value >= low && value <= high) return Done{};
    return error_at(key, "expected {} to {}, got {}", low, high, value);
  };
  MAKAR_RETURN_IF_ERROR(check_name("loss_type", s.loss_type, teacher_loss_names()));
  MAKAR_RETURN_IF_ERROR(check_name("hidden_loss", s.hidden_loss, {"mse", "cosine"}));
  MAKAR_RETURN_IF_ERROR(check_name("attention_loss", s.attention_loss, {"mse", "kl"}));
  MAKAR_RETURN_IF_ERROR(check_name("answers", s.answers, {"data", "teacher", "student"}));
  MAKAR_RETURN_IF_ERROR(check_range("temperature", s.temperature, 0.01, 100));
  MAKAR_RETURN_IF_ERROR(check_range("alpha", s.alpha, 0, 1));
  MAKAR_RETURN_IF_ERROR(check_range("beta", s.beta, 0.001, 0.999));
  MAKAR_RETURN_IF_ERROR(check_range("hidden_weight", s.hidden_weight, 0, 1e6));
  MAKAR_RETURN_IF_ERROR(check_range("attention_weight", s.attention_weight, 0, 1e6));
  MAKAR_RETURN_IF_ERROR(check_range("student_share", s.student_share, 0.001, 1));
  MAKAR_RETURN_IF_ERROR(check_range("temp", s.sampled.temperature, 0, 100));
  MAKAR_RETURN_IF_ERROR(check_range("num_generations", static_cast<double>(s.sampled.answers), 1, 1024));
  MAKAR_RETURN_IF_ERROR(
      check_range("max_completion_length", static_cast<double>(s.sampled.max_new_tokens), 1, 1 << 20));
  MAKAR_RETURN_IF_ERROR(check_range("sequence_len", static_cast<double>(s.sequence_len), 8, 1 << 24));
  const int students = !s.base_model.empty() + !s.student_layers.empty() + !s.student_config.empty();
  if (students != 1)
    return error_at("student",
                    "give one of --student DIR, --student-layers N (layers of the teacher) and "
                    "--student-config FILE (new weights), not {}",
                    students);
  // Rejects an option that is set but has no effect; `cure`: the option that gives it one.
  const auto check_effect = [&](const char* option, const char* key, bool used, const char* cure) -> Status {
    if (!options.given(option) || used) return Done{};
    return error_at(key, "has no effect without {}; add it, or remove this option", cure);
  };
  MAKAR_RETURN_IF_ERROR(
      check_effect("--beta", "beta", s.loss_type == "jensen_shannon", "--loss-type jensen_shannon"));
  MAKAR_RETURN_IF_ERROR(check_effect("--hidden-loss", "hidden_loss", s.hidden_weight > 0, "--hidden-weight"));
  MAKAR_RETURN_IF_ERROR(
      check_effect("--attention-loss", "attention_loss", s.attention_weight > 0, "--attention-weight"));
  MAKAR_RETURN_IF_ERROR(check_effect("--layer-map", "layer_map",
                                     s.hidden_weight > 0 || s.attention_weight > 0,
                                     "--hidden-weight or --attention-weight"));
  MAKAR_RETURN_IF_ERROR(
      check_effect("--student-share", "student_share", s.answers == "student", "--answers student"));
  MAKAR_RETURN_IF_ERROR(
      check_effect("--num-generations", "num_generations", s.answers == "teacher", "--answers teacher"));
  MAKAR_RETURN_IF_ERROR(
      check_effect("--system-prompt", "system_prompt", s.answers == "teacher", "--answers teacher"));
  MAKAR_RETURN_IF_ERROR(check_effect("--temp", "temp", s.answers != "data", "--answers teacher or student"));
  if (s.sample_packing && s.answers == "student" && s.student_share == 1)
    return error_at("sample_packing", "has no effect on answers of the student; remove it");
  if (s.attention_weight > 0 && s.common.loop.gradient_checkpointing)
    return error_at("attention_weight", "cannot be combined with gradient_checkpointing; remove one of them");
  s.sampled.seed = static_cast<uint64_t>(s.common.loop.seed);
  return Done{};
}

// Whether the first record is a conversation rather than a text.
Result<bool> has_conversations(const Distill& s) {
  MAKAR_TRY(const DatasetSpec spec, parse_dataset(s.common.datasets.at(0)));
  if (TokenStore::has(spec.path, "train")) return false;
  MAKAR_TRY(auto reader, RecordReader::open({spec.data()}));
  DataRecord record;
  MAKAR_TRY(const bool found, reader.next(record));
  if (!found) return false;
  const auto schema = spec.type.empty() ? detect_schema(record.value) : schema_named(spec.type);
  return schema && *schema != Schema::kText && *schema != Schema::kTextLabel;
}

Result<std::unique_ptr<Task>> text_task(Distill& s, DistillModels& m, ThreadPool& pool, Json& identity) {
  const ModelSpec& spec = m.student().spec();
  const bool causal = spec.head.kind == HeadKind::kCausalLm && !spec.encoder;
  const int64_t eos = causal && !spec.eos.empty() ? spec.eos.front() : -1;
  const SpecialIds special = SpecialIds::of(m.text().tokenizer());
  MAKAR_TRY(TokenDatasets data,
            open_token_datasets(dataset_options(s.common), m.text().tokenizer(), eos, pool, identity));
  const CausalOptions o{s.sequence_len, s.common.loop.micro_batch_size,
                        static_cast<uint64_t>(s.common.loop.seed), 0};
  if (causal)
    return std::unique_ptr<Task>(
        new CausalTask(m.student(), std::move(data.train), std::move(data.validation), o));
  MAKAR_TRY(const NoiseKind noise, DenoiseTask::noise_of(spec, special));
  return std::unique_ptr<Task>(
      new DenoiseTask(m.student(), std::move(data.train), std::move(data.validation), o, special, noise));
}

std::unique_ptr<Task> answer_task(const Distill& s, Model& student, ConversationStores data, Json& identity) {
  return conversation_task(s.common, student, std::move(data), 0, s.sample_packing ? s.sequence_len : 0,
                           identity);
}

Result<std::unique_ptr<Task>> sampled_task(Distill& s, DistillModels& m, Device& device,
                                           const ConversationEncoder& encoder, Json& identity) {
  const ModelSpec& spec = m.student().spec();
  s.sampled.stop = m.text().stop_ids();
  if (s.sampled.stop.empty())
    return error_at("student",
                    "has no end-of-text token, so no answer would end; add eos_token_id to its config.json");
  // A model without a position limit gets one that no conversation reaches.
  const int64_t positions = spec.max_positions > 0 ? spec.max_positions : int64_t{1} << 20;
  const int64_t context = s.sample_packing ? std::min(positions, s.sequence_len) : positions;
  if (context <= s.sampled.max_new_tokens)
    return error_at("max_completion_length",
                    "conversations have up to {} tokens, which leaves none for a prompt; lower it", context);
  const int64_t teacher_positions = m.teacher_model().spec().max_positions;
  const int64_t teacher_context = teacher_positions > 0 ? teacher_positions : int64_t{1} << 20;
  if (teacher_context <= s.sampled.max_new_tokens)
    return error_at("max_completion_length",
                    "the teacher has {} positions, which leaves none for a prompt; lower it",
                    teacher_context);
  const DatasetOptions datasets = dataset_options(s.common);
  MAKAR_TRY(
      PolicyPrompts prompts,
      open_policy_prompts(datasets, encoder, std::min(context, teacher_context) - s.sampled.max_new_tokens,
                          identity, {{}, s.system, teacher_context - s.sampled.max_new_tokens}));
  if (s.answers == "teacher") {
    Progress progress(s.common.quiet || s.common.json);
    MAKAR_TRY(ConversationStores data,
              sample_conversations({m.teacher_model(), device, s.sampled, s.system, &encoder,
                                    s.common.loop.output_dir + "/data/sampled", identity["teacher"],
                                    [&](size_t done, size_t all) { progress.show("sampling", done, all); }},
                                   prompts, identity));
    return answer_task(s, m.student(), std::move(data), identity);
  }
  std::unique_ptr<Task> data;
  if (s.student_share < 1) {
    Json conversation_identity;
    MAKAR_TRY(ConversationStores stores,
              open_conversations(datasets, encoder, spec.vocab, conversation_identity));
    identity["conversations"] = conversation_identity;
    data = answer_task(s, m.student(), std::move(stores), identity);
  }
  return std::unique_ptr<Task>(new StudentAnswersTask(m.student(), std::move(prompts), std::move(data),
                                                      s.student_share, s.common.loop.micro_batch_size,
                                                      s.common.loop.gradient_accumulation_steps, s.sampled));
}

Result<std::unique_ptr<Task>> data_task(Distill& s, DistillModels& m, Device& device, ThreadPool& pool,
                                        Json& identity) {
  const ModelSpec& spec = m.student().spec();
  const bool causal = spec.head.kind == HeadKind::kCausalLm && !spec.encoder;
  if (s.answers != "data" && !causal)
    return error_of(Error::Kind::kUnsupported, "answers", "a {} does not answer prompts; use --answers data",
                    spec.architecture);
  MAKAR_TRY(const bool conversations, has_conversations(s));
  if (s.sample_packing && s.answers == "data" && (!causal || !conversations))
    return error_of(
        Error::Kind::kUnsupported, "sample_packing", "packs conversations, {}; remove it",
        causal ? "and the data are texts" : fmt::format("which a {} is not trained on", spec.architecture));
  if (s.answers == "data" && spec.encoder && spec.decoder && conversations) {
    MAKAR_TRY(PairData data, open_pairs(dataset_options(s.common), m.text().tokenizer(),
                                        spec.eos.empty() ? 0 : spec.eos[0], s.sequence_len, identity));
    return std::unique_ptr<Task>(new PairTask(m.student(), std::move(data), s.common.loop.micro_batch_size,
                                              static_cast<uint64_t>(s.common.loop.seed), 0));
  }
  if (s.answers == "data" && (!causal || !conversations)) return text_task(s, m, pool, identity);
  MAKAR_TRY(ChatTemplate chat_template, find_template(s, m.text()));
  const ConversationEncoder encoder(m.text().tokenizer(), std::move(chat_template), {s.sequence_len, false});
  if (s.answers != "data") return sampled_task(s, m, device, encoder, identity);
  MAKAR_TRY(ConversationStores data,
            open_conversations(dataset_options(s.common), encoder, spec.vocab, identity));
  return answer_task(s, m.student(), std::move(data), identity);
}

Result<DistillOptions> objective(const Distill& s, const DistillModels& m) {
  DistillOptions o;
  o.loss = *teacher_loss_named(s.loss_type);
  o.temperature = static_cast<float>(s.temperature), o.beta = static_cast<float>(s.beta);
  o.alpha = static_cast<float>(s.alpha);
  o.hidden_weight = static_cast<float>(s.hidden_weight);
  o.attention_weight = static_cast<float>(s.attention_weight);
  o.hidden = s.hidden_loss == "mse" ? HiddenLoss::kSquare : HiddenLoss::kCosine;
  o.attention = s.attention_loss == "mse" ? AttentionLoss::kSquare : AttentionLoss::kDivergence;
  o.smoothing = static_cast<float>(s.common.loop.label_smoothing);
  o.seed = static_cast<uint64_t>(s.common.loop.seed);
  const int64_t student_layers = m.student().spec().main().layers(),
                teacher_layers = m.teacher_model().spec().main().layers();
  if (s.layer_map.empty() && s.student_layers.find(',') != std::string::npos) {
    MAKAR_TRY(const std::vector<int64_t> chosen, chosen_layers(s.student_layers, teacher_layers));
    o.layers = {{0, 0}};
    for (size_t i = 0; i < chosen.size(); ++i) o.layers.emplace_back(i + 1, chosen[i] + 1);
  } else if (s.layer_map.empty()) {
    o.layers = even_layers(student_layers, teacher_layers);
  } else {
    MAKAR_TRY(o.layers, parse_layer_map(s.layer_map, student_layers, teacher_layers, "layer_map"));
  }
  MAKAR_RETURN_IF_ERROR(DistillTask::check(m.student(), m.teacher_model(), o));
  return o;
}

int train(Distill& s, const std::string& command) {
  if (const Status ok = check_f32(s.common, "distill"); !ok.ok()) return report(ok.error());
  ThreadPool pool(static_cast<int>(s.common.threads));
  const auto compute = open_device_option(s.common.device, pool);
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  auto models = open_distill_models(s, device);
  if (!models.ok()) return report(models.error());
  DistillModels& m = **models;
  const auto options = objective(s, m);
  if (!options.ok()) return report(options.error());
  for (const Model* model : {&m.student(), &m.teacher_model()})  // both read every sequence
    if (const int64_t max = model->spec().max_positions; max > 0)
      s.sequence_len = std::min(s.sequence_len, max);
  say(s.common,
      fmt::format("student: {} layers, {} parameters; teacher: {} layers, {} parameters",
                  m.student().spec().main().layers(), m.student().parameters().count(),
                  m.teacher_model().spec().main().layers(), m.teacher_model().parameters().count()));
  // Hashes of the files: a resumed run must have the same weights, wherever they lie.
  const auto teacher_hash = model_identity(s.teacher);
  if (!teacher_hash.ok()) return report(teacher_hash.error());
  const auto student_hash = s.base_model.empty() ? Result<std::string>("new") : model_identity(s.base_model);
  if (!student_hash.ok()) return report(student_hash.error());
  Json identity = {{"teacher", *teacher_hash},
                   {"student", *student_hash},
                   {"student_layers", s.student_layers},
                   {"config", m.student().spec().config},
                   {"loss_type", s.loss_type},
                   {"temperature", s.temperature},
                   {"alpha", s.alpha},
                   {"beta", s.beta},
                   {"hidden", {s.hidden_weight, s.hidden_loss}},
                   {"attention", {s.attention_weight, s.attention_loss}},
                   {"layer_map", s.layer_map},
                   {"sequence_len", s.sequence_len},
                   {"answers", s.answers}};
  if (s.answers != "data")
    identity["sampling"] = {s.sampled.temperature, s.sampled.max_new_tokens, s.sampled.answers,
                            s.student_share, s.system};
  auto data = data_task(s, m, device, pool, identity);
  if (!data.ok()) return report(data.error());
  DistillTask task(m.student(), m.teacher_model(), std::move(*data), *options);
  const Tokenizer& tokenizer = m.text().tokenizer();
  const std::string& folder = m.text_folder(s);
  return run_job({s.common, m.loaded(), task, device, nullptr, &tokenizer, folder, "distilled", command,
                  identity, folder, tokenizer_config(folder, tokenizer), s.saved_template});
}

}  // namespace

int run_distill(const std::vector<std::string>& arguments) {
  Distill s;
  s.common.loop.output_dir = "runs/distill", s.common.loop.learning_rate = kDistillLearningRate;
  s.sequence_len = 512;
  Options options(
      "distill",
      "Train a student on the predictions of a teacher, on texts, conversations or sampled answers. "
      "A RECIPE.yaml and key=value arguments set options too.",
      "makar distill --teacher DIR --student-layers 4 -d text.jsonl -o runs/small");
  declare(options, s);
  if (const auto code = parse_training(options, arguments, s.common)) return *code;
  if (const Status checked = check_options(s, options); !checked.ok()) return report(checked.error()), 2;
  return train(s, command_line("distill", arguments));
}

}  // namespace makar
