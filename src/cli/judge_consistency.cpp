// makar judge selfcheck and makar judge qag: whether texts support each other.
#include <fmt/format.h>

#include "base/progress.h"
#include "base/sha256.h"
#include "cli/judge.h"
#include "cli/metrics_input.h"
#include "cli/run.h"
#include "eval/cache.h"
#include "eval/consistency.h"
#include "llm/token_vectors.h"

namespace makar {
namespace {

constexpr size_t kMaxSentenceTokens = 512;  // longer sentences are truncated

// The scores of the sentences of one answer against its samples.
using SelfCheck = std::function<Result<std::vector<double>>(const std::vector<std::string>& sentences,
                                                            const std::vector<std::string>& samples)>;

struct SelfCheckFiles {
  std::vector<std::string> answers;
  std::vector<Cell> samples;
};

int report_selfcheck(const JudgeCommand& c, const SelfCheckFiles& files, const std::string& method,
                     const SelfCheck& check_one) {
  Json items = Json::array();
  double sum = 0, count = 0;
  Progress progress;
  for (size_t i = 0; i < files.answers.size(); ++i) {
    const auto sentences = sentences_of(files.answers[i]);
    Result<std::vector<double>> scores = std::vector<double>();
    if (!sentences.empty()) scores = check_one(sentences, files.samples[i]);
    if (!scores.ok()) return report(scores.error().in(fmt::format("item {}", i)));
    Json parts = Json::array();
    for (size_t s = 0; s < sentences.size(); ++s) {
      parts.push_back({{"sentence", sentences[s]}, {"inconsistency", (*scores)[s]}});
      sum += (*scores)[s], ++count;
    }
    items.push_back(parts);
    progress.show("checking", i + 1, files.answers.size());
  }
  const double mean = count > 0 ? sum / count : 0;
  return c.finish(
      {{"inconsistency", mean}, {"method", method}, {"items", items}},
      fmt::format("inconsistency {:.4f}, mean of {} sentences\n", mean, static_cast<int64_t>(count)));
}

// Scores from the cache file; nullopt if they are missing or malformed.
std::optional<std::vector<double>> scores_of(const Json* cached, size_t count) {
  if (!cached || !cached->is_array() || cached->size() != count) return std::nullopt;
  std::vector<double> out;
  for (const Json& one : *cached) {
    if (!one.is_number()) return std::nullopt;
    out.push_back(one);
  }
  return out;
}

int selfcheck_with_encoder(const JudgeCommand& c, const SelfCheckFiles& files) {
  const auto opened = open_on_device(c.flags.model);
  if (!opened.ok()) return report(opened.error());
  Device& device = *opened->device;
  const LanguageModel* language = &opened->language;
  if (!language->has_tokenizer())
    return report(error_of(Error::Kind::kNotFound, c.flags.model.model, "has no tokenizer"));
  const auto encoder = TokenEncoder::make(*language, device, -1);
  if (!encoder.ok()) return report(encoder.error()), 2;
  const auto vectors = [&](const std::string& text) -> Result<TokenVectors> {
    MAKAR_TRY(const TokenizedText tokens, tokenize_for_vectors(*language, text, kMaxSentenceTokens));
    return (*encoder)(tokens);
  };
  const auto identity = model_identity(c.flags);
  if (!identity.ok()) return report(identity.error());
  auto cache = EvalCache::open(c.cache_path());
  if (!cache.ok()) return report(cache.error());
  const SelfCheck check_one = [&](const auto& sentences, const auto& samples) -> Result<std::vector<double>> {
    Sha256 sum;
    sum.add(Json::array({*identity, "bertscore", sentences, samples})
                .dump(-1, ' ', false, Json::error_handler_t::replace));
    const std::string key = sum.hex();
    if (auto known = scores_of(cache->find(key), sentences.size())) return std::move(*known);
    MAKAR_TRY(auto scores, selfcheck_by_vectors(vectors, sentences, samples));
    MAKAR_RETURN_IF_ERROR(cache->add(key, scores));
    MAKAR_RETURN_IF_ERROR(cache->flush());
    return scores;
  };
  return report_selfcheck(c, files, "bertscore", check_one);
}

Result<SelfCheckFiles> read_selfcheck(const std::string& answers, const std::string& samples) {
  SelfCheckFiles out;
  MAKAR_TRY(out.answers, read_values(answers));
  MAKAR_TRY(out.samples, read_cells(samples));
  MAKAR_RETURN_IF_ERROR(same_count(out.answers.size(), answers, out.samples.size(), samples));
  for (size_t i = 0; i < out.samples.size(); ++i)
    if (out.samples[i].empty()) return error_at(samples, "item {} has no samples", i);
  return out;
}

}  // namespace

int run_judge_selfcheck(const std::vector<std::string>& arguments) {
  JudgeCommand c;
  std::string samples, method = "model";
  Options options(
      "judge selfcheck",
      "How far the sentences of an answer are supported by other samples of the same question "
      "(SelfCheckGPT).",
      "makar judge selfcheck -m JUDGE --hyp answers.jsonl:answer --samples answers.jsonl:samples");
  c.declare(
      options, "the answers",
      [&](Options& o) {
        o.add("--samples", &samples, "other answers to the same questions: a list for each", "FILE");
      },
      false);
  options.add("--method --by", &method,
              "model: the judge says whether a sample supports a sentence; bertscore: 1 - BERTScore of the "
              "nearest sentence of each sample, with an encoder as -m; words: mean negative "
              "log-probability of its words under the samples, without a model",
              "KIND");
  if (const auto code = c.parse(options, arguments, 1)) return *code;
  if (method != "model" && method != "words" && method != "bertscore")
    return report(error_at("--method", "expected model, bertscore or words, got '{}'", method)), 2;
  if (samples.empty()) return report(error_at("--samples", "is required")), 2;
  if (c.flags.model.model.empty() && method != "words")
    return report(error_at("--model", "is required, except with --method words")), 2;
  const auto files = read_selfcheck(c.answers[0], samples);
  if (!files.ok()) return report(files.error());
  if (method == "words")
    return report_selfcheck(c, *files, method, [](const auto& sentences, const auto& others) {
      return selfcheck_by_words(sentences, others);
    });
  if (method == "bertscore") return selfcheck_with_encoder(c, *files);
  return c.with_judge([&](EvalModel& model) {
    c.judge.progress = {};  // report_selfcheck shows the items
    return report_selfcheck(c, *files, method, [&](const auto& sentences, const auto& others) {
      return selfcheck_by_model(model, sentences, others, c.judge);
    });
  });
}

int run_judge_qag(const std::vector<std::string>& arguments) {
  JudgeCommand c;
  std::string documents;
  int64_t questions = 5;
  Options options(
      "judge qag",
      "Score summaries with yes/no questions: coverage of the document, alignment with it, and the lower of "
      "the two.",
      "makar judge qag -m JUDGE --documents d.jsonl:dialogue --hyp summaries.txt");
  c.declare(options, "the summaries",
            [&](Options& o) { o.add("--documents", &documents, "what was summarized", "FILE"); });
  options.add("--questions", &questions, "questions about each text", "N");
  if (const auto code = c.parse(options, arguments, 1)) return *code;
  if (questions < 1 || questions > 100)
    return report(error_at("--questions", "must be 1 to 100, got {}", questions)), 2;
  if (documents.empty()) return report(error_at("--documents", "is required")), 2;
  const auto summaries = read_values(c.answers[0]);
  if (!summaries.ok()) return report(summaries.error());
  const auto texts = read_values(documents);
  if (!texts.ok()) return report(texts.error());
  if (const Status same = same_count(summaries->size(), c.answers[0], texts->size(), documents); !same.ok())
    return report(same.error());
  if (texts->empty()) return report(error_at(documents, "has no texts"));
  return c.with_judge([&](EvalModel& model) {
    c.judge.progress = {};  // shown per item instead
    Progress progress;
    Json items = Json::array();
    double coverage = 0, alignment = 0, score = 0;
    for (size_t i = 0; i < texts->size(); ++i) {
      const auto one = judge_summary(model, (*texts)[i], (*summaries)[i], questions, c.judge);
      if (!one.ok()) return report(one.error().in(fmt::format("item {}", i)));
      coverage += one->coverage, alignment += one->alignment, score += one->score;
      items.push_back({{"coverage", one->coverage},
                       {"alignment", one->alignment},
                       {"score", one->score},
                       {"document_questions", one->document_questions},
                       {"summary_questions", one->summary_questions}});
      progress.show("judging", i + 1, texts->size());
    }
    const auto n = static_cast<double>(texts->size());
    return c.finish(
        {{"coverage", coverage / n}, {"alignment", alignment / n}, {"score", score / n}, {"items", items}},
        fmt::format("coverage {:.4f}  alignment {:.4f}  score {:.4f}\n", coverage / n, alignment / n,
                    score / n));
  });
}

}  // namespace makar
