// Generates several drafts of an answer from the sources and returns the best safe one, as LaMDA does
// (Thoppilan et al., 2022): a toxicity filter, then a ranking by quality and support.
#pragma once
#include "retrieval/answer_eval.h"

namespace makar {

struct DraftOptions {
  int64_t drafts = 4;
  std::function<double(std::string_view text)> toxicity;  // 0 to 1; empty: no filter
  double threshold = 0.5;                                 // a draft with this toxicity or more is rejected
  YesNoJudge judge;                                       // quality: whether a draft answers the question
};

struct AnswerDraft {
  std::string text;
  double toxicity = 0;
  bool safe = true;
  double groundedness = 0;  // the share of sentences that a source supports
  double quality = 0;       // the probability that it answers the question
  double score = 0;         // the mean of groundedness and quality
};
struct DraftedAnswer {
  AnswerWithSources answer;         // `answered` is false with text kNothingSafe if no safe draft has text
  std::vector<AnswerDraft> drafts;  // in the order of generation
  // Index in `drafts`, the first of equal scores; -1: no safe draft has text, or there are no sources.
  int64_t chosen = -1;
};

constexpr const char* kNothingSafe = "No safe answer was found.";

// The sampling of `options.generation` must not be greedy, or all drafts are equal. Uses one prompt with all
// sources that fit. Unsafe and empty drafts are not judged.
Result<DraftedAnswer> answer_with_drafts(Engine& engine, const LanguageModel& language,
                                         const std::string& question, const std::vector<SearchHit>& hits,
                                         const Analyzer& analyzer, const AskOptions& options,
                                         const DraftOptions& drafting);

// Scores the drafts and returns the index of the best safe one, or -1: the part of answer_with_drafts() after
// generation. `min_support`: AskOptions::grounded.
Result<int64_t> choose_draft(const std::string& question, const std::vector<SearchHit>& sources,
                             const Analyzer& analyzer, double min_support, const DraftOptions& options,
                             std::vector<AnswerDraft>& drafts);

}  // namespace makar
