// makar classify run: classifies lines of text in batches.
#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/tokenizer_options.h"
#include "infer/read_job.h"
#include "llm/classify.h"
#include "train/classify.h"

namespace makar {
namespace {

Json label_of(const float* row, int64_t n, const std::vector<std::string>& names) {
  double sum = 0;
  const float most = *std::max_element(row, row + n);
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(row[i] - most));
  const int64_t best = std::max_element(row, row + n) - row;
  return {{"label", names[static_cast<size_t>(best)]}, {"score", 1.0 / sum}};
}

// One parsed input line: its tokens, and for tagging its words with the first token of each.
struct Asked {
  LabelledText text;
  std::vector<std::string> words;
  std::vector<int64_t> first;
};

Result<Asked> read_words(const Json& record, const Tokenizer& tokenizer, int64_t most) {
  Asked asked;
  if (record.contains("tokens") && record["tokens"].is_array()) {
    for (const Json& w : record["tokens"])
      asked.words.push_back(w.is_string() ? w.get<std::string>() : w.dump());
  } else if (const Json* text = text_field(record); text && text->is_string()) {
    std::istringstream in(text->get<std::string>());
    for (std::string w; in >> w;) asked.words.push_back(w);
  }
  if (asked.words.empty()) return error_at("", "expected {{\"tokens\": [...]}} or a text");
  MAKAR_TRY(const WordPieces pieces, encode_words(tokenizer, asked.words, most));
  asked.text.ids = pieces.ids, asked.first = pieces.first;
  asked.words.resize(asked.first.size());
  return asked;
}

Result<Asked> read_text(const Json& record, const Tokenizer& tokenizer, int64_t most, bool question) {
  EncodeOptions o;
  o.add_special = true, o.truncation = Truncation{static_cast<size_t>(most)};
  const Json* text = text_field(record);
  const auto is_text = [&](const char* key) { return record.contains(key) && record[key].is_string(); };
  if (question && !(is_text("question") && is_text("context")))
    return error_at("", "expected {{\"question\", \"context\"}}");
  if (!question && (!text || !text->is_string())) return error_at("", "expected a text");
  if (question) o.truncation->strategy = Truncation::Strategy::kOnlySecond;
  const auto encode = [&] {
    return question ? tokenizer.encode_pair(record["question"].get_ref<const std::string&>(),
                                            record["context"].get_ref<const std::string&>(), o)
                    : tokenizer.encode(text->get_ref<const std::string&>(), o);
  };
  MAKAR_TRY(const Encoding e, encode());
  Asked asked;
  LabelledText& t = asked.text;
  t.ids.assign(e.ids.begin(), e.ids.end()), t.types.assign(e.type_ids.begin(), e.type_ids.end());
  for (size_t i = 0; i < e.ids.size(); ++i)
    t.offsets.push_back(e.sequence_ids[i] == 1 && !e.special_mask[i] ? e.offsets[i] : Span{});
  if (question) t.context = record["context"].get<std::string>();
  if (t.ids.empty()) return error_at("", "the text is empty");
  return asked;
}

// One line of input: a text, or JSON {"text"}, {"tokens"}, {"question", "context"}.
Result<Asked> read_line(const LanguageModel& language, const std::string& line, bool jsonl) {
  Json record = {{"text", line}};
  if (jsonl) {
    MAKAR_TRY(record, parse_json(line, "", {size_t{16} << 20, 64}));
    if (!record.is_object()) return error_at("", "a record must be an object");
  }
  const ModelSpec& spec = language.spec();
  const int64_t most = spec.max_positions > 0 ? spec.max_positions : 4096;
  if (spec.head.kind == HeadKind::kTokenClass) return read_words(record, language.tokenizer(), most);
  return read_text(record, language.tokenizer(), most, spec.head.kind == HeadKind::kQuestion);
}

Json answer_of(const ModelSpec& spec, const Asked& asked, const std::map<std::string, Tensor>& outputs,
               const std::vector<std::string>& names) {
  if (spec.head.kind == HeadKind::kQuestion) {
    const auto list = [&](const char* name) {
      const Tensor logits = outputs.at(name).host();
      return std::vector<float>(logits.f32(), logits.f32() + asked.text.ids.size());
    };
    return {{"answer", best_answer({&asked.text, 1}, {list("start_logits")}, {list("end_logits")})}};
  }
  const Tensor logits = outputs.at("logits").host();
  const int64_t classes = logits.dim(1);
  if (classes == 1) return {{"score", logits.f32()[0]}};
  if (spec.head.kind != HeadKind::kTokenClass) return label_of(logits.f32(), classes, names);
  Json tags = Json::array();
  for (const int64_t f : asked.first)
    tags.push_back(label_of(logits.f32() + f * classes, classes, names)["label"]);
  return {{"tokens", asked.words}, {"tags", tags}};
}

// Batches all lines that have arrived through the engine.
class Runner {
 public:
  Runner(const LanguageModel& language, Device& device, bool jsonl)
      : language_(language), device_(device), jsonl_(jsonl), names_(label_names(language.spec())) {
    EngineOptions o;
    o.step_tokens = 2048, o.share_prefixes = false;
    engine_.emplace(language.model(), device, o);
  }

