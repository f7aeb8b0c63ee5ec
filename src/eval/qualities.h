// Qualities of answers in a conversation, as yes or no (LaMDA; Thoppilan et al., 2022): sensibleness,
// specificity and interestingness; with sources, groundedness and informativeness.
#pragma once
#include "eval/judge.h"

namespace makar {

// The judge's probability of yes to each question about an answer.
struct QualityVerdict {
  double sensible = 0, specific = 0, interesting = 0;
  double claims = 0, supported = 0;  // with sources: the answer makes claims; the sources support them
};

// `sources`: one text per item, or none at all.
Result<std::vector<QualityVerdict>> judge_qualities(EvalModel& judge, const std::vector<JudgedItem>& items,
                                                    const std::vector<std::string>& sources,
                                                    const JudgeOptions& options);

// Shares of answers with intervals: an answer that is not sensible is neither specific nor interesting; `ssi`
// is the mean of the three. grounded: answers whose claims the sources support, of the answers
// with claims; informative: the same, of all answers.
Json qualities_report(const std::vector<QualityVerdict>& verdicts, bool sources);

}  // namespace makar
