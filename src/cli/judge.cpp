// makar judge: a model judges answers.
#include "cli/judge.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/metrics_input.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "eval/cached_model.h"

namespace makar {

void JudgeCommand::declare(Options& options, const char* answer_help,
                           const std::function<void(Options&)>& input, bool needs_model) {
  if (needs_model)
    flags.model.declare(options);
  else
    flags.model.declare_conditional(options, "; not needed with --method words");
  declare_device(options, flags.model.device);
  options.group("Input (FILE, or FILE:COLUMN of a jsonl, json, csv or tsv file)");
  options.add("--hyp --answers", &answers, answer_help, "FILE");
  if (input) input(options);
  options.group("Judge");
  options.add("--apply-chat-template --apply_chat_template", &judge.chat,
              "put prompts through the judge's chat template");
  options.add("--seed", &seed, "seed for explanations and sampled verdicts", "S");
}

void JudgeCommand::declare_prompts(Options& options) {
  needs_prompts_ = true;
  options.add("--prompts", &questions, "the questions", "FILE");
}

void JudgeCommand::declare_explain(Options& options) {
  options.add("--explain", &judge.explain, "tokens of an explanation before the verdict; 0: none", "N");
}

std::optional<int> JudgeCommand::parse(Options& options, const std::vector<std::string>& arguments,
                                       size_t inputs) {
  options.group("Output");
  options.add("--output", &output,
              "write the result with every verdict to a file; a run that was stopped resumes from the cache "
              "next to it",
              "FILE.json");
  options.add("--json", &json, "print one JSON object, with every verdict");
  flags.engine.declare(options);
  flags.declare_url(options);
  if (const auto code = parse_or_exit(options, arguments)) return code;
  if (const Status status = flags.check(); !status.ok()) return report(status.error()), 2;
  if (answers.size() != inputs)
    return report(error_at("--hyp", "expected {} inputs, got {}", inputs, answers.size())), 2;
  if (needs_prompts_ && questions.empty())
    return report(error_at("--prompts", "is required: the questions that were answered")), 2;
  if (seed < 0) return report(error_at("--seed", "must be 0 or more, got {}", seed)), 2;
  if (judge.explain < 0 || judge.explain > 100'000)
    return report(error_at("--explain", "must be 0 to 100000, got {}", judge.explain)), 2;
  if (!output.empty() && !output.ends_with(".json"))
    return report(error_at("--output", "expected a file that ends in .json, got '{}'", output)), 2;
  judge.seed = static_cast<uint64_t>(seed);
  return std::nullopt;
}

Result<std::vector<JudgedItem>> JudgeCommand::items() const {
  MAKAR_TRY(const auto prompts, read_values(questions));
  std::vector<JudgedItem> out(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) out[i].question = prompts[i];
  const auto fill = [&](const std::string& source, std::string JudgedItem::*field) -> Status {
    MAKAR_TRY(const auto values, read_values(source));
    MAKAR_RETURN_IF_ERROR(same_count(prompts.size(), questions, values.size(), source));
    for (size_t i = 0; i < values.size(); ++i) out[i].*field = values[i];
    return Done{};
  };
  MAKAR_RETURN_IF_ERROR(fill(answers[0], &JudgedItem::answer));
  if (answers.size() > 1) MAKAR_RETURN_IF_ERROR(fill(answers[1], &JudgedItem::other));
  if (!references.empty()) MAKAR_RETURN_IF_ERROR(fill(references, &JudgedItem::reference));
  if (out.empty()) return error_at(questions, "has no questions");
  return out;
}

int JudgeCommand::with_judge(const std::function<int(EvalModel&)>& use) {
  auto cache = EvalCache::open(cache_path());
  if (!cache.ok()) return report(cache.error());
  return with_eval_model(flags, [&](EvalModel& model) {
    CachedModel cached(model, *cache);
    Progress progress;
    judge.progress = [&](size_t done, size_t total) { progress.show("judging", done, total); };
    const int code = use(cached);
    judge.progress = {};
    return code;
  });
}

int JudgeCommand::finish(const Json& result, const std::string& text) const {
  if (!output.empty())
    if (const Status written = write_file(output, dump(result) + "\n"); !written.ok())
      return report(written.error());
  return print_out(json ? dump(result) + "\n" : text) ? 0 : 1;
}

namespace {

void declare_verdicts(JudgeCommand& c, Options& options) {
  c.declare_explain(options);
  options.add("--criteria", &c.judge.criteria, "what the answers are judged by", "TEXT");
}

void declare_questions(JudgeCommand& c, Options& options) {
  c.declare_prompts(options);
  options.add("--ref", &c.references, "correct answers, shown to the judge", "FILE");
}

int run_pairs(const std::vector<std::string>& arguments) {
  JudgeCommand c;
  Options options(
      "judge pairwise",
      "Judge which of two answers is better. Each pair is shown in both orders; if the verdicts disagree, "
      "it is a tie. The judge chooses among A, B and tie by probability, so every verdict parses.",
      "makar judge pairwise -m JUDGE --prompts q.jsonl:question --hyp a.txt --hyp b.txt");
  c.declare(options, "answers of the first system, then --hyp again for the second",
            [&](Options& o) { declare_questions(c, o); });
  declare_verdicts(c, options);
  options.add("--seeds", &c.judge.seeds, "number of verdicts to sample; 1 takes the most probable verdict",
              "N");
  if (const auto code = c.parse(options, arguments, 2)) return *code;
  if (c.judge.seeds < 1 || c.judge.seeds > 1000)
    return report(error_at("--seeds", "must be 1 to 1000, got {}", c.judge.seeds)), 2;
  const auto items = c.items();
  if (!items.ok()) return report(items.error());
  return c.with_judge([&](EvalModel& model) {
    const auto verdicts = judge_pairs(model, *items, c.judge);
    if (!verdicts.ok()) return report(verdicts.error());
    const auto out = pairs_report(*verdicts);
    if (!out.ok()) return report(out.error());
    const Json& r = *out;
    return c.finish(
        r, fmt::format(
               "win {}  tie {}  loss {}\nwin rate {:.4f} ({:.4f} to {:.4f})\nflip rate {:.4f}: pairs "
               "whose verdict changes with the order\nfirst position {:.4f}: probability of the answer shown "
               "first\n",
               r["win"].get<int64_t>(), r["tie"].get<int64_t>(), r["loss"].get<int64_t>(),
               r["win_rate"].get<double>(), r["interval"]["low"].get<double>(),
               r["interval"]["high"].get<double>(), r["flip_rate"].get<double>(),
               r["first_position"].get<double>()));
  });
}

int run_scores(const std::vector<std::string>& arguments) {
  JudgeCommand c;
  Options options(
      "judge score",
      "Rate answers on a scale: the mean of the scores, weighted by the judge's probabilities (G-Eval).",
      "makar judge score -m JUDGE --prompts q.txt --hyp answers.txt --rubric rubric.txt");
  c.declare(options, "the answers", [&](Options& o) { declare_questions(c, o); });
  declare_verdicts(c, options);
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
  return c.with_judge([&](EvalModel& model) {
    const auto judged = judge_scores(model, *items, c.judge);
    if (!judged.ok()) return report(judged.error());
    const auto out = scores_report(*judged, c.judge);
    if (!out.ok()) return report(out.error());
    return c.finish(
        *out, fmt::format("score {:.4f} of {} to {} ({:.4f} to {:.4f})\n", (*out)["score"].get<double>(),
                          c.judge.low, c.judge.high, (*out)["interval"]["low"].get<double>(),
                          (*out)["interval"]["high"].get<double>()));
  });
}

constexpr Command kJudges[] = {
    {"pairwise", "which of two answers is better, in both orders", run_pairs, "Judges"},
    {"score", "a score for each answer, weighted by probability", run_scores, "Judges"},
    {"selfcheck", "whether other samples support the sentences of an answer", run_judge_selfcheck, "Judges"},
    {"qag", "coverage and alignment of summaries by closed questions", run_judge_qag, "Judges"},
    {"qualities", "sensible, specific, interesting; grounded, informative", run_judge_qualities, "Judges"},
    {"people", "report the ratings that people gave on the web page", run_judge_people, "Judges"},
};

}  // namespace

int run_judge(const std::vector<std::string>& arguments) {
  return run_subcommand("judge", "Judge answers with a model, or report ratings by people.",
                        "makar judge pairwise -m JUDGE --prompts q.jsonl:question --hyp a.txt --hyp b.txt",
                        kJudges, arguments);
}

}  // namespace makar
