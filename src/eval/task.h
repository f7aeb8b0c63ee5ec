// A task: a versioned YAML file with the keys of lm-eval. It names its data, how a document becomes a
// question, and what is measured. The files are in tasks/.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "data/record_reader.h"
#include "eval/field_template.h"
#include "eval/filter.h"

namespace makar {

enum class OutputType { kMultipleChoice, kLoglikelihood, kRolling, kGenerate };
const char* name(OutputType type);

struct MetricOptions {
  std::string name;
  bool ignore_case = false, ignore_punctuation = false;
  std::vector<Regex> regexes_to_ignore = {};
  std::string alias = {};      // the name in the results; empty: that of the metric
  FieldTemplate where = {};    // measures only documents for which this is true
  FieldTemplate all_of = {};   // consecutive documents with the same value count once, with the lowest score
  FieldTemplate labels = {};   // of the choices: a list, or a text with commas
  FieldTemplate against = {};  // wrong answers: the answer must overlap more with the targets
  FieldTemplate program = {};  // pass@k: the program that tests an `answer` to a document
  std::string language = "python";
  double seconds = 10;                                                       // time limit of a program
  const std::string& title() const { return alias.empty() ? name : alias; }  // the name in the results
};

// A part of a task with its own data: a subject of MMLU. The group is the task, or a category of it.
struct SubTask {
  std::string group, name;
};

struct EvalTask {
  std::string name, place;
  Json version = 0;
  std::string dataset_path;                                    // below the data folder
  std::map<std::string, std::vector<std::string>> data_files;  // by split; {name} is the name of the subtask
  Columns columns;                                             // names of fields
  std::vector<std::pair<std::string, std::string>> joined_files;  // field, file: line n belongs to document n
  // Field and file: the whole text of the file in all documents.
  std::vector<std::pair<std::string, std::string>> shared_files;
  bool lines = false;             // every line of a file is a document
  std::string field;              // documents are the list in this field of a file
  std::string explode;            // a document for each item of the list in this field
  std::vector<Json> documents;    // test documents in the task file itself
  std::vector<SubTask> subtasks;  // empty: the task has no subtasks
  std::string test_split = "test", fewshot_split;
  OutputType output = OutputType::kGenerate;
  FieldTemplate description, text, target;
  FieldTemplate turns;                   // instead of text: the user's messages, a list
  FieldTemplate choice;                  // a template whose value is a list
  std::vector<std::string> choice_list;  // or the choices of all documents
  std::string target_delimiter = " ", fewshot_delimiter = "\n\n";
  int64_t num_fewshot = 0;
  bool first_shots = false;  // the first documents of the split instead of random ones
  std::vector<std::string> until = {"\n\n"};
  int64_t max_gen_toks = 256;
  double temperature = 0, top_p = 1;
  int64_t repeats = 1;  // answers to each question
  std::vector<AnswerFilter> filters = {{}};
  std::vector<MetricOptions> metrics;
  bool numeric() const;        // the target is a number that choices approximate (STS-B)
  bool runs_programs() const;  // has a metric that runs answers as programs
  Json config;                 // the file as JSON, for the results
};

// Errors have file and line: unknown keys, values of the wrong type, templates and patterns that do not
// compile.
Result<EvalTask> parse_task(const std::string& text, const std::string& place);
Result<EvalTask> read_task(const std::string& path);

// The metrics that an output type has.
std::vector<std::string> metric_names(OutputType type);

}  // namespace makar
