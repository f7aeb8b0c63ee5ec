#include "eval/filter.h"

#include <algorithm>
#include <cctype>

#include "base/trim.h"
#include "metrics/words.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kMaxMatches = 100'000;

std::string stripped(const std::string& text, bool end_too) {
  size_t begin = 0;
  while (begin < text.size() && std::isspace(static_cast<unsigned char>(text[begin]))) ++begin;
  return end_too ? without_end_blanks(text.substr(begin)) : text.substr(begin);
}

Result<std::string> select_match(const FilterStep& step, const std::string& text) {
  std::vector<std::vector<Span>> matches;
  MAKAR_RETURN_IF_ERROR(step.regex->find_groups(text, matches, kMaxMatches));
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

Result<std::string> apply_step(const FilterStep& step, std::string answer) {
  if (step.function == "regex") return select_match(step, answer);
  if (step.function == "strip") return stripped(answer, true);
  if (step.function == "remove_whitespace")
    return stripped(answer, false);  // as in lm-eval: at the beginning
  if (step.function == "lowercase") return lowered(answer);
  if (step.function == "code_block") return code_block(answer);
  if (step.function == "uppercase")
    for (char& c : answer) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return answer;
}

std::string most_frequent(const std::vector<std::string>& answers) {
  size_t best = 0, max_count = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto count = static_cast<size_t>(std::count(answers.begin(), answers.end(), answers[i]));
    if (count > max_count) max_count = count, best = i;
  }
  return answers[best];
}

size_t leading_spaces(std::string_view line) { return std::min(line.find_first_not_of(' '), line.size()); }

// A line that begins or ends a block of code in Markdown: at most three spaces, three or more backticks, then
// no more of them.
struct Fence {
  size_t indent, length;
  std::string_view info;  // what follows the backticks
};
std::optional<Fence> fence_of(std::string_view line) {
  const size_t indent = leading_spaces(line);
  const size_t end = std::min(line.find_first_not_of('`', indent), line.size());
  if (indent > 3 || end - indent < 3 || line.find('`', end) != line.npos) return std::nullopt;
  return Fence{indent, end - indent, line.substr(end)};
}

}  // namespace

std::string code_block(const std::string& text) {
  std::string code;
  std::optional<Fence> opening;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const std::string_view line(text.data() + begin, end - begin);
    begin = end;
    const auto fence = fence_of(line);
    if (!opening) {
      opening = fence;
      continue;
    }
    if (fence && fence->length >= opening->length && trimmed(fence->info).empty()) return code;
    code += line.substr(std::min(opening->indent, leading_spaces(line)));
  }
  return opening ? code : text;
}

std::vector<std::string> filter_functions() {
  return {"regex",     "take_first", "majority_vote", "strip", "remove_whitespace",
          "lowercase", "uppercase",  "code_block"};
}

Result<std::vector<std::string>> filter_answers(const AnswerFilter& filter,
                                                std::vector<std::string> answers) {
  for (std::string& answer : answers) answer = to_valid_utf8(answer);
  for (const FilterStep& step : filter.steps) {
    if (answers.size() > 1 && step.function == "take_first") answers.resize(1);
    if (answers.size() > 1 && step.function == "majority_vote") answers = {most_frequent(answers)};
    for (std::string& answer : answers) {
      MAKAR_TRY(answer, apply_step(step, std::move(answer)));
    }
  }
  return answers;
}

}  // namespace makar
