// Documents generated under the masks of JSON schemas, checked by an independent validator.
#include <gtest/gtest.h>

#include "infer/grammar_writer.h"
#include "infer/json_validator.h"

namespace makar {
namespace {

const char* const kSchemas[] = {
    R"({})",
    R"({"type":"object"})",
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150}},"required":["name","age"],"additionalProperties":false})",
    R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"boolean"},"c":{"type":"number"},"d":{"const":4}}})",
    R"({"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},"required":["b"],"additionalProperties":false})",
    R"({"properties":{"ab":{"const":1},"abc":{"const":2},"":{"const":3},"\"q\n":{"const":5}},"additionalProperties":{"type":"string","maxLength":2}})",
    R"({"type":"object","required":["x","y"],"additionalProperties":{"type":"boolean"}})",
    R"({"type":"array","items":{"type":"integer","exclusiveMinimum":-13,"exclusiveMaximum":1007},"minItems":2,"maxItems":5})",
    R"({"type":"array","items":{"type":"integer","minimum":37}})",
    R"({"type":"array","items":{"type":"integer","maximum":-80}})",
    R"({"type":"array","items":{"type":"integer","minimum":-1234,"maximum":-17}})",
    R"({"type":"array","items":{"type":"number","minimum":0}})",
    R"({"type":"array","items":{"type":"number","minimum":0.25,"exclusiveMaximum":0.75}})",
    R"({"type":"array","items":{"type":"number","exclusiveMinimum":-12.5,"maximum":3}})",
    R"({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"},{"type":"boolean"}],"items":{"type":"null"},"minItems":2,"maxItems":5})",
    R"({"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false})",
    R"({"type":"array","maxItems":0})",
    R"({"type":"string","minLength":3,"maxLength":6})",
    R"({"type":"array","items":{"type":"string","pattern":"^[a-z]{2,4}(-[0-9]+)?$"}})",
    R"({"type":"array","items":{"type":"string","pattern":"b[0-9]"}})",
    R"({"type":"array","items":{"type":"string","pattern":"^(\"|\\\\|\n)+$"}})",
    R"({"enum":["red","gr\"een",3,null,{"a":[1,2]},"\u00e9"]})",
    R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"boolean"}}]})",
    R"({"type":["string","null","integer"]})",
    R"({"type":"integer","nullable":true})",
    R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"string"}},"required":["b"]}]})",
    R"({"type":"object","properties":{"k":{"type":"integer"}},"required":["k"],"anyOf":[{"properties":{"x":{"const":1}},"required":["x"]},{"properties":{"y":{"const":2}},"required":["y"]}]})",
    R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"},"maxItems":2}},"required":["v"],"additionalProperties":false}}})",
    R"({"type":"object","properties":{"next":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"required":["next"]})",
    R"({"allOf":[{"$ref":"#/definitions/base"},{"properties":{"extra":{"type":"boolean"}}}],"definitions":{"base":{"type":"object","properties":{"id":{"type":"integer","minimum":1}},"required":["id"]}}})",
    R"({"type":"integer","allOf":[{"minimum":5},{"maximum":9},{"minimum":7}]})",
    R"({"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"integer"}}})",
};

class JsonSchemaTest : public testing::TestWithParam<const char*> {};

TEST_P(JsonSchemaTest, GeneratedDocumentsAreValid) {
  static const auto tokens = test_vocabulary();
  static const TokenTrie trie(tokens, {0});
  const auto grammar = Grammar::from_json_schema(GetParam());
  ASSERT_TRUE(grammar.ok()) << grammar.error().text();
  const JsonValidator validator(*parse_json(GetParam(), "test"));
  int ended = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const GrammarText w = write_text(*grammar, trie, tokens, seed);
    if (!w.ended) continue;
    ++ended;
    const auto document = parse_json(w.text, "written");
    if (!document.ok() && document.error().text().find("twice") != std::string::npos)
      continue;  // objects with arbitrary keys may repeat one
    ASSERT_TRUE(document.ok()) << w.text << "\n" << document.error().text();
    EXPECT_TRUE(validator.valid(*document)) << w.text;
  }
  EXPECT_GT(ended, 20);
}

INSTANTIATE_TEST_SUITE_P(Schemas, JsonSchemaTest, testing::ValuesIn(kSchemas));

bool accepts(const char* schema, const char* text) {
  const auto grammar = Grammar::from_json_schema(schema);
  EXPECT_TRUE(grammar.ok()) << grammar.error().text();
  return matches(*grammar, text);
}

TEST(JsonSchema, AcceptsTheUsualFormatting) {
  const char* any = "{}";
  for (const char* text : {"1", "-0.5e+10", "\"\\ud83d\\ude00 \\/ \\u00e9\"", "[]", "[ 1, 2 ]",
                           "{\n  \"a\": [\n    1,\n    2\n  ]\n}", "{\"a\":{\"b\":null}}", "true"})
    EXPECT_TRUE(accepts(any, text)) << text;
  for (const char* text : {"01", "+1", "1.", "\"\\ud800\"", "\"\t\"", "[1,]", "{a:1}", "nul", "[1 2]",
                           "\"\xC3\"", "\"\xED\xA0\x80\"", "{\"a\":1,}"})
    EXPECT_FALSE(accepts(any, text)) << text;
}

