// Instructions from labelled data (several templates per task, as in FLAN: Wei et al., 2022), and filters for
// instructions that a model writes (Wang et al., 2023).
#pragma once
#include <string>
#include <vector>

#include "augment/augment.h"
#include "metrics/overlap.h"

namespace makar {

struct InstructionTemplate {
  std::string instruction;  // {labels} is replaced by all labels
  std::string input;        // {FIELD} is replaced by that field of the record
  std::string output;
};
struct InstructionTask {
  const char* name;
  std::vector<InstructionTemplate> templates;
};
const std::vector<InstructionTask>& instruction_tasks();
// Errors name the known tasks.
Result<const InstructionTask*> find_task(const std::string& name);

// Names of labels, such as {"0": "negative"}; labels without a name stay as they are.
using LabelNames = std::map<std::string, std::string>;

// Fills template `which` of the task: {"instruction", "input", "output"}. `labels`: all labels of the data,
// in order.
Result<Json> as_instruction(const Json& record, const InstructionTask& task,
                            const std::vector<std::string>& labels, const LabelNames& names, size_t which);
// The label of a record by its name; "" if it has none.
std::string label_name(const Json& record, const LabelNames& names);

// A few instructions as a numbered list that a language model continues.
std::string numbered_list(const std::vector<std::string>& examples);
// The first new entry of such a continuation.
std::string next_instruction(const std::string& continuation);

// Keeps an instruction if it is new and looks like one.
class InstructionFilter {
 public:
  explicit InstructionFilter(double max_similarity = 0.7) : max_similarity_(max_similarity) {}
  // Returns why the instruction is dropped, or "" if it is kept; later instructions are compared with it.
  std::string drop(const std::string& instruction);
  void add_known(const std::string& instruction);  // keeps it without checking

 private:
  double max_similarity_;  // maximum ROUGE-L with any known instruction
  std::vector<OverlapText> known_;
};

}  // namespace makar
