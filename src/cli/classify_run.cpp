// makar classify run: classifies texts in batches.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/classify_output.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "data/schema.h"
#include "infer/encode_job.h"
#include "llm/classify.h"
#include "train/classify.h"

namespace makar {
namespace {

std::string best_label(const float* row, int64_t n, const std::vector<std::string>& names) {
  return names[static_cast<size_t>(std::max_element(row, row + n) - row)];
}

// One parsed input line: its tokens, and for tagging its words with the first token of each.
struct InputRecord {
  LabelledText text;
  std::vector<std::string> words;
  std::vector<int64_t> first_tokens;
};

Result<InputRecord> read_words(const Json& record, const Tokenizer& tokenizer, int64_t max) {
  InputRecord input;
  if (record.contains("tokens") && record["tokens"].is_array()) {
    for (const Json& w : record["tokens"])
      input.words.push_back(w.is_string() ? w.get<std::string>() : w.dump());
  } else if (const Json* text = text_field(record); text && text->is_string()) {
    std::istringstream in(text->get<std::string>());
    for (std::string w; in >> w;) input.words.push_back(w);
  }
  if (input.words.empty()) return error_at("", "expected {{\"tokens\": [...]}} or a text");
  MAKAR_TRY(const WordPieces pieces, encode_words(tokenizer, input.words, max));
  input.text.ids = pieces.ids, input.first_tokens = pieces.first;
  input.words.resize(input.first_tokens.size());
  return input;
}

Result<InputRecord> read_text(const Json& record, const Tokenizer& tokenizer, int64_t max, bool question) {
  EncodeOptions o;
  o.add_special = true, o.truncation = Truncation{static_cast<size_t>(max)};
  const auto pair = text_pair_fields(record);
  const Json* text = pair.first ? pair.first : text_field(record);
  const auto is_text = [&](const char* key) { return record.contains(key) && record[key].is_string(); };
  if (question && !(is_text("question") && is_text("context")))
    return error_at("", "expected an object with \"question\" and \"context\"");
  if (!question && (!text || !text->is_string()))
    return error_at("", "expected an object with \"text\" or two texts");
  if (question) o.truncation->strategy = Truncation::Strategy::kOnlySecond;
  const auto encode = [&] {
    if (question)
      return tokenizer.encode_pair(record["question"].get_ref<const std::string&>(),
                                   record["context"].get_ref<const std::string&>(), o);
    if (pair.first)
      return tokenizer.encode_pair(pair.first->get_ref<const std::string&>(),
                                   pair.second->get_ref<const std::string&>(), o);
    return tokenizer.encode(text->get_ref<const std::string&>(), o);
  };
  MAKAR_TRY(const Encoding e, encode());
  InputRecord input;
  LabelledText& t = input.text;
  t.ids.assign(e.ids.begin(), e.ids.end()), t.types.assign(e.type_ids.begin(), e.type_ids.end());
  for (size_t i = 0; i < e.ids.size(); ++i)
    t.offsets.push_back(e.sequence_ids[i] == 1 && !e.special_mask[i] ? e.offsets[i] : Span{});
  if (question) t.context = record["context"].get<std::string>();
  if (t.ids.empty()) return error_at("", "the text is empty");
  return input;
}

// A record: {"text"}, two texts, {"tokens"}, or {"question", "context"}.
Result<InputRecord> read_record(const LanguageModel& language, const Json& record) {
  const ModelSpec& spec = language.spec();
  constexpr int64_t kDefaultMaxTokens = 4096;  // of models without a position limit
  const int64_t max = spec.max_positions > 0 ? spec.max_positions : kDefaultMaxTokens;
  if (spec.head.kind == HeadKind::kTokenClass) return read_words(record, language.tokenizer(), max);
  return read_text(record, language.tokenizer(), max, spec.head.kind == HeadKind::kQuestion);
}

ClassAnswer answer_of(const ModelSpec& spec, const InputRecord& input,
                      const std::map<std::string, Tensor>& outputs, const std::vector<std::string>& names) {
  if (spec.head.kind == HeadKind::kQuestion) {
    const auto logits_of = [&](const char* name) {
      const Tensor logits = outputs.at(name).host();
      return std::vector<float>(logits.f32(), logits.f32() + input.text.ids.size());
    };
    return {
        {{"answer", best_answer({&input.text, 1}, {logits_of("start_logits")}, {logits_of("end_logits")})}},
        {}};
  }
  const Tensor logits = outputs.at("logits").host();
  const int64_t classes = logits.dim(1);
  if (classes == 1) return {{{"score", logits.f32()[0]}}, {}};
  if (spec.head.kind != HeadKind::kTokenClass)
    return {{}, class_probabilities({logits.f32(), logits.f32() + classes}, is_multi_label(spec))};
  Json tags = Json::array();
  for (const int64_t token : input.first_tokens)
    tags.push_back(best_label(logits.f32() + token * classes, classes, names));
  return {{{"tokens", input.words}, {"tags", tags}}, {}};
}

// Classifies batches of records with the engine.
class BatchClassifier {
 public:
  BatchClassifier(const LanguageModel& language, Device& device)
      : language_(language), device_(device), names_(label_names(language.spec())) {
    EngineOptions o;
    o.step_tokens = 2048, o.share_prefixes = false;
    engine_.emplace(language.model(), device, o);
  }

