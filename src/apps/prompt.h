// Prompt programs: versioned files of prompts with parts, examples, a technique, an output schema and tests.
// The prompts of a file form a directed acyclic graph: a prompt may use the outputs of others.
#pragma once
#include <optional>

#include "apps/agent.h"
#include "eval/field_template.h"
#include "text/regex.h"

namespace makar {

// direct: one reply. chain-of-thought: reasoning, then the answer (Kojima et al., 2022). self-consistency:
// the most frequent answer of several chains (Wang et al., 2023). self-ask: follow-up questions (Press et
// al., 2023). least-to-most: subproblems first, in order (Zhou et al., 2023).
enum class Technique { kDirect, kChainOfThought, kSelfConsistency, kSelfAsk, kLeastToMost };
// Which examples come first: as in the file, the most similar to the input by shared words, or drawn.
enum class ExampleOrder { kFirst, kSimilar, kRandom };

struct Prompt {
  std::string name;
  // Parts, in this order: instruction, context, examples, input, output indicator. Jinja templates over the
  // fields of a run and the outputs of earlier prompts.
  FieldTemplate instruction, context, input;
  FieldTemplate example;  // over the fields of an example
  std::string indicator, separator = "\n\n";
  std::vector<Json> examples;
  int64_t shots = -1;  // examples; -1: as many as fit the context
  ExampleOrder order = ExampleOrder::kFirst;
  Technique technique = Technique::kDirect;
  int64_t samples = 5, follow_ups = 5, max_tokens = 256;
  std::vector<std::string> stop;
  std::optional<Regex> answer;     // the part of a reply that is the answer: group 1, or the match
  std::string schema;              // JSON schema of the output; "": free text
  std::vector<std::string> needs;  // prompts whose outputs it uses
};

// The expected output of a program.
struct PromptTest {
  std::string name;
  Json fields;
  std::optional<std::string> equals, contains, lacks;
  std::optional<Regex> matches;
};

struct PromptProgram {
  std::string name, version, place;
  std::vector<Prompt> prompts;  // in the order of a run: each after those it needs
  std::vector<PromptTest> tests;
};

// Errors have file and line. A prompt that needs itself, directly or not, is an error.
Result<PromptProgram> read_prompt_program(const std::string& text, const std::string& place);

// The model of a run.
struct PromptModel {
  // A completion of the text; `sample` selects another one of the same text.
  std::function<Result<ModelReply>(const std::string& text, const std::string& schema,
                                   const std::vector<std::string>& stop, int64_t max_tokens, uint64_t sample)>
      write;
  // Whether the text and an answer of `max_tokens` fit the context.
  std::function<Result<bool>(const std::string& text, int64_t max_tokens)> fits;
};

struct BuiltPrompt {
  std::string text;
  int64_t shots = 0;  // examples in it
};
// The text of a prompt with at most `shots` examples, as many as fit. Fails if it does not fit without any.
Result<BuiltPrompt> build_prompt(const Prompt& prompt, const Json& fields, const PromptModel& model,
                                 uint64_t seed = 0);

struct PromptReply {  // one reply of the model in a run
  std::string prompt, sent, text;
};
struct PromptRun {
  std::string output;                // of the last prompt
  Json outputs = Json::object();     // of all, by name
  std::vector<PromptReply> replies;  // in order
  int64_t prompt_tokens = 0, tokens = 0;
};
Result<PromptRun> run_prompt(const PromptProgram& program, const Json& fields, const PromptModel& model,
                             uint64_t seed = 0);

// Why an output fails a test; empty if it passes.
std::string test_failure(const PromptTest& test, const std::string& output);

// Most frequent text, compared without case and blanks at the ends; of equally frequent ones the first.
std::string majority(const std::vector<std::string>& answers);

// Search over instructions and sets of examples: each candidate is scored on the records.
struct TuneOptions {
  std::vector<std::string> instructions;  // tried besides the program's own
  int64_t trials = 8;                     // sets of examples, besides the program's own
  int64_t shots = 3;
  std::string metric = "exact";  // exact, contains or f1, of the output and the field "output"
  uint64_t seed = 0;
  std::function<void(size_t done, size_t all, double best)> on_progress;
};
struct TuneResult {
  double before = 0, after = 0;  // scores of the program and of the best candidate
  std::string instruction;
  std::vector<Json> examples;
  std::vector<std::pair<std::string, double>> tried;  // candidates with their scores
};
// Tunes the last prompt of the program. Examples are drawn from `pool`. Candidates are scored on `records`;
// a record is never an example in its own prompt.
Result<TuneResult> tune_prompt(const PromptProgram& program, const std::vector<Json>& pool,
                               const std::vector<Json>& records, const PromptModel& model,
                               const TuneOptions& options);
// A score from 0 to 1.
Result<double> score_output(const std::string& metric, const std::string& output,
                            const std::string& expected);

// Jaccard similarity of the sets of words of two texts, in lower case.
double word_overlap(const std::string& a, const std::string& b);

}  // namespace makar