TEST(JsonSchema, IntegersStopAtTheirBounds) {
  for (int low = -25; low <= 25; low += 3)
    for (int high = low; high <= low + 130; high += 17) {
      const std::string schema = fmt::format(R"({{"type":"integer","minimum":{},"maximum":{}}})", low, high);
      for (int v = low - 15; v <= high + 15; ++v)
        EXPECT_EQ(accepts(schema.c_str(), std::to_string(v).c_str()), v >= low && v <= high) << schema << v;
    }
}

TEST(JsonSchema, NumbersStopAtTheirBounds) {
  const char* const bounds[] = {"0",    "1",     "-1",     "0.5", "0.25", "-0.75",
                                "12.5", "12.75", "-3.125", "100", "-90"};
  const char* const values[] = {"0",     "-0",     "-0.0", "0.0",      "0.2",   "0.25",  "0.250",  "0.2501",
                                "0.249", "0.5",    "0.50", "0.500001", "0.49",  "0.9",   "1",      "1.0",
                                "1.01",  "2",      "9.99", "12.4",     "12.5",  "12.51", "12.75",  "12.8",
                                "13",    "99.99",  "100",  "100.0",    "100.5", "101",   "-0.5",   "-0.7",
                                "-0.75", "-0.751", "-0.8", "-1",       "-1.5",  "-3.1",  "-3.125", "-3.13",
                                "-3.2",  "-89.9",  "-90",  "-90.0",    "-90.1", "-91"};
  for (const char* low : bounds)
    for (const char* high : bounds)
      for (int open = 0; open < 4; ++open) {
        const double from = std::stod(low), to = std::stod(high);
        if (from > to || (from == to && open)) continue;
        const auto grammar = Grammar::from_json_schema(
            fmt::format(R"({{"type":"number","{}inimum":{},"{}aximum":{}}})", open & 1 ? "exclusiveM" : "m",
                        low, open & 2 ? "exclusiveM" : "m", high));
        ASSERT_TRUE(grammar.ok()) << grammar.error().text();
        for (const char* text : values) {
          const double v = std::stod(text);
          if (v == 0 && text[0] == '-' && from >= 0) continue;  // the grammar has no -0 there
          const bool inside = (open & 1 ? v > from : v >= from) && (open & 2 ? v < to : v <= to);
          EXPECT_EQ(matches(*grammar, text), inside) << text << " in " << low << ".." << high << " " << open;
        }
      }
}

TEST(JsonSchema, FormatsAreEnforced) {
  const auto format = [](const char* name, const char* text) {
    return accepts(fmt::format(R"({{"type":"string","format":"{}"}})", name).c_str(),
                   fmt::format("\"{}\"", text).c_str());
  };
  EXPECT_TRUE(format("date", "2024-12-31"));
  EXPECT_FALSE(format("date", "2024-02-30"));
  EXPECT_TRUE(format("date-time", "2024-12-31T23:59:59.5+01:00"));
  EXPECT_TRUE(format("uuid", "123e4567-e89b-12d3-a456-426614174000"));
  EXPECT_TRUE(format("ipv4", "192.168.0.1"));
  EXPECT_FALSE(format("ipv4", "256.1.1.1"));
  EXPECT_TRUE(format("email", "a.b@example.org"));
  EXPECT_TRUE(format("uri", "https://example.org/a/b?c=d#e"));
}

TEST(JsonSchema, UnsupportedKeywordsAreReportedAsNotEnforced) {
  const auto grammar = Grammar::from_json_schema(
      R"({"properties":{"a":{"type":"integer","multipleOf":3},"b":{"type":"array","uniqueItems":true},"c":{"type":"number","maximum":1e30}},"patternProperties":{}})");
  ASSERT_TRUE(grammar.ok());
  const std::vector<std::string> expected = {
      "#/properties/a: 'multipleOf'", "#/properties/b: 'uniqueItems'",
      "#/properties/c: 'bounds of a number beyond 1e15 or with an exponent'", "#: 'patternProperties'"};
  EXPECT_EQ(grammar->not_enforced(), expected);
}

TEST(JsonSchema, ErrorsNameThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "schema"},
      {"[1]", "expected an object"},
      {R"({"type":"strin"})", "unknown type 'strin'"},
      {R"({"properties":{"a":{"$ref":"#/no"}}})", "#/properties/a"},
      {R"({"$ref":"http://example.org"})", "points outside"},
      {R"({"$ref":"#"})", "no text"},
      {R"({"enum":[]})", "enum"},
      {R"({"type":"string","pattern":"("})", "regular expression"},
      {R"({"type":"string","minLength":-1})", "minLength"},
      {R"({"type":"integer","minimum":5,"maximum":4})", "no text"},
      {R"({"required":["a"],"properties":{},"additionalProperties":false})", "no text"},
      {R"({"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})",
       "circular"},
      {"false", "no text"},
  };
  for (const auto& [schema, words] : cases) {
    const auto grammar = Grammar::from_json_schema(schema);
    ASSERT_FALSE(grammar.ok()) << schema;
    EXPECT_NE(grammar.error().text().find(words), std::string::npos) << schema << "\n"
                                                                     << grammar.error().text();
  }
}

}  // namespace
}  // namespace makar
