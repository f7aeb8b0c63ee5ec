// makar classify: trains and runs heads for classification, regression, tagging and question answering.
#include "train/classify.h"

#include <fmt/format.h>

#include "base/file.h"
#include "cli/classify_lexical.h"
#include "cli/classify_senses.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/train_run.h"
#include "data/find_tokenizer.h"
#include "train/image.h"
#include "train/shapes.h"
#include "train/token_roles.h"

namespace makar {
namespace {

struct Classify {
  TrainCommon common;
  std::string base_model, config, teacher, method;
  int64_t max_length = 128, stride = 64, freeze_layers = 0;
  bool freeze_body = false, regression = false;
  ShapeOptions shape;  // of a new model; its type is empty without --model-type
  std::string tokenizer;
  int64_t vocab_size = 8192;
  std::string group_field;
  bool reweigh = false, adversary_sees_label = false;
  double adversary = 0;
};

void declare(Options& o, Classify& c) {
  declare_common(o, c.common);
  o.group("Model");
  o.add("-m --base-model --model", &c.base_model, "model folder to fine-tune with a new head", "MODEL");
  o.add("--config", &c.config, "images: config.json of a new model, instead of --model", "FILE");
  o.add("--teacher", &c.teacher, "DeiT: model folder of the teacher for the distillation token", "DIR");
  o.add("--freeze-body", &c.freeze_body, "train only the head");
  o.add("--freeze-layers", &c.freeze_layers, "freeze the embeddings and this many first layers", "N");
  o.add(
      "--method", &c.method,
      "train without a pretrained model: naive-bayes, logistic, svm, vectors, cnn, or hmm for tags; --method "
      "svm --help lists the options, such as --balanced",
      "NAME");
  o.group("New model");
  o.add("--model-type", &c.shape.type, "type of a new model, instead of --model: rnn, lstm or gru", "NAME");
  o.add("--layers --num-hidden-layers", &c.shape.layers, "number of layers", "N");
  o.add("--width --hidden-size", &c.shape.width,
        "hidden size; with --bidirectional, half of it per direction", "N");
  o.add("--bidirectional", &c.shape.bidirectional, "read texts in both directions");
  o.add("--dropout", &c.shape.dropout, "dropout after each layer", "X");
  o.add("--tokenizer", &c.tokenizer,
        "tokenizer file or folder, or the kind to train on the data: char, bpe, wordpiece or unigram; bpe if "
        "not set",
        "PATH");
  o.add("--vocab-size", &c.vocab_size, "vocabulary size of a tokenizer trained here", "N");
  o.group("Objective");
  o.add("--regression", &c.regression, "predict numbers: the labels are numbers, not classes");
  o.add("--max-length --sequence-len", &c.max_length,
        "maximum tokens per text; contexts of questions are split into windows", "N");
  o.add("--stride", &c.stride, "overlap of these windows in tokens", "N");
  o.group("Fairness");
  o.add("--group-field", &c.group_field, "field or column of the records with the demographic group", "NAME");
  o.add("--reweigh", &c.reweigh,
        "weigh examples so that the label is independent of the group in the training data");
  o.add("--adversary", &c.adversary,
        "train against an adversary that predicts the group from the output: the factor of its reversed "
        "gradient (try 1); 0 for no adversary",
        "X");
  o.add("--adversary-sees-label", &c.adversary_sees_label,
        "the adversary also sees the true label: equalized odds instead of demographic parity");
}

Status check_fairness(const Classify& c) {
  const bool debiased = c.reweigh || c.adversary > 0;
  if (!(c.adversary >= 0 && c.adversary <= 1000))
    return error_at("adversary", "expected 0 to 1000, got {}", c.adversary);
  if (debiased && c.group_field.empty())
    return error_at("group_field", "is needed by --reweigh and --adversary: the field with the group");
  if (!debiased && !c.group_field.empty())
    return error_at("group_field", "has no effect without --reweigh or --adversary");
  if (c.adversary_sees_label && !(c.adversary > 0))
    return error_at("adversary_sees_label", "has no effect without --adversary");
  if (c.reweigh && c.common.loop.label_smoothing > 0)
    return error_at("label_smoothing", "cannot be combined with --reweigh");
  return Done{};
}

// The tokenizer of the base model, or that of a new model.
Result<FoundTokenizer> text_tokenizer(const Classify& c, ThreadPool& pool) {
  if (c.shape.type.empty()) {
    if (c.base_model.empty())
      return error_at("base_model", "a model folder to fine-tune is needed, or --model-type for a new model");
    MAKAR_TRY(Tokenizer tokenizer, Tokenizer::load(c.base_model));
    return FoundTokenizer{std::move(tokenizer), c.base_model};
  }
  const std::string kind = c.tokenizer.empty() ? "bpe" : c.tokenizer;
  return find_tokenizer(
      path_exists(c.tokenizer) ? c.tokenizer : "", c.common.datasets,
      {kind, c.vocab_size, control_tokens(c.shape.type, kind), c.common.loop.output_dir + "/data/tokenizer"},
      pool);
}

// The base model, or a new one, with a new head.
Result<LoadedModel> text_model(Classify& c, const Tokenizer& tokenizer, const TokenRoles& roles,
                               const LabelledData& data) {
  const char* head = data.kind == LabelKind::kTags     ? "ForTokenClassification"
                     : data.kind == LabelKind::kAnswer ? "ForQuestionAnswering"
                                                       : "ForSequenceClassification";
  const auto seed = static_cast<uint64_t>(c.common.loop.seed);
  const bool regression = data.kind == LabelKind::kNumber;
  if (c.shape.type.empty()) return with_head(c.base_model, head, data.names, regression, seed);
  c.shape.vocab = static_cast<int64_t>(tokenizer.vocab_size());
  MAKAR_TRY(Json config, shape_config(c.shape));
  set_special_ids(config, roles, tokenizer);
  MAKAR_TRY(const LoadedModel body, make_model(Config(config, "config.json")));
  return with_head(*body.model, config, "", head, data.names, regression, seed);
}

Status check_new_model(const Classify& c) {
  if (c.shape.type.empty()) return Done{};
  if (!c.base_model.empty()) return error_at("model_type", "is for a new model; remove it or --model");
  if (!is_recurrent(c.shape.type))
    return error_at("model_type", "expected rnn, lstm or gru, got '{}'; other models start from --model",
                    c.shape.type);
  return Done{};
}

int train_texts(Classify& c, const std::string& command) {
  for (const Status& s : {check_f32(c.common, "classify"), check_new_model(c), check_fairness(c)})
    if (!s.ok()) return report(s.error()), 2;
  ThreadPool pool(static_cast<int>(c.common.threads));
  const auto compute = open_device_option(c.common.device, pool);
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  if (const Status s = make_folder(c.common.loop.output_dir); !s.ok()) return report(s.error());
  const auto found = text_tokenizer(c, pool);
  if (!found.ok()) return report(found.error());
  const Tokenizer& tokenizer = found->tokenizer;
  const TokenRoles roles = TokenRoles::of(tokenizer, found->folder);
  Json identity = {{"base_model", c.base_model},
                   {"max_length", c.max_length},
                   {"freeze_layers", c.freeze_layers},
                   {"freeze_body", c.freeze_body}};
  const auto data = open_labelled(dataset_options(c.common), tokenizer,
                                  {c.max_length, c.stride, c.regression, c.group_field}, identity);
  if (!data.ok()) return report(data.error());
  if (!c.group_field.empty())
    identity["debias"] = {c.group_field, c.reweigh, c.adversary, c.adversary_sees_label};
  const auto loaded = text_model(c, tokenizer, roles, *data);
  if (!loaded.ok()) return report(loaded.error());
  if (!c.shape.type.empty()) identity["config"] = loaded->model->spec().config;
  const int64_t max = loaded->model->spec().max_positions;
  if (max > 0 && c.max_length > max)
    return report(error_at("max_length", "the model has {} positions, got {}", max, c.max_length)), 2;
  if (c.freeze_body || c.freeze_layers > 0) freeze_body(*loaded->model, c.freeze_body ? -1 : c.freeze_layers);
  print_trained_parameters(c.common, *loaded->model);
  ClassifyTask task(*loaded->model, *data, c.common.loop.micro_batch_size,
                    static_cast<uint64_t>(c.common.loop.seed),
                    static_cast<float>(c.common.loop.label_smoothing));
  if (const Status s = task.debias({c.reweigh, static_cast<float>(c.adversary), c.adversary_sees_label});
      !s.ok())
    return report(s.error()), 2;
  TrainJob job{c.common,   *loaded,       task,         device,  nullptr,
               &tokenizer, found->folder, "fine-tuned", command, identity};
  if (!c.shape.type.empty()) job.kind = "trained", job.tokenizer_config = roles.to_json();
  return run_job(job);
}

Result<LoadedModel> image_model(const Classify& c) {
  if (c.config.empty()) return load_model(c.base_model, {true});
  MAKAR_TRY(const Json json, read_json(is_folder(c.config) ? c.config + "/config.json" : c.config));
  MAKAR_TRY(LoadedModel created, make_model(Config(json, c.config)));
  initialize(*created.model, static_cast<uint64_t>(c.common.loop.seed));
  return created;
}

int train_images(Classify& c, const std::string& command) {
  if (const Status ok = check_f32(c.common, "classify"); !ok.ok()) return report(ok.error());
  const auto compute = open_device_option(c.common.device, c.common.threads);
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  const auto loaded = image_model(c);
  if (!loaded.ok()) return report(loaded.error());
  Json identity = {
      {"config", loaded->model->spec().config}, {"base_model", c.base_model}, {"teacher", c.teacher}};
  auto images = open_images(*loaded->model, dataset_options(c.common), identity);
  if (!images.ok()) return report(images.error());
  std::optional<LoadedModel> teacher;
  if (!c.teacher.empty()) {
    auto t = load_model(c.teacher);
    if (!t.ok()) return report(t.error());
    if (const Status s = check_teacher(*loaded->model, *t->model, c.teacher); !s.ok())
      return report(s.error());
    teacher = std::move(*t);
  }
  ImageTask task(*loaded->model, std::move(images->train), std::move(images->validation),
                 c.common.loop.micro_batch_size, static_cast<uint64_t>(c.common.loop.seed),
                 static_cast<float>(c.common.loop.label_smoothing), teacher ? teacher->model.get() : nullptr);
  return run_job({c.common, *loaded, task, device, nullptr, nullptr, "", "trained", command, identity});
}

int run_train(const std::vector<std::string>& arguments) {
  if (is_lexical_training(arguments)) return run_classify_lexical(arguments);
  Classify c;
  c.shape.type.clear(), c.shape.layers = 1;
  c.common.loop.output_dir = "runs/classify";
  c.common.loop.learning_rate = 5e-5, c.common.loop.num_epochs = 3, c.common.loop.lr_scheduler = "linear";
  c.common.loop.micro_batch_size = 32, c.common.loop.weight_decay = 0.01;
  Options options(
      "classify train",
      "Train a head for classes, numbers, tags, answers or images; the data's schema decides which.",
      "makar classify train -m DIR -d train.tsv --val-datasets dev.tsv -o runs/mine");
  declare(options, c);
  if (const auto code = parse_training(options, arguments, c.common)) return *code;
  if (!c.method.empty())
    return report(
               error_at("--method", "is an option of the command line, not of a recipe or the environment")),
           2;
  const std::string command = command_line("classify train", arguments);
  // Images are in IDX files, named as MNIST's.
  if (c.common.datasets[0].find("idx3-ubyte") != std::string::npos) return train_images(c, command);
  return train_texts(c, command);
}

}  // namespace

int run_classify_lines(const std::vector<std::string>& arguments);   // classify_run.cpp
int run_classify_images(const std::vector<std::string>& arguments);  // classify_images.cpp

// makar classify run, with a file of `makar classify train --method` or with a model folder.
static int run_classifier(const std::vector<std::string>& arguments) {
  return lexical_model(arguments).empty() ? run_classify_lines(arguments)
                                          : run_classify_lexical_lines(arguments);
}

int run_classify(const std::vector<std::string>& arguments) {
  constexpr Command kClassifyCommands[] = {
      {"train", "train a classifier on labelled data", run_train},
      {"run", "classify texts", run_classifier},
      {"image", "classify images by --labels (CLIP) or the model's labels", run_classify_images},
      {"compare", "compare the methods that need no pretrained model", run_classify_compare},
      {"senses", "disambiguate word senses by labelled examples", run_classify_senses},
  };
  // `makar classify --labels "a cat,a dog" IMAGE` is short for `makar classify image`.
  const auto is_labels_flag = [](const std::string& word) {
    return word == "--labels" || word.starts_with("--labels=");
  };
  if (!arguments.empty() && arguments[0].starts_with("-") &&
      std::any_of(arguments.begin(), arguments.end(), is_labels_flag))
    return run_classify_images(arguments);
  return run_subcommand("classify", "Train and run classifiers of texts, tokens, answers and images.",
                        "makar classify train -m MODEL -d train.tsv -o runs/mine", kClassifyCommands,
                        arguments);
}

}  // namespace makar
