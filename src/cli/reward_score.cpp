// makar reward score: scores answers with a reward model, and counts how often it agrees with rankings.
#include <fmt/format.h>

#include "cli/fine_tune.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "data/schema.h"
#include "llm/classify.h"
#include "train/quality.h"

namespace makar {
namespace {

// One line of input: its answers as tokens, and their ranks if it has any.
struct ScoredRecord {
  RankedAnswers answers;
  bool ranked = false;
};

Result<ScoredRecord> read_line(const std::string& line, const ConversationEncoder& encoder) {
  MAKAR_TRY(const Json record, parse_json(line, "", {size_t{16} << 20, 64}));
  if (!record.is_object()) return error_at("", "a record must be an object");
  ScoredRecord out;
  if (field(record, {"answers"}) || (field(record, {"chosen"}) && field(record, {"rejected"}))) {
    MAKAR_TRY(const RankedRecord ranking, to_ranking(record));
    MAKAR_TRY(out.answers, encode_ranking(encoder, ranking));
    out.ranked = true;
    return out;
  }
  MAKAR_TRY(Json prompt, prompt_turns(record));
  if (const Json* answer = field(record, {"completion", "response"})) {
    MAKAR_TRY(const Json turns, answer_turns(*answer, "completion"));
    prompt.insert(prompt.end(), turns.begin(), turns.end());
  }
  if (prompt.size() < 2)
    return error_at("", "expected {{\"prompt\", \"completion\"}}, {{\"messages\"}}, a pair or a ranking");
  MAKAR_TRY(MaskedTokens tokens, encoder.encode(prompt, prompt.size() - 1));
  out.answers.ids.push_back(std::move(tokens.ids));
  return out;
}

class Scorer {
 public:
  Scorer(const Model& model, std::vector<std::string> qualities, const ConversationEncoder& encoder,
         Device& device, bool summary)
      : model_(model),
        qualities_(std::move(qualities)),
        encoder_(encoder),
        device_(device),
        summary_(summary) {}

  // Scores the records of `lines` and prints the results; `first` is the number of the first line. False: the
  // output is closed.
  bool run(const std::vector<std::string_view>& lines, size_t first) {
    std::vector<Result<ScoredRecord>> records;
    Batch batch;
    for (const std::string_view line : lines) {
      records.push_back(read_line(std::string(line), encoder_));
      if (records.back().ok())
        for (const auto& ids : records.back()->answers.ids) batch.add(ids);
    }
    std::vector<Json> quality_ratings;  // the probabilities of a quality model, by answer
    const std::vector<float> scores = score(batch, quality_ratings);
    size_t at = 0;
    for (size_t i = 0; i < records.size(); ++i) {
      if (!records[i].ok()) {
        ++bad_records_;
        if (!summary_ && !print_out(error_line(records[i].error(), first + i))) return false;
        continue;
      }
      const RankedAnswers& answers = records[i]->answers;
      const auto answer_scores = std::span<const float>(scores).subspan(at, answers.ids.size());
      const std::vector<Json> ratings(
          quality_ratings.begin() + static_cast<int64_t>(quality_ratings.empty() ? 0 : at),
          quality_ratings.begin() +
              static_cast<int64_t>(quality_ratings.empty() ? 0 : at + answers.ids.size()));
      at += answers.ids.size();
      if (records[i]->ranked) comparison_.add(answer_scores, compared_pairs({&answers, 1}, 0));
      if (summary_) continue;
      Json json = records[i]->ranked
                      ? Json{{"scores", std::vector<float>(answer_scores.begin(), answer_scores.end())}}
                      : Json{{"score", answer_scores[0]}};
      if (!ratings.empty()) json["ratings"] = records[i]->ranked ? Json(ratings) : ratings[0];
      if (!print_out(json.dump() + "\n")) return false;
    }
    return true;
  }

  const Comparison& comparison() const { return comparison_; }
  size_t bad_records() const { return bad_records_; }

