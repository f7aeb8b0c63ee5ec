// What the judges of makar judge share: the model, the answers, the options of verdicts.
#pragma once
#include <optional>

#include "cli/eval_model.h"
#include "eval/judge.h"

namespace makar {

struct JudgeCommand {
  EvalModelFlags flags;
  JudgeOptions judge;
  std::string questions, references, rubric;
  std::vector<std::string> answers;
  int64_t seed = 1234;
  bool json = false;

  void declare(Options& options, const char* answer_help, bool needs_model = true);
  void declare_questions(Options& options);
  // Declares the options of the engine and parses; an exit code if the command should end here.
  std::optional<int> parse(Options& options, const std::vector<std::string>& arguments, size_t inputs);
  // Questions with their answers and references; the files must have equal lengths.
  Result<std::vector<JudgedItem>> items() const;

 private:
  bool asks_ = false;  // --prompts was declared
};

int run_judge_selfcheck(const std::vector<std::string>& arguments);
int run_judge_qag(const std::vector<std::string>& arguments);
int run_judge_qualities(const std::vector<std::string>& arguments);
int run_judge_people(const std::vector<std::string>& arguments);

}  // namespace makar
