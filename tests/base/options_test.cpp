// Options: names, positional arguments, the environment, and the text of --help.
#include "base/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

namespace makar {
namespace {

struct Values {
  std::string model, to;
  std::vector<std::string> words;
  int64_t tokens = 256;
  double rate = 0.5;
  bool json = false;
};

Options declared(Values& v) {
  Options o("test", "Test options.", "makar test a b");
  o.group("Model");
  auto& model = o.add("-m --model --checkpoint", &v.model, "the model", "MODEL");
  model.required = true, model.position = "FROM";
  o.group("Output");
  auto& to = o.add("-o --output", &v.to, "the file to write", "FILE");
  to.position = "TO";
  o.add("-n --max-tokens --n-predict", &v.tokens,
        "tokens to generate at most, a number that needs many words to "
        "explain and so has to be wrapped",
        "N");
  o.group("Model");
  o.add("--rate", &v.rate, "a rate", "X");
  o.add("--json", &v.json, "print JSON");
  return o;
}

Status parse(Values& v, const std::string& line) {
  Options o = declared(v);
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word);
  return o.parse(words);
}

TEST(Options, APositionalArgumentSetsTheFirstOptionThatNoFlagSets) {
  for (const char* line :
       {"a b", "-m a b", "b -m a", "a -o b", "--model=a -o b", "--checkpoint a b", "-- a b"}) {
    Values v;
    const Status s = parse(v, line);
    ASSERT_TRUE(s.ok()) << line;
    EXPECT_EQ(v.model, "a") << line;
    EXPECT_EQ(v.to, "b") << line;
  }
  Values v;
  EXPECT_FALSE(parse(v, "a b c").ok());
  EXPECT_FALSE(parse(v, "-m a -o b c").ok());
  EXPECT_NE(parse(v, "").error().text().find("FROM is missing"), std::string::npos);
}

TEST(Options, PositionalArgumentsOverrideTheEnvironmentOnlyIfAllAreGiven) {
  setenv("MAKAR_MODEL", "env", 1);
  Values one, two, flag;
  EXPECT_TRUE(parse(one, "b").ok());
  EXPECT_EQ(one.model + one.to, "envb");
  EXPECT_TRUE(parse(two, "a b").ok());
  EXPECT_EQ(two.model + two.to, "ab");
  EXPECT_TRUE(parse(flag, "-m a").ok());
  EXPECT_EQ(flag.model, "a");
  unsetenv("MAKAR_MODEL");
}

TEST(Options, TheEnvironmentAcceptsEveryLongName) {
  for (const char* name : {"MAKAR_MAX_TOKENS", "MAKAR_N_PREDICT"}) {
    setenv(name, "7", 1);
    Values v;
    EXPECT_TRUE(parse(v, "a").ok());
    EXPECT_EQ(v.tokens, 7) << name;
    setenv(name, "many", 1);
    EXPECT_NE(parse(v, "a").error().text().find(name), std::string::npos);
    unsetenv(name);
  }
}

TEST(Options, ErrorsNameTheOptionAndTheNearest) {
  Values v;
  EXPECT_NE(parse(v, "a --max-token 3").error().text().find("--max-tokens"), std::string::npos);
  EXPECT_NE(parse(v, "a --rate fast").error().text().find("expects a number"), std::string::npos);
  EXPECT_NE(parse(v, "a --rate").error().text().find("expects a value"), std::string::npos);
  EXPECT_NE(parse(v, "a --json=maybe").error().text().find("on or off"), std::string::npos);
  EXPECT_TRUE(parse(v, "a -n -3").ok());
  EXPECT_EQ(v.tokens, -3);
}

TEST(Options, ChoicesAreCheckedOnTheCommandLineAndInTheEnvironment) {
  std::string kind = "cpu";
  Options o("test", "Test options.", "makar test");
  o.add("--kind", &kind, "the kind", "NAME").choices = {"cpu", "cuda"};
  EXPECT_TRUE(o.parse({"--kind", "cuda"}).ok());
  EXPECT_EQ(kind, "cuda");
  const std::string error = o.parse({"--kind", "cud"}).error().text();
  EXPECT_EQ(error, "--kind: unknown value 'cud'; did you mean 'cuda'?; expected one of: cpu, cuda");
  ::setenv("MAKAR_KIND", "gpu", 1);
  EXPECT_EQ(o.parse({}).error().text(),
            "MAKAR_KIND: unknown value 'gpu'; did you mean 'cpu'?; expected one of: cpu, cuda");
  ::unsetenv("MAKAR_KIND");
}

TEST(Options, HelpGroupsOptionsAndKeepsTheWidth) {
  Values v;
  const Options o = declared(v);
  for (const size_t width : {40, 80, 120}) {
    const std::string text = o.help(width);
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) EXPECT_LE(line.size(), width) << line;
    EXPECT_LT(text.find("\nModel\n"), text.find("\nOutput\n"));
    EXPECT_EQ(text.find("\nModel\n"), text.rfind("\nModel\n")) << "one heading for a group";
    EXPECT_LT(text.find("--rate"), text.find("\nOutput\n"));
  }
  const std::string text = o.help(200);
  EXPECT_NE(text.find("usage: makar test FROM [TO] [options]"), std::string::npos) << text;
  EXPECT_NE(text.find("  -n, --max-tokens N"), std::string::npos) << text;
  EXPECT_NE(text.find("(default 256) [also --n-predict]"), std::string::npos) << text;
  EXPECT_NE(text.find("      --rate X"), std::string::npos) << text;
  EXPECT_NE(text.find("the model [also argument FROM, --checkpoint]"), std::string::npos) << text;
  EXPECT_NE(text.find("MAKAR_MODEL for --model"), std::string::npos) << text;
}

}  // namespace
}  // namespace makar
