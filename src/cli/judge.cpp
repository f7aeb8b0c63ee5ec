// makar judge: a model judges answers.
#include <fmt/format.h>

#include "base/file.h"
#include "cli/command.h"
#include "cli/eval_model.h"
#include "cli/metrics_input.h"
#include "cli/run.h"
#include "cli/tokenizer_options.h"
#include "eval/consistency.h"

namespace makar {

int run_judge_people(const std::vector<std::string>& arguments);

namespace {

struct JudgeCommand {
  EvalModelFlags flags;
  JudgeOptions judge;
  std::string questions, references, rubric;
  std::vector<std::string> answers;
  int64_t seed = 1234;
  bool json = false;

  void declare(Options& options, const char* answer_help) {
    flags.model.declare(options);
    declare_device(options, flags.model.device);
    options.group("Input (FILE, or FILE:COLUMN of a jsonl, json, csv or tsv file)");
    options.add("--hyp --answers", &answers, answer_help, "FILE");
    options.group("Judge");
    options.add("--apply-chat-template --apply_chat_template", &judge.chat,
                "format prompts with the judge's chat template");
    options.add("--seed", &seed, "seed for explanations and sampled verdicts", "S");
    options.add("--json", &json, "print one JSON object, with every verdict");
  }
  void declare_verdicts(Options& options) {
    options.add("--prompts", &questions, "the questions", "FILE");
    options.add("--ref", &references, "correct answers, shown to the judge", "FILE");
    options.add("--criteria", &judge.criteria, "what the answers are judged by", "TEXT");
    options.add("--explain", &judge.explain,
                "maximum tokens of an explanation before the verdict; 0 for none", "N");
  }
  // An exit code if the command should end here.
  std::optional<int> parse(Options& options, const std::vector<std::string>& arguments, size_t inputs) {
    flags.engine.declare(options);
    flags.declare_url(options);
    if (const auto code = parse_or_exit(options, arguments)) return code;
    if (const Status status = flags.check(); !status.ok()) return report(status.error()), 2;
    if (answers.size() != inputs)
      return report(error_at("--hyp", "expected {} inputs, got {}", inputs, answers.size())), 2;
    if (seed < 0) return report(error_at("--seed", "must be 0 or more, got {}", seed)), 2;
    if (judge.explain < 0 || judge.explain > 100'000)
      return report(error_at("--explain", "must be 0 to 100000, got {}", judge.explain)), 2;
    judge.seed = static_cast<uint64_t>(seed);
    return std::nullopt;
  }
  Result<std::vector<JudgedItem>> items() const {
    if (questions.empty()) return error_at("--prompts", "is required: the questions that were answered");
    MAKAR_TRY(const auto asked, read_values(questions));
    std::vector<JudgedItem> out(asked.size());
    for (size_t i = 0; i < asked.size(); ++i) out[i].question = asked[i];
    const auto fill = [&](const std::string& source, std::string JudgedItem::*field) -> Status {
      MAKAR_TRY(const auto values, read_values(source));
      MAKAR_CHECK_OK(same_count(asked.size(), questions, values.size(), source));
      for (size_t i = 0; i < values.size(); ++i) out[i].*field = values[i];
      return Done{};
    };
    MAKAR_CHECK_OK(fill(answers[0], &JudgedItem::answer));
    if (answers.size() > 1) MAKAR_CHECK_OK(fill(answers[1], &JudgedItem::other));
    if (!references.empty()) MAKAR_CHECK_OK(fill(references, &JudgedItem::reference));
    if (out.empty()) return error_at(questions, "has no questions");
    return out;
  }
};

int run_pairs(const std::vector<std::string>& arguments) {
  JudgeCommand c;
  Options options(
      "judge pairwise",
      "Judge which of two answers is better. Each pair is shown in both orders; if the verdicts disagree, "
      "it is a tie. The judge chooses among A, B and tie by probability, so every verdict parses.",
      "makar judge pairwise -m JUDGE --prompts q.jsonl:question --hyp a.txt --hyp b.txt");
  c.declare(options, "answers of the first system, then --hyp again for the second");
  c.declare_verdicts(options);
  options.add("--seeds", &c.judge.seeds, "number of verdicts to sample; 1 takes the most probable verdict",
              "N");
  if (const auto code = c.parse(options, arguments, 2)) return *code;
  if (c.judge.seeds < 1 || c.judge.seeds > 1000)
    return report(error_at("--seeds", "must be 1 to 1000, got {}", c.judge.seeds)), 2;
  const auto items = c.items();
  if (!items.ok()) return report(items.error());
  return with_eval_model(c.flags, [&](EvalModel& model) {
    const auto verdicts = judge_pairs(model, *items, c.judge);
    if (!verdicts.ok()) return report(verdicts.error());
    const auto out = pairs_report(*verdicts);
    if (!out.ok()) return report(out.error());
    if (c.json) return print_out(out->dump() + "\n") ? 0 : 1;
    const Json& r = *out;
    return print_out(fmt::format(
               "win {}  tie {}  loss {}\nwin rate {:.4f} ({:.4f} to {:.4f})\nflip rate {:.4f}: the orders "
               "prefer "
               "different answers\nfirst position {:.4f}: probability of the answer shown first\n",
               r["win"].get<int64_t>(), r["tie"].get<int64_t>(), r["loss"].get<int64_t>(),
               r["win_rate"].get<double>(), r["interval"]["low"].get<double>(),
               r["interval"]["high"].get<double>(), r["flip_rate"].get<double>(),
               r["first_position"].get<double>()))
               ? 0
               : 1;
  });
}

int run_scores(const std::vector<std::string>& arguments) {
  JudgeCommand c;
  Options options(
      "judge score",
      "Rate answers on a scale: the mean of the scores, weighted by the judge's probabilities (G-Eval).",
      "makar judge score -m JUDGE --prompts q.txt --hyp answers.txt --rubric rubric.txt");
  c.declare(options, "the answers");
  c.declare_verdicts(options);
  options.add("--rubric", &c.rubric, "a file that says what each score means", "FILE");
  options.add("--steps", &c.judge.steps, "the judge first writes evaluation steps");
  options.add("--low", &c.judge.low, "the lowest score", "N");
  options.add("--high", &c.judge.high, "the highest score", "N");
  if (const auto code = c.parse(options, arguments, 1)) return *code;
  if (c.judge.low < 0 || c.judge.high <= c.judge.low || c.judge.high > 100)
    return report(error_at("--high", "expected 0 <= low < high <= 100, got {} and {}", c.judge.low,
                           c.judge.high)),
           2;
  if (!c.rubric.empty()) {
    auto text = read_file(c.rubric, size_t{1} << 20);
    if (!text.ok()) return report(text.error());
    c.judge.rubric = std::move(*text);
  }
  const auto items = c.items();
  if (!items.ok()) return report(items.error());
  return with_eval_model(c.flags, [&](EvalModel& model) {
    const auto judged = judge_scores(model, *items, c.judge);
    if (!judged.ok()) return report(judged.error());
    const auto out = scores_report(*judged, c.judge);
    if (!out.ok()) return report(out.error());
    if (c.json) return print_out(out->dump() + "\n") ? 0 : 1;
    return print_out(fmt::format("score {:.4f} of {} to {} ({:.4f} to {:.4f})\n",
                                 (*out)["score"].get<double>(), c.judge.low, c.judge.high,
                                 (*out)["interval"]["low"].get<double>(),
                                 (*out)["interval"]["high"].get<double>()))
               ? 0
               : 1;
  });
}

int run_selfcheck(const std::vector<std::string>& arguments) {
  JudgeCommand c;
  std::string samples, by = "model";
  Options options(
      "judge selfcheck",
      "Check how far the sentences of an answer are supported by other samples of the same question "
      "(SelfCheckGPT).",
      "makar judge selfcheck -m JUDGE --hyp answers.jsonl:answer --samples answers.jsonl:samples");
  c.declare(options, "the answers");
  options.add("--samples", &samples, "other answers to the same questions: a list for each", "FILE");
  options.add("--by", &by,
              "model: the judge says whether a sample supports a sentence; words: mean negative "
              "log-probability of its words under the samples",
              "KIND");
  if (const auto code = c.parse(options, arguments, 1)) return *code;
  if (by != "model" && by != "words")
    return report(error_at("--by", "expected model or words, got '{}'", by)), 2;
  if (samples.empty()) return report(error_at("--samples", "is required")), 2;
  const auto answers = read_values(c.answers[0]);
  if (!answers.ok()) return report(answers.error());
  const auto others = read_cells(samples);
  if (!others.ok()) return report(others.error());
  if (const Status same = same_count(answers->size(), c.answers[0], others->size(), samples); !same.ok())
    return report(same.error());
  const auto judge = [&](EvalModel* model) {
    Json items = Json::array();
    double sum = 0, count = 0;
    for (size_t i = 0; i < answers->size(); ++i) {
      const auto sentences = sentences_of((*answers)[i]);
      if ((*others)[i].empty()) return report(error_at(samples, "item {} has no samples", i));
      Result<std::vector<double>> scores = std::vector<double>();
      if (!model)
        scores = selfcheck_by_words(sentences, (*others)[i]);
      else if (!sentences.empty())
        scores = selfcheck_by_model(*model, sentences, (*others)[i], c.judge);
      if (!scores.ok()) return report(scores.error());
      Json parts = Json::array();
      for (size_t s = 0; s < sentences.size(); ++s) {
        parts.push_back({{"sentence", sentences[s]}, {"inconsistency", (*scores)[s]}});
        sum += (*scores)[s], ++count;
      }
      items.push_back(parts);
    }
    const double mean = count > 0 ? sum / count : 0;
    if (c.json)
      return print_out(Json{{"inconsistency", mean}, {"by", by}, {"items", items}}.dump() + "\n") ? 0 : 1;
    return print_out(
               fmt::format("inconsistency {:.4f}, mean of {} sentences\n", mean, static_cast<int64_t>(count)))
               ? 0
               : 1;
  };
  if (by == "words") return judge(nullptr);
  return with_eval_model(c.flags, [&](EvalModel& model) { return judge(&model); });
}

int run_qag(const std::vector<std::string>& arguments) {
  JudgeCommand c;
  std::string documents;
  int64_t questions = 5;
  Options options("judge qag",
                  "Score summaries by closed questions: coverage of the document, alignment with it, and the "
                  "lower of both.",
                  "makar judge qag -m JUDGE --documents d.jsonl:dialogue --hyp summaries.txt");
  c.declare(options, "the summaries");
  options.add("--documents", &documents, "what was summarized", "FILE");
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
  return with_eval_model(c.flags, [&](EvalModel& model) {
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
    }
    const auto n = static_cast<double>(texts->size());
    if (c.json)
      return print_out(Json{{"coverage", coverage / n},
                            {"alignment", alignment / n},
                            {"score", score / n},
                            {"items", items}}
                           .dump() +
                       "\n")
                 ? 0
                 : 1;
    return print_out(fmt::format("coverage {:.4f}  alignment {:.4f}  score {:.4f}\n", coverage / n,
                                 alignment / n, score / n))
               ? 0
               : 1;
  });
}

constexpr Command kJudges[] = {
    {"pairwise", "which of two answers is better, in both orders", run_pairs, "Judges"},
    {"score", "a score for each answer, weighted by probability", run_scores, "Judges"},
    {"selfcheck", "whether other samples support the sentences of an answer", run_selfcheck, "Judges"},
    {"qag", "coverage and alignment of summaries by closed questions", run_qag, "Judges"},
    {"people", "what people said about answers on the page", run_judge_people, "Judges"},
};

}  // namespace

int run_judge(const std::vector<std::string>& arguments) {
  return run_subcommand("judge", "Judge answers with a model, or report ratings by people.",
                        "makar judge pairwise -m JUDGE --prompts q.jsonl:question --hyp a.txt --hyp b.txt",
                        kJudges, arguments);
}

}  // namespace makar
