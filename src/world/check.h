// Checks answers to questions of the world: a reward that needs no model and no reference file.
#pragma once
#include <map>

#include "data/record_reader.h"
#include "world/record.h"

namespace makar::world {

// Lower case, without punctuation and articles, numbers as words, single spaces.
std::string normalized(std::string_view text);

// Grades of an answer, from the worst to the best, in the order of --form ranked: wrong, the right answer
// among other words (too long, or rude), and the right answer alone.
enum class Grade { kWrong, kRightAmongOthers, kRight };

struct Verdict {
  std::string kind, expected;
  bool exact = false;       // the expected text, apart from spaces around it
  bool normalized = false;  // equal after normalized(), as a short answer or as a sentence
  Grade grade = Grade::kWrong;
};
Verdict check_answer(const WorldOptions& options, uint64_t record, std::string_view answer);
// By the id of a record. As a reward: verdict.exact or verdict.normalized.
Result<Verdict> check_answer(const std::string& id, std::string_view answer);

struct Score {
  uint64_t answers = 0, exact = 0, normalized = 0;
};
struct AnswersReport {
  Score all;
  bool keep_grades = false;
  std::map<std::string, Grade> grades;  // by id, if they are kept
  std::map<std::string, Score> kinds;
  BadRecords bad;
  size_t show = 0;  // how many wrong answers to keep
  std::vector<std::string>
      wrong;  // the first answers without a normalized match: "file:line: kind: expected ..., got ..."
};
// A file of {"id", "answer"}, or the output of makar generate --jsonl for --form prompts: then line i answers
// record first + i - 1 of `options`.
Result<AnswersReport> check_answers(const std::string& path, const WorldOptions& options, uint64_t first,
                                    size_t show = 0, bool keep_grades = false);
// How answers compare with others to the same questions by their grades.
struct Comparison {
  uint64_t better = 0, worse = 0, both_right = 0, both_wrong = 0, both_among_others = 0;
  uint64_t count() const { return better + worse + both_right + both_wrong + both_among_others; }
};
// Both must have kept their grades; fails if their questions differ.
Result<Comparison> compare(const AnswersReport& answers, const AnswersReport& others);
// The same as check_answers for records that a reader gives.
Status check_records(FileReader& reader, const WorldOptions& options, uint64_t first, AnswersReport& report);

}  // namespace makar::world
