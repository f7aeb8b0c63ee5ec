// The report on a study: agreement, win rates, scales; and its export as training data and as results.
#pragma once
#include "people/study.h"

namespace makar {

// {"items", "rated", "ratings", "raters", "agreement", "systems", "critiques", "scales"}.
//   agreement: of every two raters on the answers that both compared: share of equal verdicts, Cohen's kappa,
//     and on scales the kappa with squared weights; means weighted by verdicts. Null without two raters.
//   systems: for each system wins, ties, losses against others, win rate with a 95 % interval
//     (bootstrap over items), and the mean of each scale.
Json study_report(const Study& study, const std::vector<Rating>& ratings);

// Lines {"prompt", "chosen", "rejected", "margin"}: pairs of answers, the first preferred by more raters, and
// corrections with the answers they correct. margin: the difference of the votes divided by the number of
// raters, 0 to 1; 1 for a correction.
std::string preference_lines(const Study& study, const std::vector<Rating>& ratings);

// Lines {"prompt", "completion", "critique"}, with "correction" if the rater gave one: the critiques of items
// with one answer (with several it is not known which one is meant). What `makar data feedback` reads.
std::string critique_lines(const Study& study, const std::vector<Rating>& ratings);

// Lines {"prompt", "completion", "ratings"}: every answer rated on scales, with the mean of each scale from 0
// (all raters gave 1) to 1 (all gave 5). What `makar reward quality` reads.
std::string quality_lines(const Study& study, const std::vector<Rating>& ratings);

// In the format of a results file of makar eval: a task "STUDY/SYSTEM" with win_rate and scales.
Json study_results(const Study& study, const std::vector<Rating>& ratings);

}  // namespace makar
