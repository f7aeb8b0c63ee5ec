// Other tokenizer file formats, compared with the results of their own libraries.
#include <array>

#include "fixtures.h"
#include "gguf_bytes.h"
#include "text/read/read.h"
#include "text/read/sentencepiece_model.h"

namespace makar {
namespace {

void expect_ids(const Tokenizer& tokenizer, const std::string& text, const std::vector<uint32_t>& ids,
                int& wrong) {
  const auto encoding = tokenizer.encode(text);
  ASSERT_TRUE(encoding.ok()) << encoding.error().text();
  if (encoding->ids != ids && ++wrong <= 3)
    ADD_FAILURE() << Json(text.substr(0, 500)).dump() << "\n expected " << Json(ids).dump().substr(0, 500)
                  << "\n encoded  " << Json(encoding->ids).dump().substr(0, 500);
}

class SentencePieceGolden : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(SentencePieceGolden, MatchesIdsAndText) {
  const std::string golden = shared_golden() + "/tokenizers/sentencepiece/" + GetParam().first;
  const std::string model = GetParam().second[0] == '/'
                                ? assets() + "/tokenizers/sentencepiece" + GetParam().second
                                : shared_golden() + "/tokenizers/sentencepiece/" + GetParam().second;
  if (!is_file(golden)) GTEST_SKIP() << golden << " is not available";
  const auto tokenizer = Tokenizer::load(model);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
  int wrong = 0, wrong_text = 0, count = 0;
  for (const std::string& line : lines_of(read_packed(golden))) {
    const auto json = parse_json(line, "line");
    if (!json->contains("text")) continue;
    ++count;
    const auto ids = (*json)["ids"].get<std::vector<uint32_t>>();
    expect_ids(*tokenizer, (*json)["text"], ids, wrong);
    const std::string decoded = tokenizer->decode(ids);
    if (decoded != (*json)["decoded"].get<std::string>() && ++wrong_text <= 3)
      ADD_FAILURE() << "expected " << (*json)["decoded"].dump().substr(0, 500) << "\ndecoded  "
                    << Json(decoded).dump().substr(0, 500);
  }
  EXPECT_EQ(wrong, 0) << "of " << count;
  EXPECT_EQ(wrong_text, 0) << "of " << count;
}

INSTANTIATE_TEST_SUITE_P(
    Text, SentencePieceGolden,
    testing::Values(std::pair("botchan-bpe-1500/golden.jsonl.gz", "botchan-bpe-1500/spm.model"),
                    std::pair("botchan-bpe-bytefallback-1500/golden.jsonl.gz",
                              "botchan-bpe-bytefallback-1500/spm.model"),
                    std::pair("botchan-unigram-1500/golden.jsonl.gz", "botchan-unigram-1500/spm.model"),
                    std::pair("botchan-unigram-bytefallback-1500/golden.jsonl.gz",
                              "botchan-unigram-bytefallback-1500/spm.model"),
                    std::pair("llama2-tokenizer.model.jsonl.gz", "/llama2-tokenizer.model"),
                    std::pair("test_ja_model.model.jsonl.gz", "/test_ja_model.model"),
                    std::pair("test_model.model.jsonl.gz", "/test_model.model")),
    [](const auto& info) { return "model" + std::to_string(info.index); });

std::vector<uint32_t> numbers(const std::string& line) {
  std::vector<uint32_t> out;
  for (const char* p = line.c_str(); *p;) {
    char* end = nullptr;
    const auto value = std::strtoul(p, &end, 10);
    if (end == p) break;
    out.push_back(static_cast<uint32_t>(value));
    p = end;
  }
  return out;
}

void expect_vocab_test(const Tokenizer& tokenizer, const std::string& stem) {
  const std::string input = *read_file(stem + ".inp");
  const auto outputs = lines_of(*read_file(stem + ".out"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  size_t at = 0, i = 0;
  int wrong = 0;
  for (; i < outputs.size(); ++i) {
    const size_t end = std::min(input.find(separator, at), input.size());
    std::string text = input.substr(at, end - at);
    if (end == input.size() && text.empty()) break;
    expect_ids(tokenizer, text, numbers(outputs[i]), wrong);
    at = end + separator.size();
    if (at > input.size()) break;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(i, 30u);
}

// The vocabulary files of the fixtures went through a text filter that replaced bytes that are not UTF-8, so
// numbers are damaged but strings are intact. Recovers the strings of a list.
std::vector<std::string> recover_strings(const std::string& bytes, const std::string& key) {
  const size_t at = bytes.find(key);
  if (at == std::string::npos) return {};
  std::vector<std::string> best;
  for (size_t skip = 8 + 8; skip < 8 + 8 + 24; ++skip) {  // type, element type, and a count of damaged width
    std::vector<std::string> list;
    const auto header = [&](size_t p) {  // 0 for none, else its width
      if (bytes.compare(p, 3, "\xEF\xBF\xBD") == 0 && bytes.compare(p + 3, 7, std::string(7, '\0')) == 0)
        return 10;
      return bytes.compare(p + 1, 7, std::string(7, '\0')) == 0 && static_cast<unsigned char>(bytes[p]) < 0x80
                 ? 8
                 : 0;
    };
    for (size_t p = at + key.size() + skip; p + 8 < bytes.size();) {
      size_t size = static_cast<unsigned char>(bytes[p]);
      if (!header(p)) break;
      if (header(p) == 10) {  // a size from 128 to 255: the one after which another header follows
        for (size = 128; size < 256 && !(header(p + 10 + size) &&
                                         bytes.substr(p + 10, size).find('\0') == std::string::npos);
             ++size) {
        }
        p += 2;
      }
      const std::string text = bytes.substr(p + 8, size);
      if (text.starts_with("tokenizer.ggml.")) break;
      list.push_back(text);
      p += 8 + size;
    }
    if (list.size() > best.size()) best = std::move(list);
  }
  return best;
}

std::string rebuild(const std::string& damaged, const std::string& model, const std::string& pre) {
  const std::string prefix = "tokenizer.ggml.";
  auto tokens = recover_strings(damaged, prefix + "tokens");
  auto merges = recover_strings(damaged, prefix + "merges");
  if (pre == "gpt-2") {  // some of its long merges cannot be recovered; use those of its tokenizer.json
    const Json json = Json::parse(read_packed(assets() + "/tokenizers/hf/gpt2/tokenizer.json"));
    tokens.resize(json["model"]["vocab"].size());
    for (const auto& [token, id] : json["model"]["vocab"].items()) tokens[id.get<size_t>()] = token;
    merges = json["model"]["merges"].get<std::vector<std::string>>();
  }
  std::vector<int32_t> types;
  std::vector<float> scores;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& t = tokens[i];
    const bool byte = model == "llama" && t.size() == 6 && t.starts_with("<0x");
    const bool control = model != "gpt2"
                             ? t == "<s>" || t == "</s>" || (t.starts_with("<|") && t.ends_with("|>")) ||
                                   (model == "bert" && t.starts_with("[") && t.ends_with("]") && t.size() > 2)
                             : t.starts_with("<|");
    using Type = SentencePieceModel::Type;
    types.push_back(byte           ? Type::kByte
                    : t == "<unk>" ? Type::kUnknown
                    : control      ? Type::kControl
                                   : Type::kNormal);
    scores.push_back(-static_cast<float>(i));
  }
  // These vocabularies have the scores of this SentencePiece model.
  const auto spm =
      SentencePieceModel::parse(read_packed(assets() + "/tokenizers/sentencepiece/llama2-tokenizer.model"));
  if (spm.ok())
    for (size_t i = 0; i < std::min(scores.size(), spm->pieces.size()); ++i) scores[i] = spm->pieces[i].score;
  std::vector<std::string> entries = {text_entry(prefix + "model", model), text_entry(prefix + "pre", pre),
                                      list_entry(prefix + "tokens", tokens),
                                      numbers_entry(prefix + "token_type", 5, types)};
  if (model == "llama") entries.push_back(numbers_entry(prefix + "scores", 6, scores));
  if (model == "gpt2") entries.push_back(list_entry(prefix + "merges", merges));
  return gguf(entries);
}

TEST(GgufVocabulary, MatchesLlamaCpp) {
  const std::string folder = assets() + "/tokenizers/llama.cpp-vocab/ggml-vocab-";
  if (!is_file(folder + "gpt-2.gguf.gz")) GTEST_SKIP() << "the vocabulary files are not available";
  const std::vector<std::array<const char*, 3>> files = {{"gpt-2", "gpt2", "gpt-2"},
                                                         {"llama-spm", "llama", ""},
                                                         {"phi-3", "llama", ""},
                                                         {"bert-bge", "bert", ""},
                                                         {"deepseek-coder", "gpt2", "deepseek-coder"}};
  for (const auto& [name, model, pre] : files) {
    SCOPED_TRACE(name);
    const std::string stem = folder + name + ".gguf";
    auto json = gguf_to_json(rebuild(read_packed(stem), model, pre), name);
    ASSERT_TRUE(json.ok()) << json.error().text();
    const auto tokenizer = Tokenizer::from_json(std::move(*json), name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
    expect_vocab_test(*tokenizer, stem);
  }
  for (const auto& [name, hf] : {std::pair("qwen2", "qwen2_5"), std::pair("llama-bpe", "llama3_2")}) {
    SCOPED_TRACE(name);
    const auto tokenizer = tokenizer_from(assets() + "/tokenizers/hf/" + hf + "/tokenizer.json");
    ASSERT_TRUE(tokenizer.ok());
    expect_vocab_test(*tokenizer, folder + name + ".gguf");
  }
}

TEST(GgufVocabulary, AModelFileLoads) {
  const std::string file = shared_golden() + "/gguf/llama-f32.gguf";
  if (!is_file(file)) GTEST_SKIP() << file << " is not available";
  const auto tokenizer = Tokenizer::load(file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
  const auto encoding = tokenizer->encode("Hello");
  ASSERT_TRUE(encoding.ok());
  EXPECT_EQ(tokenizer->decode(encoding->ids), "Hello");
}

TEST(Tiktoken, MatchesIdsOnCode) {
  const std::string folder = assets() + "/tokenizers/tiktoken/";
  if (!is_file(folder + "gpt2.tiktoken")) GTEST_SKIP() << "the rank files are not available";
  const std::string text = *read_file(folder + "testdata/lib.rs.txt");
  for (const auto& [file, ids] :
       {std::pair("gpt2.tiktoken", "gpt2"), std::pair("p50k_base.json", "p50k_base"),
        std::pair("cl100k_base.json", "gpt_3.5_turbo"), std::pair("o200k_base.json", "gpt_4o")}) {
    SCOPED_TRACE(file);
    auto json = tiktoken_to_json(read_packed(folder + file),
                                 std::string(file).substr(0, 4) == "gpt2" ? "gpt2" : "", file);
    ASSERT_TRUE(json.ok()) << json.error().text();
    const auto tokenizer = Tokenizer::from_json(std::move(*json), file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
    const auto expected = parse_json(*read_file(folder + "testdata/tokens_" + ids + ".json"), ids);
    int wrong = 0;
    expect_ids(*tokenizer, text, expected->get<std::vector<uint32_t>>(), wrong);
    EXPECT_EQ(tokenizer->decode(expected->get<std::vector<uint32_t>>()), text);
  }
}

TEST(VocabMerges, MatchesGpt2) {
  const std::string folder = assets() + "/tokenizers/gpt2/";
  if (!is_file(folder + "encoder.json.gz")) GTEST_SKIP() << "GPT-2's files are not available";
  auto json =
      vocab_merges_to_json(read_packed(folder + "encoder.json"), read_packed(folder + "vocab.bpe"), "gpt2");
  ASSERT_TRUE(json.ok()) << json.error().text();
  const auto tokenizer = Tokenizer::from_json(std::move(*json), "gpt2");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
  expect_vocab_test(*tokenizer, assets() + "/tokenizers/llama.cpp-vocab/ggml-vocab-gpt-2.gguf");
}

}  // namespace
}  // namespace makar