  bool run(const std::vector<std::string_view>& lines, size_t number) {
    struct Work {
      Result<Asked> asked;
      Batch batch;
      std::shared_ptr<ReadJob> job;
    };
    std::vector<Work> all;
    for (const std::string_view line : lines) {
      Work& work = all.emplace_back(Work{read_line(language_, std::string(line), jsonl_), {}, nullptr});
      if (!work.asked.ok()) continue;
      work.batch = batch_of(language_.model(), {&work.asked->text, 1});
      work.job = std::make_shared<ReadJob>(work.batch.tokens, work.batch.types);
      engine_->submit(work.job);
    }
    engine_->run();
    Context ctx{device_};
    for (size_t i = 0; i < all.size(); ++i) {
      Work& work = all[i];
      if (work.asked.ok() && work.job->error) work.asked = *work.job->error;
      std::string out;
      if (work.asked.ok())
        out = dump(answer_of(
                  language_.spec(), *work.asked,
                  language_.model().outputs(ctx, work.job->states().to(device_.memory()), work.batch),
                  names_)) +
              "\n";
      else
        out = error_line(work.asked.error(), number + i);
      if (!print_out(out)) return false;
    }
    return true;
  }

 private:
  const LanguageModel& language_;
  Device& device_;
  bool jsonl_;
  std::vector<std::string> names_;
  std::optional<Engine> engine_;
};

}  // namespace

int run_classify_lines(const std::vector<std::string>& arguments) {
  ModelOptions model;
  std::string text;
  std::vector<std::string> files;
  bool jsonl = false;
  Options options(
      "classify run",
      "Classify texts, tag tokens or answer questions: one result per line. Files of --method have "
      "--perspective too.",
      "echo 'a fine film' | makar classify run MODEL");
  model.declare(options, "MODEL");
  declare_device(options, model.device);
  options.group("Text");
  options.add("--text", &text, "the text; lines of standard input if there is none", "TEXT");
  options.add("-f --file", &files, "read one text per line from a file", "FILE");
  options.add("--jsonl", &jsonl, "lines are JSON: {\"text\"}, {\"tokens\"} or {\"question\", \"context\"}");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto compute = model.open_device();
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  const auto language = open_model(model, device);
  if (!language.ok()) return report(language.error());
  const HeadKind kind = language->spec().head.kind;
  if (kind != HeadKind::kSequenceClass && kind != HeadKind::kTokenClass && kind != HeadKind::kQuestion)
    return report(error_of(Error::Kind::kUnsupported, model.model, "a {} does not classify texts",
                           language->spec().architecture));
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, model.model, "has no tokenizer"));
  Runner runner(*language, device, jsonl);
  if (!text.empty()) return runner.run({text}, 1), 0;
  constexpr size_t kTogether = 64;
  const Status status = each_lines(files, [&](const std::vector<std::string_view>& lines, size_t first) {
    for (size_t i = 0; i < lines.size(); i += kTogether)
      if (!runner.run({lines.begin() + static_cast<int64_t>(i),
                       lines.begin() + static_cast<int64_t>(std::min(lines.size(), i + kTogether))},
                      first + i))
        return false;
    return true;
  });
  return status.ok() ? 0 : report(status.error());
}

}  // namespace makar