  std::vector<Result<ClassAnswer>> run(const std::vector<Json>& records) {
    struct Work {
      Result<InputRecord> input;
      Batch batch;
      std::shared_ptr<EncodeJob> job;
    };
    std::vector<Work> all;
    for (const Json& record : records) {
      Work& work = all.emplace_back(Work{read_record(language_, record), {}, nullptr});
      if (!work.input.ok()) continue;
      work.batch = batch_of(language_.model(), {&work.input->text, 1});
      work.job = std::make_shared<EncodeJob>(work.batch.tokens, work.batch.types);
      engine_->submit(work.job);
    }
    engine_->run();
    Context ctx{device_};
    std::vector<Result<ClassAnswer>> out;
    for (Work& work : all) {
      if (work.input.ok() && work.job->error) work.input = *work.job->error;
      if (!work.input.ok()) {
        out.emplace_back(work.input.error());
        continue;
      }
      const Tensor states = work.job->states().to(device_.memory());
      out.emplace_back(answer_of(language_.spec(), *work.input,
                                 language_.model().outputs(ctx, states, work.batch), names_));
    }
    return out;
  }

 private:
  const LanguageModel& language_;
  Device& device_;
  std::vector<std::string> names_;
  std::optional<Engine> engine_;
};

}  // namespace

int run_classify_lines(const std::vector<std::string>& arguments) {
  ModelOptions model;
  ClassifyOutput output;
  Options options(
      "classify run",
      "Classify texts, tag tokens or answer questions: one result per line. Models trained with --method "
      "also have --perspective.",
      "echo 'a fine film' | makar classify run MODEL");
  model.declare(options, "MODEL");
  declare_device(options, model.device);
  output.declare(options,
                 "lines are JSON: {\"text\"}, {\"sentence1\", \"sentence2\"}, {\"tokens\"} or {\"question\", "
                 "\"context\"}");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto opened = open_on_device(model);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  const HeadKind kind = language->spec().head.kind;
  if (kind != HeadKind::kSequenceClass && kind != HeadKind::kTokenClass && kind != HeadKind::kQuestion)
    return report(error_of(Error::Kind::kUnsupported, model.model, "a {} does not classify texts",
                           language->spec().architecture));
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, model.model, "has no tokenizer"));
  BatchClassifier classifier(*language, device);
  return output.run({label_names(language->spec()), is_multi_label(language->spec())},
                    [&](const std::vector<Json>& records) { return classifier.run(records); });
}

}  // namespace makar
