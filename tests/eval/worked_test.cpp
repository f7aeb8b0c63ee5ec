// Worked examples of the literature: prompts with examples, chains of thought, sentiment, inference.
#include <gtest/gtest.h>

#include "eval/runner.h"
#include "eval/toy_model.h"

namespace makar {
namespace {

EvalTask task_of(const std::string& yaml) {
  auto task = parse_task(yaml, "t.yaml");
  check(task.ok(), task.ok() ? "" : task.error().text());
  return std::move(*task);
}

std::string last_prompt(const std::string& yaml, int64_t shots) {
  const EvalTask task = task_of(yaml);
  EvalData data;
  for (size_t i = 0; i + 1 < task.documents.size(); ++i) data.fewshot.push_back(task.documents[i]);
  data.test = {task.documents.back()};
  const auto question = make_question(task, data, 0, shots, 0);
  check(question.ok(), question.ok() ? "" : question.error().text());
  return question->context;
}

double score_of(const std::string& yaml, ToyModel& model) {
  auto cache = EvalCache::open("");
  const auto results = run_task(model, task_of(yaml), {}, *cache);
  check(results.ok(), results.ok() ? "" : results.error().text());
  return (*results)[0].scores[0].score.value;
}

TEST(Worked, FewShotPromptsMatch) {
  EXPECT_EQ(last_prompt(R"(
task: words
dataset_kwargs: {documents: [{french: Maison, english: house}, {french: Chat, english: cat}, {french: Chien}]}
fewshot_config: {sampler: first_n}
doc_to_text: "{{ french }} in English is{{ ':' if english is undefined else '' }}"
doc_to_target: "{{ english | default('dog') }}"
fewshot_delimiter: ". "
)",
                        2),
            "Maison in English is house. Chat in English is cat. Chien in English is:");
  EXPECT_EQ(last_prompt(R"(
task: arrows
dataset_kwargs: {documents: [{en: Ice cream, es: helado}, {en: Car, es: coche}]}
fewshot_config: {sampler: first_n}
doc_to_text: "{{ en }} =>"
doc_to_target: es
fewshot_delimiter: "\n"
)",
                        1),
            "Ice cream => helado\nCar =>");
}

TEST(Worked, ChainsOfThoughtAreScored) {
  ToyModel model;
  model.answers = {{"A: Let's think step by step.",
                    " 23 x 40 = 920 and 23 x 7 = 161. 920 + 161 = 1081. The answer is 1081."}};
  EXPECT_EQ(score_of(R"(
task: product
dataset_kwargs: {documents: [{question: "What is 23 x 47?", answer: "1081"}]}
doc_to_text: "Q: {{ question }}\nA: Let's think step by step."
doc_to_target: answer
filter_list: [{name: last, filter: [{function: regex, regex_pattern: '-?[0-9]+', group_select: -1}]}]
)",
                     model),
            1);
  model.answers = {{"A:", " Adding all the odd numbers (15, 5, 13, 7, 1) gives 41. The answer is False."}};
  EXPECT_EQ(score_of(R"(
task: odd
dataset_kwargs:
  documents: [{question: "The odd numbers in this group add up to an even number: 15, 32, 5, 13, 82, 7, 1.", answer: "False"}]
doc_to_text: "Q: {{ question }}\nA:"
doc_to_target: answer
filter_list: [{name: extracted, filter: [{function: regex, regex_pattern: 'The answer is (\w+)'}]}]
)",
                     model),
            1);
}

TEST(Worked, SentimentAndInferenceAreScored) {
  ToyModel model;
  model.logprobs = {{" positive", -1}, {" negative", -2}};
  const std::string sentiment = R"(
task: sentiment
dataset_kwargs: {documents: [{text: "there is no better place than Croatia", label: positive}]}
output_type: multiple_choice
doc_to_text: "Review: {{ text }}\nSentiment:"
doc_to_choice: [negative, positive]
doc_to_target: label
)";
  EXPECT_EQ(score_of(sentiment, model), 1);
  EXPECT_EQ(model.contexts.back(), "Review: there is no better place than Croatia\nSentiment:");
  model.logprobs = {{" positive", -3}, {" negative", -2}};
  EXPECT_EQ(score_of(sentiment, model), 0);
  model.logprobs = {{" contradiction", -1}, {" entailment", -2}, {" neutral", -3}};
  EXPECT_EQ(score_of(R"(
task: inference
dataset_kwargs:
  documents: [{premise: a car sped past a bunch of people, hypothesis: a man is driving along a quiet road, label: contradiction}]
output_type: multiple_choice
doc_to_text: "{{ premise }}\nQuestion: {{ hypothesis }} True, False or Neither?\nAnswer:"
doc_to_choice: [entailment, neutral, contradiction]
doc_to_target: label
)",
                     model),
            1);
}

}  // namespace
}  // namespace makar
