// Filters of lm-eval: what is scored of a generated answer.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text/regex.h"

namespace makar {

// One step; take_first is accepted and does nothing, since there is one answer per document.
struct FilterStep {
  std::string function;        // regex, remove_whitespace, strip, lowercase, uppercase, take_first
  std::optional<Regex> regex;  // regex: the first group that matched, or the whole match
  int64_t group_select = 0;    // which match; negative from the end
  std::string fallback = "[invalid]";
};
struct AnswerFilter {
  std::string name = "none";
  std::vector<FilterStep> steps;
};

std::vector<std::string> filter_functions();
Result<std::string> filter_answer(const AnswerFilter& filter, std::string answer);

}  // namespace makar
