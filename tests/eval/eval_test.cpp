// Every output type on a toy model, with scores computed by hand; resume; located errors of task files.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "eval/results.h"
#include "eval/toy_model.h"
#include "scratch_folder.h"

namespace makar {
namespace {

class EvalTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(write_file(folder_.path() + "/" + name, text).ok());
  }
  EvalTask task(const std::string& yaml) {
    auto parsed = parse_task(yaml, "t.yaml");
    check(parsed.ok(), parsed.ok() ? "" : parsed.error().text());
    return std::move(*parsed);
  }
  std::vector<TaskResult> run(const EvalTask& task) {
    auto cache = EvalCache::open("");
    return run(task, *cache);
  }
  std::vector<TaskResult> run(const EvalTask& task, EvalCache& cache) {
    options_.data = folder_.path();
    auto results = run_task(model_, task, options_, cache);
    check(results.ok(), results.ok() ? "" : results.error().text());
    return std::move(*results);
  }
  static double score(const TaskResult& result, const std::string& metric,
                      const std::string& filter = "none") {
    for (const MetricResult& one : result.scores)
      if (one.metric == metric && one.filter == filter) return one.score.value;
    ADD_FAILURE() << "no score " << metric;
    return -1;
  }
  ScratchFolder folder_;
  ToyModel model_;
  EvalOptions options_;
};

const char* kChoice = R"(
task: choice
dataset_kwargs: {data_files: {test: d.jsonl, dev: dev.jsonl}}
fewshot_split: dev
fewshot_config: {sampler: first_n}
output_type: multiple_choice
description: "About {{ topic }}:\n\n"
doc_to_text: "Q: {{q}}\nA:"
doc_to_choice: "{{ [a, b] }}"
doc_to_target: label
metric_list: [{metric: acc}, {metric: acc_norm}, {metric: acc_bytes}, {metric: brier_score}]
metadata: {version: 2}
)";

