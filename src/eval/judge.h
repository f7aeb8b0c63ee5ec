// A model as a judge of answers (Zheng et al., 2023; Liu et al., 2023). A verdict is one of a fixed list,
// chosen by the probabilities that the judge assigns to the list: no reply has to be parsed.
#pragma once
#include <functional>

#include "eval/model.h"

namespace makar {

struct JudgeOptions {
  bool chat = false;     // format prompts with the judge's chat template
  int64_t seeds = 1;     // 1: the most probable verdict; more: that many verdicts sampled
  uint64_t seed = 1234;  // of the first draw
  int64_t explain = 0;   // max tokens of an explanation before the verdict; 0: no explanation
  std::string criteria = "helpfulness, relevance, accuracy, depth and level of detail";
  std::string rubric = {};    // what each score means
  int64_t low = 1, high = 5;  // the range of scores
  bool steps = false;         // the judge first writes evaluation steps (G-Eval)
  size_t batch = 16;          // items per batch
  std::function<void(size_t done, size_t total)> progress = {};
};

struct JudgedItem {
  std::string question, answer;
  std::string other = {};      // pairwise: the second answer
  std::string reference = {};  // a correct answer, if there is one
};

// For each prompt, the probabilities of the verdicts, which sum to 1.
Result<std::vector<std::vector<double>>> verdict_probabilities(EvalModel& judge,
                                                               const std::vector<std::string>& prompts,
                                                               const std::vector<std::string>& verdicts,
                                                               const JudgeOptions& options);

// One comparison: both orders, for every seed.
struct PairVerdict {
  std::vector<std::string>
      outcomes;  // per seed: win, tie or loss of the first answer; orders that disagree are a tie
  std::vector<bool> flipped;  // per seed: the two orders prefer different answers
  double first_position = 0;  // probability of the answer shown first, mean of both orders
  double preference = 0;      // probability of the first answer, mean of both orders, ties counting half
};
Result<std::vector<PairVerdict>> judge_pairs(EvalModel& judge, const std::vector<JudgedItem>& items,
                                             const JudgeOptions& options);
// wins, ties, losses, win_rate with interval, flip_rate, first_position, and the verdict of each item.
Result<Json> pairs_report(const std::vector<PairVerdict>& verdicts);

// Scores from low to high, weighted by probability (G-Eval).
struct ScoreVerdict {
  double score = 0;
  std::vector<double> probabilities;  // of low, low + 1, ..., high
};
struct JudgedScores {
  std::string steps;  // if requested
  std::vector<ScoreVerdict> scores;
};
Result<JudgedScores> judge_scores(EvalModel& judge, const std::vector<JudgedItem>& items,
                                  const JudgeOptions& options);
Result<Json> scores_report(const JudgedScores& judged, const JudgeOptions& options);

}  // namespace makar
