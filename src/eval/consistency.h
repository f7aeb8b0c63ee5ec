// Whether texts support each other: SelfCheckGPT (Manakul et al., 2023) and questions about summaries (QAG;
// Wang et al., 2020; Deutsch et al., 2021).
#pragma once
#include "eval/judge.h"
#include "metrics/bert_score.h"

namespace makar {

// Splits a text at line breaks, and at full stops, question and exclamation marks before a blank.
std::vector<std::string> sentences_of(const std::string& text);

// Inconsistency of each sentence with other samples of the same question, 0 (supported) to 1. Mean of the
// probabilities of "No" that the judge gives to "is the sentence supported by the sample?".
Result<std::vector<double>> selfcheck_by_model(EvalModel& judge, const std::vector<std::string>& sentences,
                                               const std::vector<std::string>& samples,
                                               const JudgeOptions& options);
// 1 - the mean over samples of the highest BERTScore F1 of the sentence with a sentence of the sample.
using TextVectors = std::function<Result<TokenVectors>(const std::string& text)>;
Result<std::vector<double>> selfcheck_by_vectors(const TextVectors& vectors,
                                                 const std::vector<std::string>& sentences,
                                                 const std::vector<std::string>& samples);
// Mean negative log-probability, in nats, of the words of each sentence under word frequencies of the text
// and its samples, with one added to each count.
std::vector<double> selfcheck_by_words(const std::vector<std::string>& sentences,
                                       const std::vector<std::string>& samples);

// Scores a summary with yes/no questions. coverage: of the questions about the document that the document
// answers with yes, the share that the summary answers with yes too; alignment: the same with summary and
// document exchanged. score: the lower of the two.
struct SummaryScores {
  double coverage = 0, alignment = 0, score = 0;
  std::vector<std::string> document_questions, summary_questions;
};
Result<SummaryScores> judge_summary(EvalModel& judge, const std::string& document, const std::string& summary,
                                    int64_t questions, const JudgeOptions& options);

}  // namespace makar
