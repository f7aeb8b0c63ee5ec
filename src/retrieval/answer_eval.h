// Evaluation of answers from passages, by a judge that chooses between yes and no (Es et al., 2023).
#pragma once
#include <functional>

#include "retrieval/answer.h"

namespace makar {

// The probability of "yes", 0 to 1, for each prompt.
using YesNoJudge = std::function<Result<std::vector<double>>(const std::vector<std::string>& prompts)>;
// A language model as judge: the probability of " yes" against " no" after each prompt. The engine
// and the model must outlive it.
YesNoJudge likelihood_judge(Engine& engine, const LanguageModel& language);

// Asks a judge whether an answer answers its question.
std::string relevance_prompt(const std::string& question, const std::string& answer);

struct AnswerScores {
  // Precision at the rank of each useful passage, averaged over useful passages; 0 without any.
  double context_precision = 0;
  // The share of the reference's sentences that the passages support; 0 without a reference.
  double context_recall = 0;
  // The share of the answer's sentences that the passages support.
  double faithfulness = 0;
  // The probability that the answer answers the question.
  double answer_relevance = 0;
};

// `reference`: the correct answer. Verdicts of at least 0.5 count as yes.
Result<AnswerScores> score_answer(const std::string& question, const std::string& reference,
                                  const std::string& answer, const std::vector<SearchHit>& passages,
                                  const YesNoJudge& judge);

}  // namespace makar
