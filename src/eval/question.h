// Documents of a task, and the question made from a document: a context with the few-shot examples, and the
// choices or the text that the model is scored on.
#pragma once
#include "eval/task.h"

namespace makar {

struct EvalData {
  std::vector<Json> test, fewshot;
  bool same_split = false;  // the few-shot examples come from the test documents
};

// Reads the splits of a task, or of one subtask, below the folder `data`. A record that cannot be read is an
// error.
Result<EvalData> read_eval_data(const EvalTask& task, const std::string& subtask, const std::string& data);

// The form of a question: text, or a conversation for a model's chat template.
struct PromptStyle {
  bool chat = false;
  bool multiturn = false;         // examples are turns of their own, not text before the question
  std::string system = {};        // the first message; the description follows it
  std::string perturbation = {};  // of the question, not of its examples (perturb.h)
};

struct Question {
  std::string context;
  Json messages = {};                // of a conversation, instead of the context
  std::vector<std::string> turns;    // the user's messages after the first answer
  std::vector<std::string> choices;  // multiple_choice
  Json target;  // multiple_choice: the index or indices of the correct choices; otherwise a text
  std::vector<std::string> targets;  // generate_until: the texts of the target, one or several
};

// The question of test document `index` with `shots` examples. The same seed draws the same examples.
Result<Question> make_question(const EvalTask& task, const EvalData& data, size_t index, int64_t shots,
                               uint64_t seed, const PromptStyle& style = {});

}  // namespace makar