 private:
  std::vector<float> score(const Batch& batch, std::vector<Json>& quality_ratings) const {
    if (batch.sequences.empty()) return {};
    if (qualities_.empty()) {
      Context ctx{device_};
      ForwardContext f{ctx};
      const Tensor scores = reward_scores(f, model_, batch).host();
      return {scores.span().begin(), scores.span().end()};
    }
    std::vector<float> out;
    const Tensor probabilities = quality_probabilities(device_, model_, batch);
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
      const auto answer_probabilities =
          probabilities.span().subspan(i * qualities_.size(), qualities_.size());
      out.push_back(static_cast<float>(quality_score(qualities_, answer_probabilities)));
      Json& json = quality_ratings.emplace_back(Json::object());
      for (size_t q = 0; q < qualities_.size(); ++q) json[qualities_[q]] = answer_probabilities[q];
    }
    return out;
  }

  const Model& model_;
  std::vector<std::string> qualities_;  // empty: a reward model
  const ConversationEncoder& encoder_;
  Device& device_;
  bool summary_;
  Comparison comparison_;
  size_t bad_records_ = 0;
};

}  // namespace

int run_reward_score(const std::vector<std::string>& arguments) {
  ModelOptions model;
  std::vector<std::string> files;
  int64_t length = 0;
  bool json = false;
  Options options(
      "reward score",
      "Score answers with a reward model or a quality model: one line of JSON per record of JSONL. Records "
      "are {\"prompt\", \"completion\"}, {\"messages\"}, pairs (prompt, chosen, rejected) or rankings "
      "(prompt, answers, ranks); for pairs and rankings, the accuracy is printed at the end. A quality model "
      "also prints its ratings.",
      "makar reward score -m runs/mine pairs.jsonl");
  model.declare(options);
  model.declare_chat(options);
  declare_device(options, model.device);
  options.group("Data");
  options.positional("FILE", &files, "JSONL files; standard input if there is none").required = false;
  options.add("--sequence-len", &length,
              "maximum tokens of prompt and answer; longer ones are truncated at the beginning; 0: the "
              "model's context",
              "N");
  options.add("--json", &json, "print only the accuracy and calibration over all pairs, as JSON");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (length < 0 || length == 1)
    return report(error_at("--sequence-len", "expected 0, or 2 or more, got {}", length)), 2;
  const auto opened = open_on_device(model);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  const ModelSpec& spec = language->spec();
  const bool quality = check_quality_model(spec, model.model).ok();
  if (const Status s = check_reward_model(spec, model.model); !quality && !s.ok()) return report(s.error());
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, model.model, "has no tokenizer"));
  FineTuneOptions template_options;
  auto chat = find_template(template_options, *language);
  if (!chat.ok()) return report(chat.error());
  constexpr int64_t kUnlimitedContext = 4096;  // for models without a position limit
  const int64_t context = spec.max_positions > 0 ? spec.max_positions : kUnlimitedContext;
  const ConversationEncoder encoder(language->tokenizer(), std::move(*chat),
                                    {length > 0 ? std::min(length, context) : context, false, true});
  Scorer scorer(language->model(), quality ? label_names(spec) : std::vector<std::string>(), encoder, device,
                json);
  constexpr size_t kRecordBatch = 16;
  const Status status = each_line_batch(files, [&](const std::vector<std::string_view>& lines, size_t first) {
    for (size_t i = 0; i < lines.size(); i += kRecordBatch)
      if (!scorer.run({lines.begin() + static_cast<int64_t>(i),
                       lines.begin() + static_cast<int64_t>(std::min(lines.size(), i + kRecordBatch))},
                      first + i))
        return false;
    return true;
  });
  if (!status.ok()) return report(status.error());
  const Comparison& c = scorer.comparison();
  const Metrics m = c.metrics();
  if (json) {
    const Json out = {{"pairs", c.pairs},
                      {"accuracy", m.at("accuracy")},
                      {"margin", m.at("margin")},
                      {"calibration_error", c.calibration.error()},
                      {"bad_records", scorer.bad_records()}};
    return print_out(out.dump() + "\n") ? 0 : 1;
  }
  if (c.pairs > 0)
    fmt::print(stderr, "accuracy {:.4f} on {} pairs, margin {:.4f}, calibration error {:.4f}\n",
               m.at("accuracy"), c.pairs, m.at("margin"), c.calibration.error());
  return 0;
}

}  // namespace makar
