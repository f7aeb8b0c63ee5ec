// Prompt programs: parts, shots that fill a context, techniques with scripted replies, graphs, tests, tuning.
#include "apps/prompt.h"

#include <gtest/gtest.h>

namespace makar {
namespace {

// Replies by the first rule whose key is in the text; the context has `context` characters.
PromptModel scripted(std::vector<std::pair<std::string, std::string>> rules, size_t context = 100000) {
  PromptModel out;
  out.write = [rules = std::move(rules)](const std::string& text, const std::string&,
                                         const std::vector<std::string>& stop, int64_t,
                                         uint64_t sample) -> Result<ModelReply> {
    for (const auto& [key, reply] : rules) {
      if (text.find(key) == text.npos) continue;
      std::string output_text = reply;
      for (size_t at = output_text.find("{sample}"); at != output_text.npos;
           at = output_text.find("{sample}"))
        output_text.replace(at, 8, std::to_string(sample % 3 == 2 ? 9 : 7));
      for (const std::string& one : stop) output_text = output_text.substr(0, output_text.find(one));
      return ModelReply{output_text, static_cast<int64_t>(text.size()), 1};
    }
    return error_at("script", "no rule for: {}", text);
  };
  out.fits = [context](const std::string& text, int64_t) { return Result<bool>(text.size() <= context); };
  return out;
}

PromptProgram program(const std::string& yaml) {
  auto out = read_prompt_program(yaml, "p.yaml");
  EXPECT_TRUE(out.ok()) << out.error().text();
  return *out;
}

TEST(Prompt, ExamplesPrecedeTheInput) {
  const PromptProgram p = program(
      "example: '{{word}} in English is {{english}}.'\ninput: '{{word}} in English is'\nindicator: "
      "':'\nseparator: ' '\n"
      "examples:\n- {word: Maison, english: house}\n- {word: Chat, english: cat}\n");
  const auto built = build_prompt(p.prompts[0], {{"word", "Chien"}}, scripted({}));
  ASSERT_TRUE(built.ok());
  EXPECT_EQ(built->text, "Maison in English is house. Chat in English is cat. Chien in English is:");
  EXPECT_EQ(built->shots, 2);
  const PromptProgram q = program(
      "example: '{{a}} => {{b}}'\ninput: '{{a}} =>'\nseparator: \"\\n\"\nexamples: [{a: Ice cream, b: "
      "helado}]\n");
  EXPECT_EQ(build_prompt(q.prompts[0], {{"a", "Car"}}, scripted({}))->text, "Ice cream => helado\nCar =>");
}

TEST(Prompt, PartsAreJoinedAndShotsFillTheContext) {
  std::string yaml =
      "instruction: Answer.\ncontext: 'About {{topic}}.'\ninput: 'Q: {{q}}'\nindicator: \"\\nA:\"\n"
      "example: 'Q: {{q}}\n\n  A: {{a}}'\nexamples:\n";
  for (int i = 0; i < 9; ++i) yaml += "- {q: question " + std::to_string(i) + ", a: answer}\n";
  const Json fields = {{"topic", "sums"}, {"q", "question 7 again"}};
  EXPECT_EQ(build_prompt(program(yaml + "shots: 0\n").prompts[0], fields, scripted({}))->text,
            "Answer.\n\nAbout sums.\n\nQ: question 7 again\nA:");
  EXPECT_EQ(build_prompt(program(yaml + "shots: 1\n").prompts[0], fields, scripted({}))->shots, 1);
  // Without `shots`, as many examples as fit into the context.
  const auto unlimited = build_prompt(program(yaml).prompts[0], fields, scripted({}));
  EXPECT_EQ(unlimited->shots, 9);
  for (const size_t context : {unlimited->text.size(), unlimited->text.size() - 1, size_t{100}, size_t{60}}) {
    const auto built = build_prompt(program(yaml).prompts[0], fields, scripted({}, context));
    ASSERT_TRUE(built.ok());
    EXPECT_LE(built->text.size(), context);
    constexpr size_t kExampleBytes = 27;  // at least one more example and its separator
    EXPECT_GT(built->text.size() + kExampleBytes * (built->shots < 9 ? 1 : 0), context - 1)
        << "one more would not fit";
  }
  EXPECT_FALSE(build_prompt(program(yaml).prompts[0], fields, scripted({}, 20)).ok());
  // The most similar example is next to the input.
  const auto similar =
      build_prompt(program(yaml + "shots: 2\norder: similar\n").prompts[0], fields, scripted({}));
  EXPECT_NE(similar->text.find("question 7\nA: answer\n\nQ: question 7 again"), std::string::npos)
      << similar->text;
  // Random examples depend only on the seed.
  const Prompt random = program(yaml + "shots: 3\norder: random\n").prompts[0];
  EXPECT_EQ(build_prompt(random, fields, scripted({}), 4)->text,
            build_prompt(random, fields, scripted({}), 4)->text);
  EXPECT_NE(build_prompt(random, fields, scripted({}), 4)->text,
            build_prompt(random, fields, scripted({}), 5)->text);
  EXPECT_FALSE(build_prompt(program(yaml).prompts[0], {{"q", "x"}}, scripted({})).ok()) << "a missing field";
}

TEST(Prompt, ChainOfThoughtExtractsTheAnswer) {
  const PromptProgram p = program("input: 'Q: {{q}}'\nindicator: \"\\nA:\"\ntechnique: chain-of-thought\n");
  const auto run = run_prompt(p, {{"q", "23 x 47?"}},
                              scripted({{"Therefore, the answer is", " 1081.\nMore"},
                                        {"step by step", " 23 x 40 = 920, 23 x 7 = 161."}}));
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->output, "1081.");
  ASSERT_EQ(run->replies.size(), 2U);
  EXPECT_EQ(
      run->replies[1].sent,
      "Q: 23 x 47?\nA: Let's think step by step. 23 x 40 = 920, 23 x 7 = 161.\nTherefore, the answer is");
  const PromptProgram q = program("input: '{{q}}'\ntechnique: chain-of-thought\nanswer: 'is (\\d+)'\n");
  EXPECT_EQ(run_prompt(q, {{"q", "x"}}, scripted({{"x", "920 is 920. The sum is 1081 ok"}}))->output, "1081");
}

TEST(Prompt, SelfConsistencyTakesTheMajority) {
  const PromptProgram p =
      program("input: '{{q}}'\ntechnique: self-consistency\nsamples: 5\nanswer: 'is (\\d+)'\n");
  const auto run = run_prompt(p, {{"q", "x"}}, scripted({{"x", "it is {sample}"}}));
  EXPECT_EQ(run->output, "7");
  EXPECT_EQ(run->replies.size(), 5U);
  EXPECT_EQ(majority({"a", " B ", "b", ""}), "B");
  EXPECT_EQ(majority({"x", "y"}), "x");
  EXPECT_EQ(majority({}), "");
}

TEST(Prompt, SelfAskAnswersFollowUpQuestions) {
  const PromptProgram p = program("input: 'Question: {{q}}'\ntechnique: self-ask\n");
  const auto run = run_prompt(
      p, {{"q", "Who was king when the bridge was built?"}},
      scripted(
          {{"Question: When was the bridge built?\nAnswer:", " 1901\n"},
           {"Intermediate answer: 1901", "So the final answer is: Edward VII\nQuestion: next"},
           {"Are follow up", " Yes.\nFollow up: When was the bridge built?\nIntermediate answer: 1800"}}));
  ASSERT_TRUE(run.ok()) << run.error().text();
  EXPECT_EQ(run->output, "Edward VII");
  EXPECT_EQ(run->replies.size(), 3U);
  // A model that never concludes stops after `follow_ups` questions.
  const auto endless =
      run_prompt(program("input: 'Question: {{q}}'\ntechnique: self-ask\nfollow_ups: 3\n"), {{"q", "x"}},
                 scripted({{"Answer:", " no"}, {"Question", "Follow up: why?\n"}}));
  ASSERT_TRUE(endless.ok());
  EXPECT_LE(endless->replies.size(), 8U);
}

TEST(Prompt, LeastToMostAnswersSubquestionsFirst) {
  const PromptProgram p = program("input: '{{q}}'\ntechnique: least-to-most\n");
  const auto run = run_prompt(p, {{"q", "How old?"}},
                              scripted({{"Therefore, the answer to the first", " 39"},
                                        {"Q: When built?\nA:", " 1901"},
                                        {"Q: When born?\nA:", " 1862"},
                                        {"one per line", "1. When born?\n2. When built?"}}));
  ASSERT_TRUE(run.ok()) << run.error().text();
  EXPECT_EQ(run->output, "39");
  EXPECT_NE(run->replies.back().sent.find("Q: When born?\nA: 1862\nQ: When built?\nA: 1901"),
            std::string::npos);
}

TEST(Prompt, PromptsRunInTheOrderOfTheirNeeds) {
  const PromptProgram p = program(
      "name: g\nprompts:\n- {name: last, input: 'Join {{a}} and {{b}}', needs: [a, b]}\n- {name: a, input: "
      "'A {{x}}'}\n"
      "- {name: b, input: 'B {{a}}', needs: [a]}\n");
  ASSERT_EQ(p.prompts.size(), 3U);
  EXPECT_EQ(p.prompts[0].name, "a");
  EXPECT_EQ(p.prompts[2].name, "last");
  const auto run =
      run_prompt(p, {{"x", "1"}}, scripted({{"Join one and two", "both"}, {"B one", "two"}, {"A 1", "one"}}));
  ASSERT_TRUE(run.ok()) << run.error().text();
  EXPECT_EQ(run->output, "both");
  EXPECT_EQ(run->outputs["b"], "two");
}

TEST(Prompt, BrokenFilesAreLocatedErrors) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "map"},
      {"input: x\ninstruktion: y\n", "did you mean 'instruction'"},
      {"shots: 3\n", "needs an input"},
      {"input: x\nexamples: [{a: 1}]\n", "'example'"},
      {"input: x\ntechnique: cot\n", "chain-of-thought"},
      {"input: x\nschema: '{'\n", "schema"},
      {"input: x\nanswer: '('\n", "answer"},
      {"input: '{{'\n", "p.yaml"},
      {"prompts: [{name: a, input: x, needs: [b]}, {name: b, input: y, needs: [a]}]\n", "needs itself"},
      {"prompts: [{name: a, input: x, needs: [c]}]\n", "not a prompt"},
      {"prompts: [{name: a, input: x}, {name: a, input: y}]\n", "have the name"},
      {"prompts: [{input: x}]\n", "'name'"},
      {"input: x\ntests: [{fields: {a: 1}}]\n", "needs equals"},
      {"input: x\nsamples: 1000\n", "samples"},
  };
  for (const auto& [text, what] : cases) {
    const auto read = read_prompt_program(text, "p.yaml");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.error().text().find(what), std::string::npos) << text << read.error().text();
  }
}

