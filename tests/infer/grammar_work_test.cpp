// The cost of compiling a grammar: linear in its text, counted, and limited by the request's work budget.
// Each text below once took seconds or minutes.
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "infer/cpu_seconds.h"
#include "infer/grammar/expr.h"
#include "infer/grammar/grammar.h"
#include "infer/grammar_writer.h"

namespace makar {
namespace {

using Compile = Result<Grammar> (*)(std::string_view, const GrammarLimits&, WorkBudget*);

template <class Item>
std::string join_items(int count, const char* separator, const Item& item) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i > 0 ? separator : "") + item(i);
  return out;
}

std::string descending_class(int count) {
  return join_items(count, "", [](int i) { return utf8(static_cast<uint32_t>(0x100000 - 2 * i)); });
}

struct Hostile {
  const char* name;
  Compile compile;
  std::string text;
};

const std::vector<Hostile>& hostile() {
  static const auto gbnf = &Grammar::from_gbnf, regex = &Grammar::from_regex,
                    schema = &Grammar::from_json_schema;
  const auto chain = [](const char* body) {
    return "root ::= r0\n" +
           join_items(40000, "",
                      [&](int i) {
                        return fmt::format("r{} ::= {}\n", i, fmt::format(fmt::runtime(body), i + 1));
                      }) +
           "r40000 ::= \"a\"\n";
  };
  static const std::vector<Hostile> all = {
      {"a class of characters in descending order", gbnf, "root ::= [" + descending_class(250000) + "]"},
      {"a regular expression with such a class", regex, "[" + descending_class(250000) + "]"},
      {"a pattern with such a class", schema,
       R"({"type":"string","pattern":"[)" + descending_class(200000) + R"(]"})"},
      {"chained rules", gbnf, chain("r{}")},
      {"chained rules, each with a character", gbnf, chain("\"a\" r{}")},
      {"chained choices", gbnf, chain("r{} | \"b\"")},
      {"many properties", schema,
       R"({"type":"object","properties":{)" +
           join_items(80000, ",", [](int i) { return fmt::format(R"("p{}":{{}})", i); }) + "}}"},
      {"many properties and any other", schema,
       R"({"type":"object","additionalProperties":true,"properties":{)" +
           join_items(60000, ",",
                      [](int i) { return "\"" + utf8(static_cast<uint32_t>(0x10000 + i)) + "\":{}"; }) +
           "}}"},
      {"allOf of many properties", schema,
       R"({"allOf":[)" +
           join_items(20000, ",",
                      [](int i) { return fmt::format(R"({{"properties":{{"a{}":{{}}}}}})", i); }) +
           "]}"},
      {"allOf of one property", schema,
       R"({"allOf":[)" +
           join_items(25000, ",",
                      [](int i) { return fmt::format(R"({{"properties":{{"a":{{"x":{}}}}}}})", i); }) +
           "]}"},
      {"allOf of items", schema,
       R"({"allOf":[)" +
           join_items(25000, ",", [](int i) { return fmt::format(R"({{"items":{{"x":{}}}}})", i); }) + "]}"},
      {"allOf of lists of values", schema,
       R"({"allOf":[{"enum":[)" + join_items(60000, ",", [](int i) { return std::to_string(i); }) +
           R"(]},{"enum":[)" + join_items(60000, ",", [](int i) { return std::to_string(i + 1); }) + "]}]}"},
      {"allOf of required names", schema,
       R"({"allOf":[)" +
           join_items(25000, ",", [](int i) { return fmt::format(R"({{"required":["a{}"]}})", i); }) + "]}"},
      {"references to many definitions", schema,
       R"({"anyOf":[)" +
           join_items(15000, ",",
                      [](int i) { return fmt::format(R"({{"$ref":"#/$defs/d{}"}})", 14999 - i); }) +
           R"(],"$defs":{)" +
           join_items(15000, ",", [](int i) { return fmt::format(R"("d{}":{{"const":{}}})", i, i); }) + "}}"},
      {"references to a large definition", schema,
       R"({"anyOf":[)" +
           join_items(10000, ",",
                      [](int i) { return fmt::format(R"({{"$ref":"#/$defs/d","minimum":{}}})", i); }) +
           R"(],"$defs":{"d":{"enum":[)" + join_items(60000, ",", [](int i) { return std::to_string(i); }) +
           "]}}}"},
      {"alternatives that repeat the rest", schema,
       R"({"anyOf":[)" + join_items(10000, ",", [](int i) { return fmt::format(R"({{"minimum":{}}})", i); }) +
           R"(],"enum":[)" + join_items(60000, ",", [](int i) { return std::to_string(i); }) + "]}"},
      {"counts of counts", regex, "(((a|b|c|d){30}[^x]?){60}){20}"},
      {"a long count", regex, "((a{1000}){190})"},
      {"optional parts", regex, join_items(90000, "", [](int) { return std::string("(a?)"); })},
      {"alternatives", regex,
       join_items(1900, "|", [](int i) { return fmt::format("w{}x{}", i * 7919 % 10007, i); })},
  };
  return all;
}

TEST(GrammarWork, HostileGrammarsStayWithinTheirBudget) {
  constexpr double kMaxSeconds = 5;  // they take at most one; quadratic algorithms took 7 to 100
  for (const Hostile& h : hostile()) {
    const double start = cpu_seconds();
    WorkBudget full_budget;
    const auto grammar = h.compile(h.text, {}, &full_budget);
    const double seconds = cpu_seconds() - start;
    EXPECT_LT(seconds, kMaxSeconds) << h.name;
    EXPECT_LE(full_budget.spent(), GrammarLimits{}.work + (1 << 20)) << h.name;
    if (!grammar.ok())
      EXPECT_EQ(grammar.error().kind, Error::Kind::kLimit) << h.name << ": " << grammar.error().text();
    if (seconds > 0.5)
      std::printf("%s: %.2f s, %lld units\n", h.name, seconds, static_cast<long long>(full_budget.spent()));

    if (full_budget.spent() < 20'000) continue;  // refused before any work
    WorkBudget small_budget(10'000);
    const auto over_budget = h.compile(h.text, {}, &small_budget);
    ASSERT_FALSE(over_budget.ok()) << h.name;
    EXPECT_EQ(over_budget.error().kind, Error::Kind::kLimit) << h.name;
    EXPECT_LT(small_budget.spent(), full_budget.spent()) << h.name;
    WorkBudget cancelled(WorkBudget::kUnlimited, WorkBudget::Clock::time_point::max(),
                         std::make_shared<std::atomic<bool>>(true));
    ASSERT_FALSE(h.compile(h.text, {}, &cancelled).ok()) << h.name;
    EXPECT_LT(cancelled.spent(), full_budget.spent()) << h.name;
  }
}

// The fast paths build the same languages.
TEST(GrammarWork, ClassesDoNotDependOnOrder) {
  const auto set = Grammar::from_regex("[zyxc-ea-bx\\u{d000}-\\u{e100}q]+");
  ASSERT_TRUE(set.ok());
  for (const char* in : {"a", "b", "c", "d", "e", "q", "x", "y", "z", "\xed\x9f\xbf", "\xee\x80\x80"})
    EXPECT_TRUE(matches(*set, in)) << in;
  for (const char* out : {"f", "p", "r", "w", "{", "\xc3\xa9"}) EXPECT_FALSE(matches(*set, out)) << out;
}

TEST(GrammarWork, AllOfEnforcesEveryPart) {
  const auto numbers = Grammar::from_json_schema(
      R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
          {"properties":{"a":{"minimum":5}}},{"properties":{"a":{"maximum":7},"b":{"type":"null"}}},
          {"required":["b"]}]})");
  ASSERT_TRUE(numbers.ok());
  EXPECT_TRUE(matches(*numbers, R"({"a":6,"b":null})"));
  EXPECT_FALSE(matches(*numbers, R"({"a":8,"b":null})"));
  EXPECT_FALSE(matches(*numbers, R"({"a":4,"b":null})"));
  EXPECT_FALSE(matches(*numbers, R"({"a":6})"));
  const auto items = Grammar::from_json_schema(
      R"({"allOf":[{"type":"array","items":{"type":"integer"}},{"items":{"minimum":1}},{"items":{"maximum":3}}]})");
  ASSERT_TRUE(items.ok());
  EXPECT_TRUE(matches(*items, "[1,2,3]"));
  EXPECT_FALSE(matches(*items, "[4]"));
  const auto values =
      Grammar::from_json_schema(R"({"allOf":[{"enum":[1,"a",[2],null]},{"enum":[[2],"a",3]}]})");
  ASSERT_TRUE(values.ok());
  EXPECT_TRUE(matches(*values, "\"a\""));
  EXPECT_TRUE(matches(*values, "[2]"));
  EXPECT_FALSE(matches(*values, "1"));
}

TEST(GrammarWork, ReferencesWorkInLargeObjectsAndWithEscapes) {
  std::string defs = join_items(100, ",", [](int i) { return fmt::format(R"("d{}":{{"const":{}}})", i, i); });
  const auto one = Grammar::from_json_schema(R"({"$ref":"#/$defs/d77","$defs":{)" + defs + "}}");
  ASSERT_TRUE(one.ok()) << one.error().text();
  EXPECT_TRUE(matches(*one, "77"));
  const auto escaped =
      Grammar::from_json_schema(R"({"$ref":"#/$defs/a~1b~0c/0","$defs":{"a/b~c":[{"const":1}]}})");
  ASSERT_TRUE(escaped.ok()) << escaped.error().text();
  EXPECT_TRUE(matches(*escaped, "1"));
  for (const char* target : {"#/$defs/none", "#/$defs/a~1b~0c/7", "#x", "#/$defs/a~1b~0c/-", "other#"})
    EXPECT_FALSE(Grammar::from_json_schema(std::string(R"({"$ref":")") + target +
                                           R"(","$defs":{"a/b~c":[{"const":1}]}})")
                     .ok())
        << target;
}

}  // namespace
}  // namespace makar
