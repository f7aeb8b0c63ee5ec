// Pipelines: variables, errors with their lines, finished stages.
#include "train/pipeline.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "scratch_folder.h"

namespace makar {
namespace {

TEST(Pipeline, VariablesAreReplacedInWords) {
  const auto pipeline = parse_pipeline(R"(
variables: {folder: runs/x, model: , steps: 3}
stages:
  - {name: one, command: [reward, -m, "{model}", "steps={steps}", "{{brace}"]}
)",
                                       "p.yaml", {{"model", "a{steps}"}, {"folder", "runs/y"}});
  ASSERT_TRUE(pipeline.ok()) << pipeline.error().text();
  EXPECT_EQ(pipeline->folder(), "runs/y");
  // Variables in a value are not replaced.
  EXPECT_EQ(pipeline->stages[0].command,
            (std::vector<std::string>{"reward", "-m", "a{steps}", "steps=3", "{brace}"}));
}

TEST(Pipeline, ErrorsHaveTheirLine) {
  const std::string head = "variables: {folder: f, model: m}\nstages:\n";
  const std::pair<std::string, const char*> cases[] = {
      {"stages: []\n", "expected 'variables'"},
      {"variables: {model: m}\nstages: []\n", "the variable 'folder'"},
      {"variables: {folder: f, model: }\nstages: []\n", "model has no value"},
      {head + "  - {name: a, command: ['{modl}']}\n", "p.yaml:3: unknown variable 'modl'; did you mean"},
      {head + "  - {name: a, command: [x]}\n  - {name: a, command: [y]}\n", "p.yaml:4: two stages"},
      {head + "  - {name: a b, command: [x]}\n", "'name'"},
      {head + "  - {name: a, command: x}\n", "expected a list of words"},
      {head + "  - {name: a, comand: [x]}\n", "'name' and 'command' only"},
      {head + "  - {name: a, command: [[x]]}\n", "must be a string"},
      {"variables: {folder: f}\nstages: []\n", "1 to 256 stages"},
      {"variables: {folder: f}\nsteps: []\n", "only"}};
  for (const auto& [text, part] : cases) {
    const auto read = parse_pipeline(text, "p.yaml");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.error().text().find(part), std::string::npos) << read.error().text() << "\n" << text;
  }
  const auto unknown = parse_pipeline(head + "  - {name: a, command: [x]}\n", "p.yaml", {{"modle", "x"}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().text().find("did you mean 'model'"), std::string::npos);
}

TEST(Pipeline, FinishedStagesAreStored) {
  const ScratchFolder folder;
  Pipeline p;
  p.variables["folder"] = folder.path();
  p.stages = {{"one", {"data", "a"}}, {"two", {"data", "b"}}};
  auto state = PipelineState::open(p);
  ASSERT_TRUE(state.ok());
  EXPECT_FALSE(state->finished("one"));
  ASSERT_TRUE(state->add(p.stages[0], 1.5).ok());
  const auto reopened = PipelineState::open(p);
  ASSERT_TRUE(reopened.ok()) << reopened.error().text();
  EXPECT_TRUE(reopened->finished("one"));
  EXPECT_FALSE(reopened->finished("two"));
  p.stages[0].command[1] = "c";
  const auto other = PipelineState::open(p);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().text().find("another command"), std::string::npos);
  for (const char* text : {"[]", "{\"finished\": 3}", "{\"finished\": [{}]}", "{"}) {
    ASSERT_TRUE(write_file(folder.path() + "/pipeline.json", text).ok());
    EXPECT_FALSE(PipelineState::open(p).ok()) << text;
  }
}

}  // namespace
}  // namespace makar