TEST(Prompt, TestsCheckTheOutput) {
  const PromptProgram p = program(
      "input: x\ntests:\n- {fields: {a: 1}, equals: yes}\n- {name: second, contains: dog, lacks: cat}\n- "
      "{matches: '^\\d+$'}\n");
  EXPECT_EQ(test_failure(p.tests[0], " yes\n"), "");
  EXPECT_NE(test_failure(p.tests[0], "no"), "");
  EXPECT_EQ(test_failure(p.tests[1], "a dog"), "");
  EXPECT_NE(test_failure(p.tests[1], "a dog and a cat"), "");
  EXPECT_EQ(p.tests[1].name, "second");
  EXPECT_EQ(test_failure(p.tests[2], "12"), "");
  EXPECT_NE(test_failure(p.tests[2], "12a"), "");
}

TEST(Prompt, TuningFindsTheBestInstructionAndExamples) {
  // Right only with the good instruction and an example about dogs.
  PromptModel model;
  model.fits = [](const std::string&, int64_t) { return Result<bool>(true); };
  model.write = [](const std::string& text, const std::string&, const std::vector<std::string>&, int64_t,
                   uint64_t) {
    const bool good = text.find("Be right.") != text.npos, dog = text.find("dog -> hund\n") != text.npos;
    const bool cat = text.ends_with("cat ->");
    return Result<ModelReply>(ModelReply{good && (cat || dog) ? (cat ? "katze" : "kuh") : "?", 1, 1});
  };
  const PromptProgram p = program(
      "instruction: Be quick.\ninput: '{{w}} ->'\nexample: '{{w}} -> {{output}}'\nseparator: \"\\n\"\n");
  const std::vector<Json> pool = {{{"w", "dog"}, {"output", "hund"}},
                                  {{"w", "sun"}, {"output", "sonne"}},
                                  {{"w", "sea"}, {"output", "meer"}}};
  const std::vector<Json> records = {{{"w", "cat"}, {"output", "Katze"}}, {{"w", "cow"}, {"output", "kuh"}}};
  TuneOptions options;
  options.instructions = {"Be slow.", "Be right."};
  options.shots = 1, options.trials = 12;
  const auto tuned = tune_prompt(p, pool, records, model, options);
  ASSERT_TRUE(tuned.ok()) << tuned.error().text();
  EXPECT_EQ(tuned->before, 0);
  EXPECT_EQ(tuned->after, 1);
  EXPECT_EQ(tuned->instruction, "Be right.");
  ASSERT_EQ(tuned->examples.size(), 1U);
  EXPECT_EQ(tuned->examples[0]["w"], "dog");
  EXPECT_EQ(tuned->tried.size(), 15U);
  options.metric = "exakt";
  EXPECT_FALSE(tune_prompt(p, pool, records, model, options).ok());
}

}  // namespace
}  // namespace makar
