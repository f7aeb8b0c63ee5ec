#include "eval/filter.h"

#include <cctype>

#include "metrics/words.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kMatches = 100'000;

std::string stripped(const std::string& text, bool end_too) {
  size_t begin = 0;
  while (begin < text.size() && std::isspace(static_cast<unsigned char>(text[begin]))) ++begin;
  return end_too ? without_end_blanks(text.substr(begin)) : text.substr(begin);
}

Result<std::string> selected(const FilterStep& step, const std::string& text) {
  std::vector<std::vector<Span>> matches;
  MAKAR_CHECK_OK(step.regex->find_groups(text, matches, kMatches));
  const auto count = static_cast<int64_t>(matches.size());
  const int64_t at = step.group_select < 0 ? count + step.group_select : step.group_select;
  if (at < 0 || at >= count) return step.fallback;
  const std::vector<Span>& groups = matches[static_cast<size_t>(at)];
  Span chosen = groups[0];
  for (size_t g = 1; g < groups.size(); ++g)
    if (groups[g].end > groups[g].begin) {
      chosen = groups[g];
      break;
    }
  return stripped(text.substr(chosen.begin, chosen.end - chosen.begin), true);
}

}  // namespace

std::vector<std::string> filter_functions() {
  return {"regex", "take_first", "strip", "remove_whitespace", "lowercase", "uppercase"};
}

Result<std::string> filter_answer(const AnswerFilter& filter, std::string answer) {
  answer = to_valid_utf8(answer);
  for (const FilterStep& step : filter.steps) {
    if (step.function == "regex") {
      MAKAR_TRY(answer, selected(step, answer));
    } else if (step.function == "strip") {
      answer = stripped(answer, true);
    } else if (step.function == "remove_whitespace") {
      answer = stripped(answer, false);  // as in lm-eval: at the beginning
    } else if (step.function == "lowercase") {
      answer = lowered(answer);
    } else if (step.function == "uppercase") {
      for (char& c : answer) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
  }
  return answer;
}

}  // namespace makar
