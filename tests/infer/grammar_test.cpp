// GBNF grammars, masks compared with token-by-token acceptance, limits for hostile grammars.
#include "infer/grammar/grammar.h"

#include <gtest/gtest.h>

#include "infer/grammar_writer.h"

namespace makar {
namespace {

Grammar gbnf(const std::string& text) {
  auto grammar = Grammar::from_gbnf(text);
  EXPECT_TRUE(grammar.ok()) << grammar.error().text();
  return *grammar;
}

const char* const kArithmetic = R"gbnf(# sums and products
root  ::= expr "=" ws term "\n"
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)gbnf";
const char* const kPalindrome = "root ::= \"a\" root \"a\" | \"b\" root \"b\" | [ab]?";
const char* const kLists = "root ::= (item \"\\n\")+\nitem ::= \"- \" (item | [^\\n-]{1,3})";

TEST(Gbnf, ReadsTheNotation) {
  const Grammar arithmetic = gbnf(kArithmetic);
  EXPECT_TRUE(matches(arithmetic, "(a +12) *b_2 = 7 \n"));
  EXPECT_FALSE(matches(arithmetic, "(a + = 7\n"));
  const Grammar forms = gbnf(
      "root ::= (\n  \"x\" |\n  other\n) [\\]\\-\\x41-C]{2} \"\\u00e9\\U0001F600\" .?\nother::=[^a-z\"]");
  EXPECT_TRUE(matches(forms, "x]Bé😀"));
  EXPECT_TRUE(matches(forms, "ß-Cé😀中"));
  EXPECT_FALSE(matches(forms, "aAAé😀"));
  const Grammar counts = gbnf("root ::= \"a\"{2} \"b\"{1,} \"c\"{,2} \"d\"{0}");
  EXPECT_TRUE(matches(counts, "aabbbcc"));
  EXPECT_FALSE(matches(counts, "aabccc"));
  EXPECT_TRUE(matches(gbnf("root ::= \"\" | \"a\""), ""));
}

TEST(Gbnf, ErrorsNameThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no rule 'root'"},
      {"rot ::= \"a\"", "no rule 'root'"},
      {"root ::= itm\nitem ::= \"a\"", "did you mean 'item'"},
      {"root ::= \"a", "closing quote"},
      {"root ::= (\"a\"", "no closing ')'"},
      {"root ::= [a", "no closing ']'"},
      {"root = \"a\"", "expected '::='"},
      {"root ::= \"a\"\nroot ::= \"b\"", "defined twice"},
      {"root ::= \"a\" )", "end of the line"},
      {"root ::= <[1]>", "unexpected '<'"},
      {"root ::= \"\\q\"", "\\q"},
      {"root ::= root \"a\" | \"b\"", "left-recursive"},
      {"root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a \"y\" | \"z\"", "left-recursive"},
      {"root ::= \"a\" root", "no text satisfies"},
      {"root ::= []", "no text satisfies"},
  };
  for (const auto& [text, words] : cases) {
    const auto grammar = Grammar::from_gbnf(text);
    ASSERT_FALSE(grammar.ok()) << text;
    EXPECT_NE(grammar.error().text().find(words), std::string::npos)
        << text << ": " << grammar.error().text();
  }
}

// The mask of every state must equal the result of trying each token.
TEST(GrammarMask, EqualsTryingEveryToken) {
  const auto tokens = test_vocabulary();
  const TokenTrie trie(tokens, {0});
  const Result<Grammar> grammars[] = {
      Grammar::from_gbnf(kArithmetic),
      Grammar::from_gbnf(kPalindrome),
      Grammar::from_gbnf(kLists),
      Grammar::from_regex("(\\w+|[^a]{3,7}b)*(é|中文)?"),
      Grammar::from_regex("(a|b|é){0,60}c{0,30}[\",]*c*"),
      Grammar::from_json_schema("{}"),
      Grammar::from_json_schema(
          R"({"type":"array","items":{"type":"string","minLength":2,"maxLength":70},"maxItems":3})"),
      Grammar::from_json_schema(
          R"({"properties":{"name":{"type":"string","maxLength":4},"n":{"type":"integer","minimum":5}},"additionalProperties":{"$ref":"#"}})"),
  };
  for (const auto& grammar : grammars) {
    ASSERT_TRUE(grammar.ok());
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const Rng rng(seed, Purpose::kSynthetic);
      GrammarState state(*grammar);
      std::vector<uint64_t> mask(trie.words());
      for (uint64_t i = 0; i < 16; ++i) {
        ASSERT_TRUE(state.mask(trie, mask).ok());
        std::vector<size_t> allowed;
        for (size_t id = 1; id < tokens.size(); ++id) {
          GrammarState next = state;
          const bool bit = mask[id / 64] >> (id % 64) & 1;
          const bool accepted = next.accept(tokens[id]);
          if (!next.limit()) ASSERT_EQ(accepted, bit) << id << " " << tokens[id];
          if (bit) allowed.push_back(id);
        }
        EXPECT_EQ(bool(mask[0] & 1), state.may_end());
        if (allowed.empty()) break;
        ASSERT_TRUE(state.accept(tokens[allowed[rng.bits(i)[0] % allowed.size()]]) || state.limit());
      }
    }
  }
}

