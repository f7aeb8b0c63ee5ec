// Any bytes as a task file: a task, or a located error. A task makes a question from a small document.
#include "eval/question.h"
#include "eval/task_metrics.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(eval_task) {
  const auto task = parse_task({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!task.ok()) {
    check(task.error().place.starts_with("fuzz.yaml"), "an error names its file");
    return 0;
  }
  check(!task->metrics.empty() && !task->filters.empty(), "a task has metrics and filters");
  EvalData documents;
  documents.test = {{{"question", "1 + 1?"}, {"choices", {"2", "3"}}, {"answer", 0}, {"text", "one two"}},
                    {{"question", "2 + 2?"}, {"choices", {"4", "5"}}, {"answer", 1}, {"text", "three"}}};
  documents.same_split = true;
  const auto question = make_question(*task, documents, 0, std::min<int64_t>(task->num_fewshot, 1), 7);
  if (!question.ok()) return 0;
  if (task->output == OutputType::kMultipleChoice)
    check(!question->choices.empty(), "a question has choices");
  for (const AnswerFilter& filter : task->filters) (void)filter_answers(filter, {"The answer is 42."}).ok();
  return 0;
}
