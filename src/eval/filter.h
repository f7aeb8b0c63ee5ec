// Filters, as in lm-eval: they extract what is scored from generated answers.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text/regex.h"

namespace makar {

struct FilterStep {
  std::string function;        // one of filter_functions()
  std::optional<Regex> regex;  // regex: the first group that matched, or the whole match
  int64_t group_select = 0;    // which match; negative from the end
  std::string fallback = "[invalid]";
};
struct AnswerFilter {
  std::string name = "none";
  std::vector<FilterStep> steps;
};

// The inside of the first block of code between lines of backticks, by the rules of CommonMark, or the whole
// text.
std::string code_block(const std::string& text);
std::vector<std::string> filter_functions();
// Applies the steps in order to all answers to one question. take_first keeps the first answer, majority_vote
// the most frequent one (of equally frequent ones the first); the other functions change every answer.
Result<std::vector<std::string>> filter_answers(const AnswerFilter& filter, std::vector<std::string> answers);

}  // namespace makar
