// makar classify: classes, numbers, tags and answers: train a head, and run it.
#include "train/classify.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <sstream>

#include "base/file.h"
#include "base/sha256.h"
#include "cli/run.h"
#include "cli/train_run.h"
#include "train/image.h"

namespace makar {
namespace {

struct Classify {
  TrainCommon common;
  std::string base_model, config, teacher;
  int64_t max_length = 128, stride = 64, freeze_layers = 0;
  bool freeze_body = false, regression = false;
};

void declare(Options& o, Classify& c) {
  declare_common(o, c.common);
  o.add("-m --base-model --model", &c.base_model, "the model folder whose body is fine-tuned", "DIR");
  o.add("--config", &c.config, "instead: the config.json of a new model (images)", "FILE");
  o.add("--max-length --sequence-len", &c.max_length, "tokens of a text; questions go in windows of it", "N");
  o.add("--stride", &c.stride, "how much windows overlap", "N");
  o.add("--freeze-body", &c.freeze_body, "train the head alone");
  o.add("--freeze-layers", &c.freeze_layers, "keep the embeddings and so many first layers as they are", "N");
  o.add("--regression", &c.regression, "labels are numbers to be predicted");
  o.add("--teacher", &c.teacher, "DeiT: a model folder whose answers the distillation token learns", "DIR");
}

void say_data(const Classify& c, const std::string& path, const LabelledData& d) {
  say(c.common, fmt::format("{}: {} examples (schema: {}{})", path, d.texts.size(), d.schema,
                            d.names.empty() ? "" : fmt::format(", {} labels", d.names.size())));
  if (d.bad.count > 0) say(c.common, fmt::format("{} records could not be used:", d.bad.count));
  for (const std::string& line : d.bad.told) say(c.common, "  " + line);
}

// Training and validation data; without files for the latter, a share of the former by hash.
Status read_data(const Classify& c, const Tokenizer& tokenizer, LabelledData& train, LabelledData& validation,
                 Json& identity) {
  LabelledOptions o{c.max_length, c.stride, c.regression};
  if (c.common.datasets.size() > 1 || c.common.val_datasets.size() > 1)
    return error_at("datasets", "classify takes one file or folder to train on and one to validate on");
  MAKAR_TRY(const DatasetSpec spec, parse_dataset(c.common.datasets[0]));
  MAKAR_TRY(train, read_labelled(spec.path, tokenizer, o));
  say_data(c, spec.path, train);
  validation.kind = train.kind, validation.names = train.names;
  if (!c.common.val_datasets.empty()) {
    MAKAR_TRY(const DatasetSpec held, parse_dataset(c.common.val_datasets[0]));
    MAKAR_TRY(validation, read_labelled(held.path, tokenizer, o, train.names));
    say_data(c, held.path, validation);
    if (validation.kind != train.kind)
      return error_at(held.path, "holds another kind of labels than the training data");
  } else if (c.common.val_set_size > 0) {
    std::vector<LabelledText> kept;
    for (LabelledText& t : train.texts) {
      // Windows of one question stay together: the split is by question, or by text.
      const std::string key =
          train.kind == LabelKind::kAnswer
              ? fmt::format("question {}", t.question)
              : std::string(reinterpret_cast<const char*>(t.ids.data()), t.ids.size() * sizeof(int64_t));
      (in_validation(key, c.common.val_set_size, 0) ? validation.texts : kept).push_back(std::move(t));
    }
    train.texts = std::move(kept);
  }
  Sha256 sum;
  for (const auto* d : {&train, &validation})
    for (const LabelledText& t : d->texts)
      sum.add(std::as_bytes(std::span(t.ids))), sum.add(std::as_bytes(std::span(t.tags)));
  identity["data"] = sum.hex();
  return Done{};
}

int train_texts(Classify& c, const std::string& command) {
  ThreadPool pool(static_cast<int>(c.common.threads));
  if (c.base_model.empty()) return report(error_at("base_model", "a model folder to fine-tune is needed")), 2;
  const auto tokenizer = Tokenizer::load(c.base_model);
  if (!tokenizer.ok()) return report(tokenizer.error());
  LabelledData train, validation;
  Json identity = {{"base_model", c.base_model},
                   {"max_length", c.max_length},
                   {"freeze_layers", c.freeze_layers},
                   {"freeze_body", c.freeze_body}};
  if (const Status s = read_data(c, *tokenizer, train, validation, identity); !s.ok())
    return report(s.error());
  const char* head = train.kind == LabelKind::kTags     ? "ForTokenClassification"
                     : train.kind == LabelKind::kAnswer ? "ForQuestionAnswering"
                                                        : "ForSequenceClassification";
  const auto seed = static_cast<uint64_t>(c.common.loop.seed);
  const auto loaded = with_head(c.base_model, head, train.names, train.kind == LabelKind::kNumber, seed);
  if (!loaded.ok()) return report(loaded.error());
  const int64_t most = loaded->model->spec().max_positions;
  if (most > 0 && c.max_length > most)
    return report(error_at("max_length", "the model has {} positions, got {}", most, c.max_length)), 2;
  if (c.freeze_body || c.freeze_layers > 0) freeze_body(*loaded->model, c.freeze_body ? -1 : c.freeze_layers);
  ClassifyTask task(*loaded->model, std::move(train), std::move(validation), c.common.loop.micro_batch_size,
                    seed, static_cast<float>(c.common.loop.label_smoothing));
  return run_job(
      {c.common, *loaded, task, pool, nullptr, &*tokenizer, c.base_model, "fine-tuned", command, identity});
}

Result<LoadedModel> image_model(const Classify& c) {
  if (c.config.empty()) return load_model(c.base_model, {true});
  MAKAR_TRY(const Json json, read_json(is_folder(c.config) ? c.config + "/config.json" : c.config));
  MAKAR_TRY(LoadedModel made, make_model(Config(json, c.config)));
  initialize(*made.model, static_cast<uint64_t>(c.common.loop.seed));
  return made;
}

Status check_images(const Model& model, const LabelledImages& images, const std::string& place) {
  if (!model.spec().encoder || !model.spec().encoder->embedding.patches || model.spec().head.labels < 1)
    return error_of(Error::Kind::kUnsupported, place, "a {} does not classify images",
                    model.spec().architecture);
  const PatchSpec& p = *model.spec().encoder->embedding.patches;
  if (p.image_height != images.height || p.image_width != images.width)
    return error_at(place, "the model takes images of {} x {}, these have {} x {}", p.image_height,
                    p.image_width, images.height, images.width);
  return Done{};
}

Status check_teacher(const Model& student, const Model& teacher, const std::string& place) {
  if (!student.spec().encoder->embedding.patches->distillation_token)
    return error_of(Error::Kind::kUnsupported, "teacher", "a {} has no distillation token to teach",
                    student.spec().architecture);
  const auto classes = teacher.spec().head.labels, wanted = student.spec().head.labels;
  const auto channels = teacher.spec().encoder->embedding.patches->channels;
  if (classes != wanted || channels != student.spec().encoder->embedding.patches->channels)
    return error_at(place, "the teacher knows {} classes of images with {} channels, the student has {}",
                    classes, channels, wanted);
  return Done{};
}

int train_images(Classify& c, const std::string& command) {
  ThreadPool pool(static_cast<int>(c.common.threads));
  auto train = read_labelled_images(c.common.datasets[0]);
  if (!train.ok()) return report(train.error());
  LabelledImages held;
  if (!c.common.val_datasets.empty()) {
    auto v = read_labelled_images(c.common.val_datasets[0]);
    if (!v.ok()) return report(v.error());
    held = std::move(*v);
  }
  const auto loaded = image_model(c);
  if (!loaded.ok()) return report(loaded.error());
  if (const Status s = check_images(*loaded->model, *train, c.common.datasets[0]); !s.ok())
    return report(s.error());
  if (held.count > 0)
    if (const Status s = check_images(*loaded->model, held, c.common.val_datasets[0]); !s.ok())
      return report(s.error());
  std::optional<LoadedModel> teacher;
  if (!c.teacher.empty()) {
    auto t = load_model(c.teacher);
    if (!t.ok()) return report(t.error());
    if (const Status s = check_images(*t->model, *train, c.teacher); !s.ok()) return report(s.error());
    if (const Status s = check_teacher(*loaded->model, *t->model, c.teacher); !s.ok())
      return report(s.error());
    teacher = std::move(*t);
  }
  Json identity = {{"config", loaded->model->spec().config},
                   {"base_model", c.base_model},
                   {"teacher", c.teacher},
                   {"data", sha256_of(std::string_view(reinterpret_cast<const char*>(train->pixels.data()),
                                                       train->pixels.size()))}};
  say(c.common, fmt::format("{} images to learn, {} to validate on", train->count, held.count));
  ImageTask task(*loaded->model, std::move(*train), std::move(held), c.common.loop.micro_batch_size,
                 static_cast<uint64_t>(c.common.loop.seed), static_cast<float>(c.common.loop.label_smoothing),
                 teacher ? teacher->model.get() : nullptr);
  return run_job({c.common, *loaded, task, pool, nullptr, nullptr, "", "trained", command, identity});
}

int run_train(const std::vector<std::string>& arguments) {
  Classify c;
  c.common.loop.learning_rate = 5e-5, c.common.loop.num_epochs = 3, c.common.loop.lr_scheduler = "linear";
  c.common.loop.micro_batch_size = 32, c.common.loop.weight_decay = 0.01;
  Options options(
      "classify train",
      "Trains a head for classes, numbers, tags, answers or images; the data's schema decides which.",
      "makar classify train -m DIR -d train.tsv --val-data dev.tsv -o run");
  declare(options, c);
  if (const auto code = parse_training(options, arguments, c.common)) return *code;
  const std::string command = command_line("classify train", arguments);
  if (c.common.datasets[0].find("idx3-ubyte") != std::string::npos) return train_images(c, command);
  return train_texts(c, command);
}

Json probabilities(const float* row, int64_t n, const std::vector<std::string>& names) {
  double sum = 0;
  const float most = *std::max_element(row, row + n);
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(row[i] - most));
  const int64_t best = std::max_element(row, row + n) - row;
  return {{"label", names[static_cast<size_t>(best)]}, {"score", 1.0 / sum}};
}

// One line of input: a text, or JSON {"text"}, {"tokens"}, {"question", "context"}.
Result<Json> answer_line(const Model& model, const Tokenizer& tokenizer, ThreadPool& pool,
                         const std::vector<std::string>& names, const std::string& line, bool jsonl) {
  Json record = {{"text", line}};
  if (jsonl) {
    MAKAR_TRY(record, parse_json(line, "", {size_t{16} << 20, 64}));
    if (!record.is_object()) return error_at("", "a record must be an object");
  }
  const int64_t most = model.spec().max_positions > 0 ? model.spec().max_positions : 4096;
  LabelledText t;
  std::vector<int64_t> first;
  std::vector<std::string> words;
  if (model.spec().head.kind == HeadKind::kTokenClass) {
    if (record.contains("tokens") && record["tokens"].is_array())
      for (const Json& w : record["tokens"]) words.push_back(w.is_string() ? w.get<std::string>() : w.dump());
    else if (const Json* text = text_field(record); text && text->is_string()) {
      std::istringstream in(text->get<std::string>());
      for (std::string w; in >> w;) words.push_back(w);
    }
    if (words.empty()) return error_at("", "expected {{\"tokens\": [...]}} or a text");
    MAKAR_TRY(const WordPieces pieces, encode_words(tokenizer, words, most));
    t.ids = pieces.ids, first = pieces.first;
  } else {
    EncodeOptions o;
    o.add_special = true, o.truncation = Truncation{static_cast<size_t>(most)};
    const Json* text = text_field(record);
    const bool question = model.spec().head.kind == HeadKind::kQuestion;
    if (question && !(record.contains("question") && record["question"].is_string() &&
                      record.contains("context") && record["context"].is_string()))
      return error_at("", "expected {{\"question\", \"context\"}}");
    if (!question && (!text || !text->is_string())) return error_at("", "expected a text");
    if (question) o.truncation->strategy = Truncation::Strategy::kOnlySecond;
    const auto encode = [&] {
      return question ? tokenizer.encode_pair(record["question"].get_ref<const std::string&>(),
                                              record["context"].get_ref<const std::string&>(), o)
                      : tokenizer.encode(text->get_ref<const std::string&>(), o);
    };
    MAKAR_TRY(const Encoding e, encode());
    t.ids.assign(e.ids.begin(), e.ids.end()), t.types.assign(e.type_ids.begin(), e.type_ids.end());
    for (size_t i = 0; i < e.ids.size(); ++i)
      t.offsets.push_back(e.type_ids[i] == 1 && !e.special_mask[i] ? e.offsets[i] : Span{});
    if (question) t.context = record["context"].get<std::string>();
    if (t.ids.empty()) return error_at("", "the text is empty");
  }
  const LabelledText* one[] = {&t};
  const auto outputs = head_outputs(model, pool, batch_of(model, one));
  if (model.spec().head.kind == HeadKind::kQuestion) {
    const auto list = [&](const char* name) {
      return std::vector<float>(outputs.at(name).f32(), outputs.at(name).f32() + t.ids.size());
    };
    return Json{{"answer", best_answer(one, {list("start_logits")}, {list("end_logits")})}};
  }
  const Tensor& logits = outputs.at("logits");
  const int64_t classes = logits.dim(1);
  if (classes == 1) return Json{{"score", logits.f32()[0]}};
  if (model.spec().head.kind != HeadKind::kTokenClass) return probabilities(logits.f32(), classes, names);
  Json tags = Json::array();
  for (const int64_t f : first)
    tags.push_back(probabilities(logits.f32() + f * classes, classes, names)["label"]);
  words.resize(first.size());
  return Json{{"tokens", words}, {"tags", tags}};
}

int run_run(const std::vector<std::string>& arguments) {
  std::string folder, text;
  int64_t threads = 0;
  bool jsonl = false;
  Options options("classify run",
                  "Classifies, tags or answers: one line of standard input (or --text) a result.",
                  "echo 'a fine film' | makar classify run -m run");
  options.add("-m --model", &folder, "a model folder with a classification, tagging or answering head", "DIR")
      .required = true;
  options.add("--text", &text, "this text instead of standard input", "TEXT");
  options.add("--jsonl", &jsonl, "lines are JSON: {\"text\"}, {\"tokens\"} or {\"question\", \"context\"}");
  options.add("-t --threads", &threads, "0: one for each core", "N");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  ThreadPool pool(static_cast<int>(std::clamp<int64_t>(threads, 0, 256)));
  const auto loaded = load_model(folder);
  if (!loaded.ok()) return report(loaded.error());
  const HeadKind kind = loaded->model->spec().head.kind;
  if (kind != HeadKind::kSequenceClass && kind != HeadKind::kTokenClass && kind != HeadKind::kQuestion)
    return report(error_of(Error::Kind::kUnsupported, folder, "a {} does not classify texts",
                           loaded->model->spec().architecture));
  const auto tokenizer = Tokenizer::load(folder);
  if (!tokenizer.ok()) return report(tokenizer.error());
  std::vector<std::string> names;
  const Json& config = loaded->model->spec().config;
  for (int64_t i = 0; i < loaded->model->spec().head.labels; ++i) {
    const std::string key = std::to_string(i);
    const bool named = config.contains("id2label") && config["id2label"].contains(key) &&
                       config["id2label"][key].is_string();
    names.push_back(named ? config["id2label"][key].get<std::string>() : "LABEL_" + key);
  }
  int64_t number = 0;
  const auto one = [&](const std::string& line) {
    ++number;
    const auto answer = answer_line(*loaded->model, *tokenizer, pool, names, line, jsonl);
    const Json out =
        answer.ok() ? *answer : Json{{"error", {{"message", answer.error().message}, {"line", number}}}};
    fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
  };
  if (!text.empty()) return one(text), 0;
  for (std::string line; std::getline(std::cin, line);) one(line);
  return 0;
}

}  // namespace

int run_classify(const std::vector<std::string>& arguments) {
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  if (!arguments.empty() && arguments[0] == "train") return run_train(rest);
  if (!arguments.empty() && arguments[0] == "run") return run_run(rest);
  const bool help = !arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h");
  fmt::print(help ? stdout : stderr,
             "Classes, numbers, tags, answers and images: trains a head, and runs it.\n\n"
             "usage: makar classify SUBCOMMAND [options]\n\n"
             "  train        fine-tune a model on labelled data\n"
             "  run          classify lines of text\n\n"
             "example: makar classify train -m DIR -d train.tsv -o run\n");
  return help ? 0 : 2;
}

}  // namespace makar
