// Grammars with the vocabularies of real tokenizers. Skipped without the assets.
#include <gtest/gtest.h>

#include "infer/grammar_writer.h"
#include "infer/json_validator.h"
#include "text/fixtures.h"
#include "text/token_bytes.h"

namespace makar {
namespace {

class RealVocabularyTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = assets() + "/tokenizers/hf/" + GetParam() + "/tokenizer.json";
    if (!is_file(path) && !is_file(path + ".gz")) GTEST_SKIP() << path << " is missing";
    auto tokenizer = tokenizer_from(path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
    tokenizer_ = *tokenizer;
    bytes_ = token_bytes(*tokenizer_);
  }
  std::optional<Tokenizer> tokenizer_;
  std::vector<std::string> bytes_;
};

TEST_P(RealVocabularyTest, TokenBytesConcatenateToTheText) {
  const std::string text =
      "{\"name\": \"Zo\xC3\xAB \xF0\x9F\x98\x80\",\n\t\"tags\": [1, 2.50, \"a  b\"]}\n\nThe end.";
  const auto encoded = tokenizer_->encode(text);
  ASSERT_TRUE(encoded.ok());
  std::string concatenated;
  for (const uint32_t id : encoded->ids) concatenated += bytes_[id];
  if (concatenated != text)
    concatenated = concatenated.substr(1);  // the space that SentencePiece puts before a text
  EXPECT_EQ(concatenated, text);
}

TEST_P(RealVocabularyTest, DocumentsAreValidAndAcceptedAsTokenized) {
  const char* schema =
      R"({"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":40},"n":{"type":"integer","minimum":-20,"maximum":4000},"tags":{"type":"array","items":{"enum":["red","green"]},"maxItems":3},"more":{}},"required":["name","n"]})";
  const auto grammar = Grammar::from_json_schema(schema);
  ASSERT_TRUE(grammar.ok());
  const TokenTrie trie(bytes_, {});
  const JsonValidator validator(*parse_json(schema, "test"));
  int ended = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const GrammarText w = write_text(*grammar, trie, bytes_, seed, 120);
    if (!w.ended) continue;
    const auto document = parse_json(w.text, "written");
    if (!document.ok() && document.error().text().find("twice") != std::string::npos) continue;
    ASSERT_TRUE(document.ok()) << w.text;
    EXPECT_TRUE(validator.valid(*document)) << w.text;
    ++ended;
    // The tokenizer may split the same text differently; the grammar accepts its tokens too, at every step.
    GrammarState state(*grammar);
    std::vector<uint64_t> mask(trie.words());
    const auto encoded = tokenizer_->encode(w.text);
    ASSERT_TRUE(encoded.ok());
    for (size_t i = 0; i < encoded->ids.size(); ++i) {
      const uint32_t id = encoded->ids[i];
      if (i == 0 && bytes_[id].size() > 0 && bytes_[id][0] == ' ') break;
      ASSERT_TRUE(state.mask(trie, mask).ok());
      EXPECT_TRUE(mask[id / 64] >> (id % 64) & 1) << bytes_[id];
      ASSERT_TRUE(state.accept(bytes_[id])) << bytes_[id];
    }
  }
  EXPECT_GT(ended, 3);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, RealVocabularyTest,
                         testing::Values("llama3_2", "llama2", "gemma2", "qwen2_5"));

}  // namespace
}  // namespace makar
