#include "eval/qualities.h"

#include "eval/document_values.h"

namespace makar {
namespace {

std::string quality_prompt(const JudgedItem& item, const std::string& source, const char* question) {
  std::string out = fmt::format("[Conversation]\n{}\n\n[Answer]\n{}\n\n", item.question, item.answer);
  if (!source.empty()) out += fmt::format("[Sources]\n{}\n\n", source);
  return out + question + " Reply Yes or No.";
}

struct QualityQuestion {
  double QualityVerdict::*field;
  bool sources;
  const char* question;
};
constexpr QualityQuestion kQualities[] = {
    {&QualityVerdict::sensible, false,
     "Does the answer make sense in the conversation, without contradicting it?"},
    {&QualityVerdict::specific, false,
     "Is the answer specific to this conversation, rather than one that fits many others?"},
    {&QualityVerdict::interesting, false,
     "Is the answer interesting: insightful, unexpected or likely to catch attention?"},
    {&QualityVerdict::claims, true, "Does the answer make a claim about the world that can be checked?"},
    {&QualityVerdict::supported, true, "Do the sources support every claim of the answer?"},
};

bool yes(double probability) { return probability > 0.5; }

}  // namespace

Result<std::vector<QualityVerdict>> judge_qualities(EvalModel& judge, const std::vector<JudgedItem>& items,
                                                    const std::vector<std::string>& sources,
                                                    const JudgeOptions& options) {
  check(sources.empty() || sources.size() == items.size(), "a source for each item, or none");
  std::vector<QualityVerdict> out(items.size());
  for (const QualityQuestion& quality : kQualities) {
    if (quality.sources && sources.empty()) continue;
    std::vector<std::string> prompts;
    for (size_t i = 0; i < items.size(); ++i)
      prompts.push_back(quality_prompt(items[i], quality.sources ? sources[i] : "", quality.question));
    MAKAR_TRY(const auto p, verdict_probabilities(judge, prompts, {"Yes", "No"}, options));
    for (size_t i = 0; i < items.size(); ++i) out[i].*quality.field = p[i][0];
  }
  return out;
}

Json qualities_report(const std::vector<QualityVerdict>& verdicts, bool sources) {
  int64_t sensible = 0, specific = 0, interesting = 0, claims = 0, supported = 0;
  Json items = Json::array();
  for (const QualityVerdict& one : verdicts) {
    const bool is_sensible = yes(one.sensible);
    sensible += is_sensible ? 1 : 0;
    specific += is_sensible && yes(one.specific) ? 1 : 0;
    interesting += is_sensible && yes(one.interesting) ? 1 : 0;
    claims += yes(one.claims) ? 1 : 0;
    supported += yes(one.claims) && yes(one.supported) ? 1 : 0;
    items.push_back(
        {{"sensible", one.sensible}, {"specific", one.specific}, {"interesting", one.interesting}});
    if (sources) items.back().update({{"claims", one.claims}, {"supported", one.supported}});
  }
  const auto all = static_cast<int64_t>(verdicts.size());
  Json out = {{"sensible", rate_with_interval(sensible, all)},
              {"specific", rate_with_interval(specific, all)},
              {"interesting", rate_with_interval(interesting, all)},
              {"ssi", all == 0 ? Json()
                               : Json(static_cast<double>(sensible + specific + interesting) /
                                      static_cast<double>(3 * all))}};
  if (sources)
    out.update({{"grounded", rate_with_interval(supported, claims)},
                {"informative", rate_with_interval(supported, all)}});
  out["items"] = items;
  return out;
}

}  // namespace makar
