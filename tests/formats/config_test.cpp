#include "formats/config.h"

#include <gtest/gtest.h>

#include "scratch_folder.h"

namespace makar {
namespace {

Config config() {
  return *Config::parse(
      R"({"hidden_size": 64, "n_layer": 2, "eps": 1e-5, "theta": 10000, "tie": true, "act": "gelu",
      "nothing": null, "wrong": [1], "big": 18446744073709551615, "negative": -3, "half": 2.5,
      "dims": [1, 2, 3], "rates": [0.5, 1], "names": ["a", "b"], "mixed": [1, "x"],
      "rope": {"type": "llama3", "factor": 8.0}})",
      "m/config.json");
}

template <class T>
void expect_error(const Result<T>& result, const std::string& message) {
  ASSERT_FALSE(result.ok()) << message;
  EXPECT_EQ(result.error().text().substr(0, 13), "m/config.json");
  EXPECT_NE(result.error().text().find(message), std::string::npos) << result.error().text();
}

TEST(Config, ReadsEveryType) {
  const Config c = config();
  EXPECT_EQ(*c.integer("hidden_size", 1, 1000), 64);
  EXPECT_EQ(*c.integer({"n_embd", "hidden_size"}, 1, 1000), 64);
  EXPECT_EQ(*c.integer("negative", -5, 0), -3);
  EXPECT_EQ(*c.number("eps", 0, 1), 1e-5);
  EXPECT_EQ(*c.number("theta", 1, 1e9), 10000.0);
  EXPECT_TRUE(*c.boolean("tie"));
  EXPECT_EQ(*c.text("act"), "gelu");
  EXPECT_EQ(*c.choice("act", {"relu", "gelu"}), "gelu");
  EXPECT_EQ(*c.integers("dims", 0, 9), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(*c.numbers("rates", 0, 1), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(*c.texts("names"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(*c.object("rope")->number("factor", 1, 100), 8.0);
  EXPECT_EQ(c.keys().front(), "hidden_size");
}

TEST(Config, NullIsAbsent) {
  const Config c = config();
  EXPECT_FALSE(c.has("nothing"));
  EXPECT_TRUE(c.has({"nothing", "act"}));
  EXPECT_EQ(*c.integer_or("nothing", 7, 0, 9), 7);
  EXPECT_EQ(*c.integer_or("absent", -1, 0, 9), -1);  // the fallback may lie outside the bounds
  EXPECT_EQ(*c.number_or("nothing", 0.5, 0, 1), 0.5);
  EXPECT_EQ(*c.boolean_or("nothing", true), true);
  EXPECT_EQ(*c.text_or("nothing", "x"), "x");
  EXPECT_EQ(*c.choice_or("nothing", "x", {"y"}), "x");
  EXPECT_FALSE(c.object_or_empty("nothing")->has("type"));
  expect_error(c.integer("nothing", 0, 1), "field 'nothing' is missing");
}

TEST(Config, ErrorsNameFieldExpectedAndFound) {
  const Config c = config();
  expect_error(c.integer({"n_embd", "d_model"}, 1, 9), "field 'n_embd' or 'd_model' is missing");
  expect_error(c.integer("hidden_sizes", 1, 9), "did you mean 'hidden_size'?");
  expect_error(c.integer("hidden_size", 1, 63),
               "field 'hidden_size' must be an integer from 1 to 63, found 64");
  expect_error(c.integer({"n_embd", "hidden_size"}, 65, 70), "field 'hidden_size'");
  expect_error(c.integer("big", 0, INT64_MAX), "found 18446744073709551615");
  expect_error(c.integer("half", 0, 9), "found 2.5");
  expect_error(c.integer("act", 0, 9), "found the string 'gelu'");
  expect_error(c.integer("tie", 0, 9), "found true");
  expect_error(c.number("negative", 0, 1), "a number from 0 to 1, found -3");
  expect_error(c.number("act", 0, 1), "found the string 'gelu'");
  expect_error(c.boolean("hidden_size"), "must be true or false, found 64");
  expect_error(c.text("wrong"), "must be a string, found a list of 1");
  expect_error(c.choice("act", {"gelu_new", "relu"}), "expected one of gelu_new, relu");
  expect_error(c.object("wrong"), "must be an object, found a list of 1");
  expect_error(c.object("rope")->text("factor"),
               "config.json: rope: field 'factor' must be a string, found 8.0");
  expect_error(c.integers("act", 0, 9), "must be a list of integers");
  expect_error(c.integers("dims", 0, 2), "field 'dims[2]' must be an integer from 0 to 2, found 3");
  expect_error(c.integers("dims", 0, 9, 2), "has 3 values; the limit is 2");
  expect_error(c.texts("mixed"), "field 'mixed[0]' must be a string, found 1");
  expect_error(c.numbers("mixed", 0, 9), "field 'mixed[1]'");
  expect_error(c.integer_or("act", 1, 0, 9), "field 'act'");
  EXPECT_EQ(c.field_error("hidden_size", "must divide by 3").text(),
            "m/config.json: field 'hidden_size' must divide by 3");
}

// Python writes Infinity, which is not JSON; it is stored as a tagged object.
TEST(Config, InfinityIsRead) {
  const auto c = Config::parse(
      R"({"limit": [0.0, Infinity], "low": -Infinity, "name": "Infinity \\\"-Infinity"})", "config.json");
  ASSERT_TRUE(c.ok()) << c.error().text();
  EXPECT_EQ(
      c->json().dump(),
      R"({"limit":[0.0,{"__float__":"Infinity"}],"low":{"__float__":"-Infinity"},"name":"Infinity \\\"-Infinity"})");
  for (const char* text : {"{\"a\": Infinit}", "{\"a\": +Infinity}", "{\"a\": InfinityInfinity}",
                           "{\"a\": NaN}", "[Infinity]", "{\"Infinity"})
    EXPECT_FALSE(Config::parse(text, "config.json").ok()) << text;
}

TEST(Config, BrokenFilesAreErrors) {
  ScratchFolder folder;
  EXPECT_EQ(Config::read(folder / "none").error().kind, Error::Kind::kNotFound);
  EXPECT_NE(Config::read(folder.path()).error().text().find("has no config.json"), std::string::npos);
  EXPECT_NE(Config::read(folder.write("file", "")).error().text().find("is a file"), std::string::npos);
  const auto read_error = [&](const std::string& text) {
    folder.write("config.json", text);
    const auto result = Config::read(folder.path());
    return result.ok() ? std::string("ok") : result.error().text();
  };
  EXPECT_EQ(read_error("{}"), "ok");
  EXPECT_NE(read_error("").find("config.json: byte"), std::string::npos);
  EXPECT_NE(read_error("[]").find("must be a JSON object, found a list of 0"), std::string::npos);
  EXPECT_NE(read_error("{\"a\":1,\"a\":2}").find("given twice"), std::string::npos);
  EXPECT_NE(read_error("{\"a\":1e999}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(read_error("{\"a\":\"\xff\"}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(read_error(std::string("{}\0{", 4)).find("zero byte"), std::string::npos);
  EXPECT_NE(read_error(std::string(100, '[')).find("nested deeper than 32"), std::string::npos);
  EXPECT_NE(
      read_error("\"" + std::string(17 << 20, 'x') + "\"").find("limit for this kind of file is 16777216"),
      std::string::npos);
  EXPECT_LT(read_error("\"" + std::string(1 << 20, 'x')).size(), 600u);
}

}  // namespace
}  // namespace makar