TEST_F(EvalTest, MultipleChoiceMatchesValuesByHand) {
  // Document 0: the correct choice has the greater log-likelihood. Document 1: it is greater only per
  // character: "long one" has -6 / 8 = -0.75 against -1.6 / 2 = -0.8. Document 2: "ää" has 2 characters and 4
  // bytes: -2 / 2 against -3 / 4 for "oooo" by characters, but -2 / 4 against -3 / 4 by bytes.
  write("d.jsonl", R"({"topic":"x","q":"1","a":"yes","b":"no","label":0}
{"topic":"x","q":"2","a":"hm","b":"long one","label":1}
{"topic":"x","q":"3","a":"ää","b":"oooo","label":1}
)");
  write("dev.jsonl", R"({"topic":"x","q":"0","a":"one","b":"two","label":"two"}
{"topic":"x","q":"00","a":"left","b":"right","label":0}
)");
  model_.logprobs = {{" yes", -1}, {" no", -1 - std::log(3.0)}, {" hm", -1.6}, {" long one", -6}, {" ää", -2},
                     {" oooo", -3}};
  options_.samples = true;
  options_.num_fewshot = 2;
  const auto results = run(task(kChoice));
  ASSERT_EQ(results.size(), 1u);
  EXPECT_DOUBLE_EQ(score(results[0], "acc"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(score(results[0], "acc_norm"), 1.0);
  EXPECT_DOUBLE_EQ(score(results[0], "acc_bytes"), 2.0 / 3);
  // Of document 0: p = 3/4, 1/4; (1/4)^2 + (1/4)^2.
  EXPECT_NEAR(results[0].samples[0]["brier_score"].get<double>(), 0.125, 1e-12);
  // Values 1, 0, 0: variance with n - 1 is 1/3, divided by 3.
  EXPECT_NEAR(*results[0].scores[0].score.error, std::sqrt(1.0 / 9), 1e-12);
  EXPECT_EQ(model_.contexts[0], "About x:\n\nQ: 0\nA: two\n\nQ: 00\nA: left\n\nQ: 1\nA:");
  EXPECT_EQ(results[0].samples[1]["target"], 1);
  EXPECT_EQ(results[0].samples[1]["arguments"]["gen_args_1"]["arg_1"], " long one");
  const Json json = results_json({{results, {}}}, options_, model_.identity());
  EXPECT_DOUBLE_EQ(json["results"]["choice"]["acc,none"].get<double>(), 1.0 / 3);
  EXPECT_EQ(json["versions"]["choice"], 2);
  EXPECT_EQ(json["n-shot"]["choice"], 2);
  EXPECT_EQ(json["n-samples"]["choice"]["effective"], 3);
}

TEST_F(EvalTest, SeveralChoicesMayBeCorrect) {
  write("d.jsonl", R"({"right":["r1","r2"],"wrong":["w"]})");
  model_.logprobs = {{" r1", std::log(0.2)}, {" r2", std::log(0.1)}, {" w", std::log(0.1)}};
  const auto results = run(task(R"(
task: mc2
dataset_kwargs: {data_files: {test: d.jsonl}}
output_type: multiple_choice
doc_to_choice: "{{ right + wrong }}"
doc_to_target: "{{ range(right | length) | list }}"
metric_list: [{metric: mc2}, {metric: acc}]
)"));
  EXPECT_NEAR(score(results[0], "mc2"), 0.75, 1e-12);
  EXPECT_EQ(score(results[0], "acc"), 1);
  EXPECT_FALSE(results[0].scores[0].score.error);
}

TEST_F(EvalTest, LoglikelihoodsGivePerplexities) {
  write("d.jsonl", "{\"text\":\"a greedy\"}\n{\"text\":\"b bb\"}\n");
  model_.logprobs = {{" a greedy", -1}, {" b bb", -3}};
  const char* yaml_template = R"(
task: last
dataset_kwargs: {data_files: {test: d.jsonl}}
output_type: OUTPUT
doc_to_target: text
metric_list: METRICS
)";
  const auto yaml_with = [&](const std::string& output, const std::string& metrics) {
    std::string text = yaml_template;
    text.replace(text.find("OUTPUT"), 6, output);
    return text.replace(text.find("METRICS"), 7, metrics);
  };
  const auto last = run(task(yaml_with("loglikelihood", "[{metric: perplexity}, {metric: acc}]")));
  EXPECT_NEAR(score(last[0], "perplexity"), std::exp(2.0), 1e-12);
  EXPECT_EQ(score(last[0], "acc"), 0.5);
  // 8 + 4 bytes and 2 + 2 words at one bit per byte.
  const auto rolling =
      run(task(yaml_with("loglikelihood_rolling",
                         "[{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]")));
  EXPECT_NEAR(score(rolling[0], "bits_per_byte"), 1, 1e-12);
  EXPECT_NEAR(score(rolling[0], "byte_perplexity"), 2, 1e-12);
  EXPECT_NEAR(score(rolling[0], "word_perplexity"), 8, 1e-12);
}

TEST_F(EvalTest, FiltersExtractWhatIsScored) {
  write("d.jsonl", R"({"q":"1","answer":"6 + 6 = 12\n#### 12"}
{"q":"2","answer":"#### 1,000"}
{"q":"3","answer":"#### 7"}
)");
  model_.answers = {
      {"Answer 1:", " 6 and 6.\n#### 12"}, {"Answer 2:", " It is $1,000."}, {"Answer 3:", " 7 or 8"}};
  const auto results = run(task(R"(
task: sums
dataset_kwargs: {data_files: {test: d.jsonl}}
doc_to_text: "Question\nAnswer {{ q }}:"
doc_to_target: answer
filter_list:
  - name: strict-match
    filter: [{function: regex, regex_pattern: '#### (-?[0-9.,]+)'}, {function: take_first}]
  - name: flexible-extract
    filter: [{function: regex, regex_pattern: '(-?[$0-9.,]{2,})|(-?[0-9]+)', group_select: -1}]
metric_list:
  - {metric: exact_match, regexes_to_ignore: [',', '\$', '[\s\S]*#### ', '\.$']}
)"));
  EXPECT_DOUBLE_EQ(score(results[0], "exact_match", "strict-match"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(score(results[0], "exact_match", "flexible-extract"), 2.0 / 3);
}

TEST_F(EvalTest, AnyOfSeveralAnswersCounts) {
  write("d.jsonl", R"({"q":"1","answer":["14 December 1972", "the Moon"]})");
  model_.answers = {{"1:", "  a moon!"}};
  const auto results = run(task(R"(
task: open
dataset_kwargs: {data_files: {test: d.jsonl}}
doc_to_text: "{{ q }}:"
doc_to_target: answer
metric_list: [{metric: squad_exact}, {metric: squad_f1}, {metric: exact_match}]
)"));
  EXPECT_EQ(score(results[0], "squad_exact"), 1);
  EXPECT_EQ(score(results[0], "squad_f1"), 1);
  EXPECT_EQ(score(results[0], "exact_match"), 0);
}

TEST_F(EvalTest, AFileIsSolvedIfAllItsInputsAre) {
  // Five inputs in three files; only the second file has a wrong output.
  write("d.jsonl", R"({"train":"t0","test":[{"in":"a","out":"1"},{"in":"b","out":"2"}]}
{"train":"t1","test":[{"in":"c","out":"3"},{"in":"d","out":"4"}]}
{"train":"t2","test":[{"in":"e","out":"5"}]}
)");
  model_.answers = {{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "wrong"}, {"e", "5"}};
  const std::string yaml = R"(
task: files
dataset_kwargs: {data_files: {test: d.jsonl}, explode: test}
doc_to_text: "{{ train }}\n{{ test.in }}"
doc_to_target: "{{ test.out }}"
metric_list: [{metric: exact_match, alias: solved, all_of: document_number}, {metric: exact_match}]
)";
  options_.samples = true;
  options_.batch = 2;
  const auto all = run(task(yaml));
  EXPECT_EQ(model_.contexts, (std::vector<std::string>{"t0\na", "t0\nb", "t1\nc", "t1\nd", "t2\ne"}));
  EXPECT_EQ(all[0].documents, 5u);
  EXPECT_DOUBLE_EQ(score(all[0], "exact_match"), 4.0 / 5);
  EXPECT_DOUBLE_EQ(score(all[0], "solved"), 2.0 / 3);
  // Values 1, 0, 1, each at the last input of its file.
  EXPECT_NEAR(*all[0].scores[0].score.error, std::sqrt(2.0 / 3 / 2 / 3), 1e-12);
  EXPECT_FALSE(all[0].samples[0].contains("solved"));
  EXPECT_EQ(all[0].samples[3]["solved"], 0);
  EXPECT_EQ(all[0].samples[4]["solved"], 1);
  // A document that `where` excludes still counts as the last input of its file.
  const auto filtered = run(task(R"(
task: files
dataset_kwargs: {data_files: {test: d.jsonl}, explode: test}
doc_to_text: "{{ train }}\n{{ test.in }}"
doc_to_target: "{{ test.out }}"
metric_list: [{metric: exact_match, alias: solved, all_of: document_number, where: "{{ test.in != 'b' and test.in != 'd' }}"}]
)"));
  EXPECT_EQ(filtered[0].scores[0].score.value, 1) << "the inputs that remain in files 0, 1 and 2 are solved";
  EXPECT_TRUE(filtered[0].samples[1].contains("solved"));
  // A file that the limit cuts off does not count.
  options_.limit = 3;
  const auto three = run(task(yaml));
  EXPECT_EQ(score(three[0], "solved"), 1);
  EXPECT_EQ(score(three[0], "exact_match"), 1);
  EXPECT_FALSE(three[0].samples[2].contains("solved"));

  write("d.jsonl", "{\"train\":\"t\",\"test\":[]}\n");
  auto cache = EvalCache::open("");
  const auto empty = run_task(model_, task(yaml), options_, *cache);
  ASSERT_FALSE(empty.ok());
  EXPECT_NE(
      empty.error().text().find("document 0: expected a list with one item or more in the field 'test'"),
      std::string::npos)
      << empty.error().text();
  const auto corpus = parse_task(
      "task: t\ndataset_kwargs: {documents: [{a: b}]}\ndoc_to_text: a\ndoc_to_target: a\n"
      "metric_list: [{metric: bleu, all_of: a}]\n",
      "t.yaml");
  ASSERT_FALSE(corpus.ok());
  EXPECT_NE(corpus.error().text().find("t.yaml:5"), std::string::npos) << corpus.error().text();
}

TEST_F(EvalTest, GroupsAreWeightedByDocuments) {
  write("x.csv", "1,2,A\n3,4,B\n");
  write("y.csv", "5,6,A\n7,8,A\n9,10,A\n");
  model_.logprobs = {{" A", -1}, {" B", -2}};
  const EvalTask grouped = task(R"(
task: exam
dataset_kwargs: {data_files: {test: "{name}.csv"}, columns: [A, two, answer]}
dataset_name: {first: [x], second: [y]}
output_type: multiple_choice
doc_to_text: "{{ dataset_name }} {{ A }}"
doc_to_choice: [A, B]  # literal texts, even if a field has that name
doc_to_target: answer
)");
  const auto subtasks = run(grouped);
  ASSERT_EQ(subtasks.size(), 2u);
  EXPECT_EQ(subtasks[0].name, "exam_x");
  EXPECT_EQ(score(subtasks[0], "acc"), 0.5);
  EXPECT_EQ(model_.contexts[0], "x 1");
  const auto groups = group_results(grouped, subtasks);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].name, "exam");
  EXPECT_DOUBLE_EQ(score(groups[0], "acc"), 0.8);
  EXPECT_EQ(groups[1].name, "exam_first");
  EXPECT_EQ(groups[2].evaluated, 3u);
  // Pooled: (1 * 0.5^2 * 2 + 2 * 0 * 3) / (5 - 2) / 5.
  EXPECT_NEAR(*groups[0].scores[0].score.error, std::sqrt(0.5 / 15), 1e-12);
}

TEST_F(EvalTest, AFailedRunResumesFromTheCache) {
  std::string lines;
  for (int i = 0; i < 20; ++i)
    lines +=
        fmt::format(R"({{"topic":"t","q":"{}","a":"a{}","b":"bb{}","label":{}}})", i, i * 7, i, i % 2) + "\n";
  write("d.jsonl", lines), write("dev.jsonl", lines);
  const EvalTask choice = task(kChoice);
  options_.num_fewshot = 3, options_.batch = 4;
  const Json uninterrupted = results_json({{run(choice), {}}}, options_, model_.identity());
  EXPECT_EQ(model_.request_count, 40);

  const std::string path = folder_.path() + "/cache";
  model_.request_count = 0, model_.fail_after = 21;  // in the third batch
  {
    auto cache = EvalCache::open(path);
    ASSERT_TRUE(cache.ok());
    const auto failed = run_task(model_, choice, options_, *cache);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().place, "choice: document 10: toy");
  }
  auto text = read_file(path);  // a kill in the middle of a line
  ASSERT_TRUE(write_file(path, text->substr(0, text->size() - 10)).ok());
  model_.request_count = 0, model_.fail_after = -1;
  auto cache = EvalCache::open(path);
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ(cache->size(), 9u);
  EXPECT_EQ(results_json({{run(choice, *cache), {}}}, options_, model_.identity()).dump(),
            uninterrupted.dump());
  EXPECT_EQ(model_.request_count, 22);
  model_.request_count = 0;
  (void)run(choice, *cache);
  EXPECT_EQ(model_.request_count, 0);
  ASSERT_TRUE(write_file(path, "{\"key\": 1}\n").ok());
  const auto broken = EvalCache::open(path);
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().text().find("cache:1: is not an entry"), std::string::npos);
}

TEST_F(EvalTest, ExamplesAreDrawnBySeedAndNeverTheQuestion) {
  std::string lines;
  for (int i = 0; i < 6; ++i) lines += fmt::format(R"({{"q":"{}","answer":"{}"}})", i, i) + "\n";
  write("d.jsonl", lines);
  const EvalTask open = task(
      "task: t\ndataset_kwargs: {data_files: {test: d.jsonl}}\ndoc_to_text: \"{{ q }}:\"\ndoc_to_target: "
      "answer\n"
      "fewshot_delimiter: \";\"\n");
  auto data = read_eval_data(open, "", folder_.path());
  ASSERT_TRUE(data.ok());
  bool differs = false;
  for (size_t i = 0; i < 6; ++i) {
    const auto one = make_question(open, *data, i, 5, 1), again = make_question(open, *data, i, 5, 1);
    ASSERT_TRUE(one.ok());
    EXPECT_EQ(one->context, again->context);
    EXPECT_EQ(one->context.find(fmt::format("{}: {};", i, i)), std::string::npos);
    EXPECT_EQ(std::count(one->context.begin(), one->context.end(), ';'), 5);
    differs = differs || make_question(open, *data, i, 5, 2)->context != one->context;
  }
  EXPECT_TRUE(differs);
  EXPECT_EQ(make_question(open, *data, 0, 6, 1).error().text(),
            "num_fewshot: is 6, but the split has only 5 other documents");
}

TEST_F(EvalTest, BrokenTaskFilesHaveLocatedErrors) {
  const auto error = [](const std::string& text) {
    const auto parsed = parse_task(text, "t.yaml");
    return parsed.ok() ? std::string("no error") : parsed.error().text();
  };
  const std::string good = "task: t\ndataset_kwargs: {data_files: {test: d.jsonl}}\ndoc_to_target: answer\n";
  EXPECT_EQ(error(good), "no error");
  EXPECT_EQ(error(good + "doc_to_txt: x\n"),
            "t.yaml:4: unknown key 'doc_to_txt'; did you mean 'doc_to_text'?");
  EXPECT_EQ(error(good + "task: u\n"), "t.yaml:4: the key 'task' is given twice");
  EXPECT_NE(error(good + "output_type: multiple_chioce\n").find("did you mean 'multiple_choice'"),
            std::string::npos);
  EXPECT_NE(
      error(good + "output_type: multiple_choice\n").find("t.yaml:4: 'output_type': multiple_choice needs"),
      std::string::npos);
  EXPECT_NE(
      error(good + "num_fewshot: many\n").find("t.yaml:4: 'num_fewshot': expected a number from 0 to 1000"),
      std::string::npos);
  EXPECT_NE(error(good + "process: 1\n\n").find("t.yaml:4"), std::string::npos);
  EXPECT_NE(error(good + "doc_to_text: !function utils.text\n").find("Python functions are not run"),
            std::string::npos);
  EXPECT_NE(error(good + "doc_to_text: '{{ a'\n").find("t.yaml:4: doc_to_text"), std::string::npos);
  EXPECT_NE(error(good + "metric_list:\n  - metric: acc_nrm\n")
                .find("t.yaml:5: 'metric': generate_until has no metric"),
            std::string::npos);
  EXPECT_NE(error(good + "filter_list: [{filter: [{function: regex, regex_pattern: '('}]}]\n")
                .find("does not compile"),
            std::string::npos);
  EXPECT_NE(error("task: t\nfewshot_split: dev\ndoc_to_target: a\n").find("no files for the split 'test'"),
            std::string::npos);
  EXPECT_NE(
      error(good + "metric_list: [{metric: pass@10, program: x}]\n").find("pass@10 needs 'repeats: 10'"),
      std::string::npos);
  EXPECT_NE(error(good + "metric_list: [{metric: pass@1}]\n").find("pass@1 needs 'program'"),
            std::string::npos);
  EXPECT_NE(error(good + "metric_list: [{metric: exact_match, labels: x}]\n").find("has no 'labels'"),
            std::string::npos);
  EXPECT_NE(error(good + "metric_list: [{metric: words}, {metric: words}]\n").find("is given twice"),
            std::string::npos);
  EXPECT_NE(error(good + "repeats: 3\n").find("t.yaml:4: 'repeats': need generation_kwargs"),
            std::string::npos);
  EXPECT_NE(error("- a\n").find("t.yaml: a task is a map"), std::string::npos);
  EXPECT_NE(error("a: [\n").find("is not valid YAML"), std::string::npos);
  EXPECT_NE(error(std::string(100, '[')).find("nested too deep"), std::string::npos);
}

TEST_F(EvalTest, BrokenDataHasLocatedErrors) {
  const auto error = [&](const std::string& lines) {
    write("d.jsonl", lines), write("dev.jsonl", "{}");
    auto cache = EvalCache::open("");
    options_.data = folder_.path();
    const auto results = run_task(model_, task(kChoice), options_, *cache);
    return results.ok() ? std::string("no error") : results.error().text();
  };
  EXPECT_NE(error("{\"q\": 1}\nnonsense\n").find("d.jsonl:2"), std::string::npos);
  EXPECT_NE(error(R"({"topic":"t","q":"1","a":"x","b":"y","label":"z"})")
                .find("choice: document 0: doc_to_target: '\"z\"' is neither"),
            std::string::npos);
  EXPECT_NE(
      error(R"({"topic":"t","q":"1","a":"x","b":"y","label":2})").find("is neither one of the 2 choices"),
      std::string::npos);
  EXPECT_NE(error("").find("is empty"), std::string::npos);
  // Names that a document lacks.
  EXPECT_EQ(error(R"({"topic":"t","qq":"1","a":"x","b":"y","label":0})"),
            "choice: document 0: t.yaml:8: doc_to_text:1:6: 'q' is undefined; did you mean 'qq'?");
  EXPECT_EQ(error(R"({"topic":"t","q":"1","a":"x","b":"y","labels":0})"),
            "choice: document 0: t.yaml:10: doc_to_target: the document has no field 'label'; did you mean "
            "'labels'?");
}

TEST_F(EvalTest, DocumentsMayBeInAFieldOrInTheTask) {
  write("d.json", R"({"note":"x","examples":[{"q":"1","answer":"one"},{"q":"2","answer":"two"}]})");
  write("rules.txt", "Count.");
  model_.answers = {{"1:", "one"}, {"2:", "one"}};
  const auto from_field = run(task(R"(
task: from_field
dataset_kwargs: {data_files: {test: d.json}, field: examples, shared_files: {rules: rules.txt}}
description: "{{ rules }}\n"
doc_to_text: "{{ q }}:"
doc_to_target: answer
)"));
  EXPECT_EQ(score(from_field[0], "exact_match"), 0.5);
  EXPECT_EQ(model_.contexts.back(), "Count.\n2:");
  const auto inline_documents = run(task(R"(
task: inline_documents
dataset_kwargs: {documents: [{q: "1", answer: one}, {q: "2", answer: one}]}
doc_to_text: "{{ q }}:"
doc_to_target: answer
)"));
  EXPECT_EQ(score(inline_documents[0], "exact_match"), 1);
}

TEST_F(EvalTest, ProgramsRunOnlyIfAllowed) {
  const EvalTask code = task(R"(
task: code
dataset_kwargs: {documents: [{q: "def one():", test: "assert one() == 1"}]}
doc_to_text: q
doc_to_target: test
metric_list: [{metric: pass@1, program: "{{ q }}{{ answer }}\n{{ test }}\n"}]
)");
  model_.answers = {{"def one():", "\n  return 1"}};
  auto cache = EvalCache::open("");
  const auto refused = run_task(model_, code, options_, *cache);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text().find("--confirm-run-unsafe-code"), std::string::npos);
  EXPECT_EQ(model_.request_count, 0);
  options_.run_programs = true;
  const auto allowed = run_task(model_, code, options_, *cache);
  if (!allowed.ok()) GTEST_SKIP() << allowed.error().text();
  EXPECT_EQ(score((*allowed)[0], "pass@1"), 1);
}

TEST(Tasks, EveryTaskFileIsRead) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MAKAR_SOURCE_DIR "/tasks")) {
    if (entry.path().extension() != ".yaml") continue;
    const auto task = read_task(entry.path().string());
    ASSERT_TRUE(task.ok()) << task.error().text();
    EXPECT_EQ(task->name, entry.path().stem().string());
    EXPECT_GE(task->version.get<double>(), 1);
    ++count;
  }
  EXPECT_GE(count, 45u);
}

}  // namespace
}  // namespace makar
