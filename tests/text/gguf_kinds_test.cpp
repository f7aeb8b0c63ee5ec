// Kinds of GGUF vocabularies without a fixture file: t5 compared with SentencePiece on the same model, rwkv
// with its definition.
#include <random>

#include "fixtures.h"
#include "gguf_bytes.h"
#include "text/read/read.h"
#include "text/read/sentencepiece_model.h"

namespace makar {
namespace {

const std::string kPrefix = "tokenizer.ggml.";

std::string flag_entry(const std::string& key, bool value) {
  return with_length(key) + number(7, 4) + number(value, 1);
}
std::string number_entry(const std::string& key, uint32_t value) {
  return with_length(key) + number(4, 4) + number(value, 4);
}

std::string t5_file(const SentencePieceModel& model) {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (const auto& piece : model.pieces) {
    tokens.push_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(piece.type);
  }
  const std::vector<uint8_t> map(model.character_map.begin(), model.character_map.end());
  return gguf({text_entry(kPrefix + "model", "t5"), list_entry(kPrefix + "tokens", tokens),
               numbers_entry(kPrefix + "scores", 6, scores), numbers_entry(kPrefix + "token_type", 5, types),
               numbers_entry(kPrefix + "precompiled_charsmap", 0, map),
               flag_entry(kPrefix + "add_space_prefix", model.add_dummy_prefix),
               flag_entry(kPrefix + "remove_extra_whitespaces", model.remove_extra_whitespaces),
               number_entry(kPrefix + "eos_token_id", 2)});
}

TEST(GgufVocabulary, T5MatchesSentencePiece) {
  const std::string folder = shared_golden() + "/tokenizers/sentencepiece/botchan-unigram-1500";
  if (!is_folder(folder)) GTEST_SKIP() << folder << " is not available";
  const auto model = SentencePieceModel::parse(*read_file(folder + "/spm.model"));
  ASSERT_TRUE(model.ok());
  auto json = gguf_to_json(t5_file(*model), "t5.gguf");
  ASSERT_TRUE(json.ok()) << json.error().text();
  const auto tokenizer = Tokenizer::from_json(std::move(*json), "t5.gguf");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
  int count = 0;
  for (const std::string& line : lines_of(read_packed(folder + "/golden.jsonl.gz"))) {
    const auto record = parse_json(line, "line");
    if (!record->contains("text")) continue;
    ++count;
    const auto ids = (*record)["ids"].get<std::vector<uint32_t>>();
    ASSERT_EQ(tokenizer->encode((*record)["text"].get<std::string>())->ids, ids) << line;
    EncodeOptions options;
    options.add_special = true;  // T5 ends a text with </s>
    auto with_end_token = ids;
    with_end_token.push_back(2);
    ASSERT_EQ(tokenizer->encode((*record)["text"].get<std::string>(), options)->ids, with_end_token);
  }
  EXPECT_GT(count, 100);
}

TEST(GgufVocabulary, RwkvUsesTheLongestMatch) {
  // Tokens as written in the file, and their bytes.
  std::vector<std::string> escaped = {"<s>"}, bytes = {""};
  std::vector<int32_t> types = {3};
  for (int b = 0; b < 256; ++b) {
    bytes.push_back(std::string(1, static_cast<char>(b)));
    escaped.push_back(b == '\\'            ? "\\\\"
                      : b == '\n'          ? "\\n"
                      : b >= 32 && b < 127 ? bytes.back()
                                           : fmt::format("\\x{:02x}", b));
    types.push_back(b < 128 ? 1 : 6);
  }
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{{"the", "the"},
                                                                             {" the", " the"},
                                                                             {"\\n\\n", "\n\n"},
                                                                             {"thereby", "thereby"},
                                                                             {"aaaa", "aaaa"},
                                                                             {"\u4E2D\u6587", "\u4E2D\u6587"},
                                                                             {"\\xe4\\xb8", "\xE4\xB8"},
                                                                             {"\\t\\t", "\t\t"}}) {
    escaped.push_back(a);
    bytes.push_back(b);
    types.push_back(1);
  }
  auto json =
      gguf_to_json(gguf({text_entry(kPrefix + "model", "rwkv"), list_entry(kPrefix + "tokens", escaped),
                         numbers_entry(kPrefix + "token_type", 5, types)}),
                   "rwkv.gguf");
  ASSERT_TRUE(json.ok()) << json.error().text();
  const auto tokenizer = Tokenizer::from_json(std::move(*json), "rwkv.gguf");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
  std::mt19937 random(3);
  for (int n = 0; n < 2000; ++n) {
    std::string text;
    for (uint32_t k = random() % 12; k > 0; --k) {
      text += bytes[random() % 3 ? 257 + random() % (bytes.size() - 257) : 1 + random() % 128];
      if (text.ends_with("\xE4\xB8")) text += '\xAD';  // complete the character
    }
    std::vector<uint32_t> expected;
    for (size_t at = 0; at < text.size();) {
      uint32_t best = 0;
      for (uint32_t id = 1; id < bytes.size(); ++id)
        if (text.compare(at, bytes[id].size(), bytes[id]) == 0 && bytes[id].size() > bytes[best].size())
          best = id;
      expected.push_back(best);
      at += bytes[best].size();
    }
    const auto encoding = tokenizer->encode(text);
    ASSERT_TRUE(encoding.ok()) << encoding.error().text();
    ASSERT_EQ(encoding->ids, expected) << Json(text).dump();
    ASSERT_EQ(tokenizer->decode_bytes(encoding->ids), text);
  }
}

}  // namespace
}  // namespace makar
