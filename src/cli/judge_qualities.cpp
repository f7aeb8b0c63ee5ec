// makar judge qualities: sensibleness, specificity, interestingness, groundedness, informativeness.
#include <fmt/format.h>

#include "cli/judge.h"
#include "cli/metrics_input.h"
#include "cli/run.h"
#include "eval/qualities.h"

namespace makar {
namespace {

std::string share_line(const std::string& name, const Json& share) {
  if (!share["value"].is_number()) return fmt::format("{:<12} -  no answer makes claims\n", name);
  return fmt::format("{:<12} {:.4f} ({:.4f} to {:.4f}) of {}\n", name, share["value"].get<double>(),
                     share["low"].get<double>(), share["high"].get<double>(), share["n"].dump());
}

}  // namespace

int run_judge_qualities(const std::vector<std::string>& arguments) {
  JudgeCommand c;
  std::string sources;
  Options options(
      "judge qualities",
      "Shares of answers that are sensible, specific and interesting (LaMDA). With --sources also grounded: "
      "the share of the answers with claims whose claims are supported; and informative: the share of all "
      "answers that make supported claims.",
      "makar judge qualities -m JUDGE --prompts q.txt --hyp answers.txt --sources sources.txt");
  c.declare(options, "the answers", [&](Options& o) {
    c.declare_prompts(o);
    o.add("--sources", &sources, "for each answer the text that should support its claims", "FILE");
  });
  c.declare_explain(options);
  if (const auto code = c.parse(options, arguments, 1)) return *code;
  const auto items = c.items();
  if (!items.ok()) return report(items.error());
  const auto texts = sources.empty() ? std::vector<std::string>() : read_values(sources);
  if (!texts.ok()) return report(texts.error());
  if (!sources.empty())
    if (const Status same = same_count(items->size(), c.questions, texts->size(), sources); !same.ok())
      return report(same.error());
  return c.with_judge([&](EvalModel& model) {
    const auto verdicts = judge_qualities(model, *items, *texts, c.judge);
    if (!verdicts.ok()) return report(verdicts.error());
    const Json out = qualities_report(*verdicts, !sources.empty());
    std::string text;
    for (const char* name : {"sensible", "specific", "interesting", "grounded", "informative"})
      if (out.contains(name)) text += share_line(name, out[name]);
    return c.finish(out, text + fmt::format("{:<12} {:.4f}\n", "mean of SSI", out["ssi"].get<double>()));
  });
}

}  // namespace makar
