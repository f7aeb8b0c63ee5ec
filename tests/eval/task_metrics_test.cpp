// Metrics of tasks against values computed by hand, and the boxed answers of MATH.
#include "eval/task_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "eval/boxed.h"

namespace makar {
namespace {

// A task without data, for its metrics.
EvalTask task_with(const std::string& metrics, const std::string& extra_yaml = "") {
  const bool choices = extra_yaml.find("multiple_choice") != std::string::npos;
  auto task = parse_task("task: t\ndataset_kwargs: {documents: [{a: x}]}\ndoc_to_target: a\n" + extra_yaml +
                             (choices ? "doc_to_choice: [a, b, c]\n" : "") + "metric_list: " + metrics + "\n",
                         "t.yaml");
  check(task.ok(), task.ok() ? "" : task.error().text());
  return std::move(*task);
}

double score_of(const EvalTask& task, size_t metric, const std::vector<Question>& questions,
                const std::vector<Json>& responses, const std::vector<Json>& documents = {}) {
  std::vector<MetricValue> values;
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto value = document_metric(task.metrics[metric], task.output, questions[i], responses[i],
                                       documents.empty() ? Json::object() : documents[i]);
    check(value.ok(), value.ok() ? "" : value.error().text());
    if (*value) values.push_back(**value);
  }
  return aggregate(task_metric(task.output, task.metrics[metric].name), values).value;
}

Json scores(const std::vector<double>& logs) {
  Json out = Json::array();
  for (const double one : logs) out.push_back(Json::array({one, false}));
  return out;
}

TEST(TaskMetrics, MatthewsAndF1MatchValuesByHand) {
  const EvalTask task =
      task_with("[{metric: mcc}, {metric: f1}, {metric: ece}]", "output_type: multiple_choice\n");
  const double low = std::log(0.3), high = std::log(0.7);
  // Predictions 1 1 0 0 for the targets 1 0 0 0: TP 1, FP 1, TN 2, FN 0.
  const std::vector<Json> responses = {scores({low, high}), scores({low, high}), scores({high, low}),
                                       scores({high, low})};
  std::vector<Question> questions(4);
  for (Question& q : questions) q.choices = {"no", "yes"}, q.target = 0;
  questions[0].target = 1;
  EXPECT_NEAR(score_of(task, 0, questions, responses), 2 / std::sqrt(2.0 * 1 * 3 * 2), 1e-12);
  EXPECT_NEAR(score_of(task, 1, questions, responses), (2.0 / 3 + 0.8) / 2, 1e-12);
  EXPECT_NEAR(score_of(task, 2, questions, responses), 0.05, 1e-12);  // confidence 0.7, three of four right
}

TEST(TaskMetrics, CorrelationsUseExpectedNumbers) {
  const EvalTask task =
      task_with("[{metric: spearman}, {metric: pearson}]", "output_type: multiple_choice\n");
  EXPECT_TRUE(task.numeric());
  std::vector<Question> questions(3);
  std::vector<Json> responses;
  const double targets[] = {0.5, 4.25, 2.5}, shares[] = {0.1, 0.8, 0.7};
  for (size_t i = 0; i < 3; ++i) {
    questions[i].choices = {"0", "5"};
    questions[i].target = targets[i];
    responses.push_back(scores({std::log(1 - shares[i]), std::log(shares[i])}));
  }
  // Expected numbers 0.5, 4, 3.5.
  EXPECT_NEAR(score_of(task, 0, questions, responses), 1, 1e-12);
  const double mx = 8.0 / 3, my = 7.25 / 3;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double x = shares[i] * 5 - mx, y = targets[i] - my;
    xy += x * y, xx += x * x, yy += y * y;
  }
  EXPECT_NEAR(score_of(task, 1, questions, responses), xy / std::sqrt(xx * yy), 1e-12);
  responses[0] = responses[1] = responses[2];
  EXPECT_TRUE(std::isnan(score_of(task, 0, questions, responses)));
}