TEST(GrammarState, CopiesAreIndependent) {
  const Grammar grammar = gbnf(kPalindrome);
  GrammarState a(grammar);
  ASSERT_TRUE(a.accept("ab"));
  GrammarState b = a;
  ASSERT_TRUE(a.accept("ba"));
  EXPECT_TRUE(a.may_end());
  ASSERT_TRUE(b.accept("abab"));
  EXPECT_FALSE(b.accept("x"));  // the state is unchanged
  EXPECT_TRUE(b.accept("aba"));
  EXPECT_TRUE(a.accept(""));
}

TEST(GrammarState, TokensWithoutBytesAreNeverAllowed) {
  const std::vector<std::string> tokens = {"a", "", "b", "<eos>", "a"};
  const TokenTrie trie(tokens, {1, 99, -1});
  GrammarState state(gbnf("root ::= \"a\"+"));
  std::vector<uint64_t> mask(trie.words());
  ASSERT_TRUE(state.mask(trie, mask).ok());
  EXPECT_EQ(mask[0], 0b10001u);
  ASSERT_TRUE(state.accept("a"));
  ASSERT_TRUE(state.mask(trie, mask).ok());
  EXPECT_EQ(mask[0], 0b10011u);
  std::vector<float> logits(5, 1.0f);
  apply_mask(logits, mask);
  EXPECT_TRUE(std::isinf(logits[2]) && logits[1] == 1.0f);
}

// One grammar with several tries: their masks are separate.
TEST(GrammarState, EachVocabularyHasItsOwnMasks) {
  const Grammar grammar = gbnf("root ::= [ab]+");
  const std::vector<std::string> first = {"a", "c"}, second = {"c", "b"};
  const TokenTrie one(first, {}), two(second, {});
  std::vector<uint64_t> mask(1);
  GrammarState state(grammar);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(state.mask(one, mask).ok());
    EXPECT_EQ(mask[0], 1u);
    ASSERT_TRUE(state.mask(two, mask).ok());
    EXPECT_EQ(mask[0], 2u);
  }
}

TEST(HostileGrammar, HugeGrammarsCompileOrAreShortErrors) {
  std::string nested_rule = "root ::= ";
  for (int i = 0; i < 100000; ++i) nested_rule += "(";
  std::string chain;  // each rule doubles the one before
  for (int i = 0; i < 60; ++i) chain += fmt::format("r{} ::= r{} r{}\n", i, i + 1, i + 1);
  std::string long_rule = "root ::= ";
  for (int i = 0; i < 100000; ++i) long_rule += "a | ";
  const std::string grammars[] = {
      nested_rule,
      "root ::= (((\"a\"{1000}){1000}){1000}){1000}",
      "root ::= \"a\"{1000000}",
      "root ::= " + std::string(2 << 20, ' '),
      long_rule + "\"x\"\na ::= \"y\"",
      "root ::= (\"a\"?){100000}",
      "root ::= " + std::string(300, '(') + "\"a\"" + std::string(300, ')'),
  };
  for (const std::string& text : grammars) {
    const auto grammar = Grammar::from_gbnf(text);
    if (!grammar.ok()) EXPECT_LT(grammar.error().text().size(), 500u);
  }
  // Exponentially long texts need no large automaton.
  EXPECT_TRUE(Grammar::from_gbnf(chain + "r60 ::= \"a\"\nroot ::= r0").ok());
  std::string regex = "a";
  for (int i = 0; i < 12; ++i) regex = "(" + regex + "){1000}";
  const auto exponential = Grammar::from_regex(regex);
  ASSERT_FALSE(exponential.ok());
  EXPECT_EQ(exponential.error().kind, Error::Kind::kLimit);
  std::string schema = "{}";
  for (int i = 0; i < 60; ++i) schema = R"({"anyOf":[)" + schema + "]}";
  (void)Grammar::from_json_schema(schema);  // must not crash
  std::string keys = R"({"properties":{)";
  for (int i = 0; i < 1500; ++i) keys += fmt::format(R"("k{}":{{}},)", i);
  const auto many_keys = Grammar::from_json_schema(keys + R"("z":{}},"additionalProperties":true})");
  ASSERT_TRUE(many_keys.ok());
  EXPECT_TRUE(GrammarState(*many_keys).accept("{\"k4"));
}

TEST(HostileGrammar, AmbiguityAndDepthAreLimited) {
  const auto tokens = test_vocabulary();
  const TokenTrie trie(tokens, {0});
  std::vector<uint64_t> mask(trie.words());
  // Each "a" has as many parses as there are ways to place brackets.
  GrammarState ambiguous_state(gbnf("root ::= \"a\" root root | \"a\""));
  bool accepted = true;
  for (int i = 0; i < 3000 && accepted; ++i) accepted = ambiguous_state.accept("a");
  EXPECT_TRUE(accepted || ambiguous_state.limit().has_value());
  GrammarState nested_state(*Grammar::from_json_schema("{}"));
  int depth = 0;
  while (depth < 100000 && nested_state.accept("[")) ++depth;
  EXPECT_GT(depth, 300);
  EXPECT_LT(depth, 100000);
  ASSERT_TRUE(nested_state.limit().has_value());
  EXPECT_EQ(nested_state.limit()->kind, Error::Kind::kLimit);
  GrammarState list_state(gbnf("root ::= \"a\" root | \"\""));  // lists by recursion stay shallow
  for (int i = 0; i < 100000; ++i) ASSERT_TRUE(list_state.accept("a"));
}

}  // namespace
}  // namespace makar
