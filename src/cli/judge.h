// What the judges of makar judge share: the model, the answers, the options of verdicts.
#pragma once
#include <functional>
#include <optional>

#include "cli/eval_model.h"
#include "eval/judge.h"

namespace makar {

struct JudgeCommand {
  EvalModelFlags flags;
  JudgeOptions judge;
  std::string questions, references, rubric, output;
  std::vector<std::string> answers;
  int64_t seed = 1234;
  bool json = false;

  // `input` declares further options in the group of input files.
  void declare(Options& options, const char* answer_help, const std::function<void(Options&)>& input = {},
               bool needs_model = true);
  void declare_prompts(Options& options);
  void declare_explain(Options& options);
  // Declares the options of the output and the engine, parses, and checks that --hyp names `inputs` files;
  // an exit code if the command should end here.
  std::optional<int> parse(Options& options, const std::vector<std::string>& arguments, size_t inputs);
  // Questions with their answers and references; the files must have equal lengths.
  Result<std::vector<JudgedItem>> items() const;
  // The file in which the judge's responses are cached; empty without --output.
  std::string cache_path() const { return output.empty() ? "" : output + ".cache"; }
  // Calls `use` with the judge; its responses are cached next to the output, and progress is shown.
  int with_judge(const std::function<int(EvalModel&)>& use);
  // Writes the result to --output, and prints it with --json, otherwise the text.
  int finish(const Json& result, const std::string& text) const;

 private:
  bool needs_prompts_ = false;  // --prompts was declared
};

int run_judge_selfcheck(const std::vector<std::string>& arguments);
int run_judge_qag(const std::vector<std::string>& arguments);
int run_judge_qualities(const std::vector<std::string>& arguments);
int run_judge_people(const std::vector<std::string>& arguments);

}  // namespace makar