TEST(TaskMetrics, StereotypeScoresMatchValuesByHand) {
  const EvalTask task =
      task_with("[{metric: lms, labels: l}, {metric: ss, labels: l}, {metric: icat, labels: l}]",
                "output_type: multiple_choice\n");
  std::vector<Question> questions(4);
  for (Question& q : questions) q.choices = {"a", "b", "c"}, q.target = 0;
  const Json document = {{"l", {"unrelated", "stereotype", "anti-stereotype"}}};
  const std::vector<Json> documents(4, document);
  // Log-likelihoods of unrelated, stereotype and anti-stereotype. Of the last two, both, both, one and none
  // are above the first.
  const std::vector<Json> responses = {scores({-9, -1, -2}), scores({-9, -1, -2}), scores({-2, -1, -3}),
                                       scores({-1, -3, -2})};
  EXPECT_DOUBLE_EQ(score_of(task, 0, questions, responses, documents), 2.5 / 4);
  EXPECT_DOUBLE_EQ(score_of(task, 1, questions, responses, documents), 0.75);
  EXPECT_DOUBLE_EQ(score_of(task, 2, questions, responses, documents), 0.625 * 0.25 / 0.5);
}

TEST(TaskMetrics, BiasScoresCountOnlyDocumentsThatMeetTheirCondition) {
  const EvalTask task = task_with(
      "[{metric: bias_score, labels: l, where: '{{ clear }}'}, {metric: ambiguous_bias_score, labels: l, "
      "where: '{{ not clear }}'}]",
      "output_type: multiple_choice\n");
  std::vector<Question> questions(5);
  for (Question& q : questions) q.choices = {"a", "b", "c"}, q.target = 2;
  std::vector<Json> documents;
  for (const bool clear : {true, true, true, true, false})
    documents.push_back({{"l", "biased,opposite,unknown"}, {"clear", clear}});
  // Three biased answers, one opposite: 2 * 3/4 - 1. The fifth document is biased and wrong.
  const std::vector<Json> responses = {scores({-1, -2, -3}), scores({-1, -2, -3}), scores({-1, -2, -3}),
                                       scores({-2, -1, -3}), scores({-1, -2, -3})};
  EXPECT_DOUBLE_EQ(score_of(task, 0, questions, responses, documents), 0.5);
  EXPECT_DOUBLE_EQ(score_of(task, 1, questions, responses, documents), 1);
  questions[4].target = 0;
  EXPECT_DOUBLE_EQ(score_of(task, 1, questions, responses, documents), 0);
}

TEST(TaskMetrics, OverlapsMatchValuesByHand) {
  const EvalTask task = task_with(
      "[{metric: rouge1}, {metric: rouge2}, {metric: rougeL}, {metric: rouge1_acc, against: wrong}, {metric: "
      "bleu}, {metric: words}]");
  Question question;
  question.targets = {"nothing alike", "It is cold outside."};
  const Json responses = Json::array({"It is very cold outside."}), document = {{"wrong", {"It was warm."}}};
  EXPECT_NEAR(score_of(task, 0, {question}, {responses}), 8.0 / 9, 1e-12);
  EXPECT_NEAR(score_of(task, 1, {question}, {responses}), 4.0 / 7, 1e-12);
  EXPECT_NEAR(score_of(task, 2, {question}, {responses}), 8.0 / 9, 1e-12);
  EXPECT_EQ(score_of(task, 3, {question}, {responses}, {document}), 1);
  EXPECT_EQ(score_of(task, 3, {question}, {responses}, {{{"wrong", "It is very cold outside."}}}), 0);
  EXPECT_EQ(score_of(task, 5, {question}, {responses}), 5);
  EXPECT_NEAR(score_of(task, 4, {question}, {Json::array({"It is cold outside."})}), 100, 1e-9);
}

TEST(TaskMetrics, BoxedAnswersAreFoundAndNormalized) {
  EXPECT_EQ(last_boxed("so $\\boxed{\\frac{1}{2}}$, no: $\\boxed{x^{2}}$."), "x^{2}");
  EXPECT_EQ(last_boxed("$\\boxed 7$"), "7");
  EXPECT_EQ(last_boxed("\\fbox{a}"), "a");
  EXPECT_EQ(last_boxed("\\boxed{\\{1\\}}"), "\\{1\\}");
  EXPECT_FALSE(last_boxed("\\boxed{1"));
  EXPECT_FALSE(last_boxed("\\boxed"));
  EXPECT_FALSE(last_boxed("1"));
  const auto same = [](const std::string& a, const std::string& b) {
    return normalize_math(a) == normalize_math(b);
  };
  EXPECT_TRUE(same("\\dfrac{1}{2}", "\\frac12"));
  EXPECT_TRUE(same("1/2", "\\tfrac{1}{2}"));
  EXPECT_TRUE(same("-1/2", "-\\frac{1}{2}"));
  EXPECT_TRUE(same("\\sqrt3", "\\sqrt{3}"));
  EXPECT_TRUE(same("x = 5", "5"));
  EXPECT_TRUE(same("5\\text{ cm}", "5"));
  EXPECT_TRUE(same("\\$12.50", "12.50"));
  EXPECT_TRUE(same(".5", "0.5"));
  EXPECT_TRUE(same("50\\%", "50"));
  EXPECT_TRUE(same("90^\\circ", "90"));
  EXPECT_TRUE(same("\\left( 1, 2 \\right)", "(1,2)"));
  EXPECT_TRUE(same("\\text{Monday}", "Monday"));
  EXPECT_FALSE(same("\\frac{1}{2}", "\\frac{2}{1}"));
  EXPECT_FALSE(same("12", "1 3"));
  const EvalTask task = task_with("[{metric: boxed_match}, {metric: boxed_match_normalized}]");
  Question question;
  question.targets = {"Therefore $\\boxed{\\dfrac{9}{7}}$."};
  EXPECT_EQ(score_of(task, 0, {question}, {Json::array({"\\boxed{\\frac97}"})}), 0);
  EXPECT_EQ(score_of(task, 1, {question}, {Json::array({"\\boxed{\\frac97}"})}), 1);
  EXPECT_EQ(score_of(task, 1, {question}, {Json::array({"\\frac97"})}), 0);
}

TEST(TaskMetrics, FiltersReduceSeveralAnswers) {
  const EvalTask task = task_with("[{metric: exact_match}]", R"(repeats: 5
generation_kwargs: {do_sample: true, temperature: 1}
filter_list:
  - {name: vote, filter: [{function: regex, regex_pattern: '[0-9]+'}, {function: majority_vote}]}
  - {name: first, filter: [{function: take_first}, {function: code_block}]}
)");
  const std::vector<std::string> answers = {"is 4", "so 5", "5", "no", "4 5"};
  EXPECT_EQ(*filter_answers(task.filters[0], answers),
            std::vector<std::string>{"4"});  // 4 5 5 - 4: the first of equals
  EXPECT_EQ(*filter_answers(task.filters[1], {"See:\n```python\nx = 1\n```\nDone."}),
            std::vector<std::string>{"x = 1\n"});
}

TEST(TaskMetrics, CodeBlocksBeginAndEndAtLines) {
  EXPECT_EQ(code_block("x = 1"), "x = 1");
  EXPECT_EQ(code_block(""), "");
  EXPECT_EQ(code_block("```python\nx = 1\n```\n```\ny\n```"), "x = 1\n");
  EXPECT_EQ(code_block("```\n```"), "");
  EXPECT_EQ(code_block("Use ```x```:\n```python\nx = '```'\n```\nDone."), "x = '```'\n");
  EXPECT_EQ(code_block("```x``` is code"), "```x``` is code");
  EXPECT_EQ(code_block("Cut off:\n```python\nx = 1"), "x = 1");
  EXPECT_EQ(code_block("```"), "");
  EXPECT_EQ(code_block("    ```\nindented code"), "    ```\nindented code");
  EXPECT_EQ(code_block("1. f:\n   ```py\n   if x:\n     y\n\n z\n   ```\n"), "if x:\n  y\n\nz\n");
  EXPECT_EQ(code_block("   ```\n x\n "), "x\n");
  EXPECT_EQ(code_block("````md\n```\nx\n```\n````\n"), "```\nx\n```\n");
  EXPECT_EQ(code_block("```\nx\n``` not the end\n  ``` \ny"), "x\n``` not the end\n");
  EXPECT_EQ(code_block("```c++\r\nx\r\n```\r\n"), "x\r\n");
}

TEST(TaskMetrics, PassAtKMatchesValuesByHand) {
  const EvalTask task = task_with("[{metric: pass@5, program: '{{ answer }}'}]",
                                  "repeats: 5\ngeneration_kwargs: {do_sample: true, temperature: 1}\n");
  EXPECT_TRUE(task.runs_programs());
  EXPECT_DOUBLE_EQ(aggregate(task_metric(task.output, "pass@1"), {{1, 5}, {5, 5}, {0, 5}}).value,
                   (0.2 + 1) / 3);
  EXPECT_DOUBLE_EQ(aggregate(task_metric(task.output, "pass@5"), {{1, 5}, {5, 5}, {0, 5}}).value, 2.0 / 3);
}

}  // namespace
}  // namespace makar
