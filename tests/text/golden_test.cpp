// Ids, offsets and decoded text, compared with those of the Hugging Face library.
#include "fixtures.h"

namespace makar {
namespace {

struct Case {
  std::string name, tokenizer, golden;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  const std::string real = shared_golden() + "/tokenizers/real/",
                    trained = shared_golden() + "/tokenizers/trained/";
  for (const char* name : {"gpt2", "llama2", "llama3_2", "qwen2_5", "gemma2", "gpt4o"})
    list.push_back(
        {name, assets() + "/tokenizers/hf/" + name + "/tokenizer.json", real + name + ".jsonl.gz"});
  list.push_back(
      {"minimind2", assets() + "/weights/minimind2-small/tokenizer.json", real + "minimind2.jsonl.gz"});
  // MiniLM uses BERT's uncased vocabulary, as bert-tiny does.
  list.push_back(
      {"minilm_bert", assets() + "/weights/bert-tiny-toxicity/vocab.txt", real + "minilm-bert.jsonl.gz"});
  for (const char* corpus : {"corpus", "tinyshakespeare"})
    for (const char* kind :
         {"bpe-bytelevel", "bpe-llama3-split", "bpe-whitespace-unk", "unigram-metaspace", "wordpiece-bert"}) {
      const std::string name = std::string(corpus) + "-" + kind + (corpus[0] == 'c' ? "-2000" : "-5000");
      list.push_back({name, trained + name + "/tokenizer.json", trained + name + "/golden.jsonl.gz"});
    }
  return list;
}

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, MatchesHuggingFace) {
  const Case& c = GetParam();
  if (!is_file(c.golden)) GTEST_SKIP() << c.golden << " is not available";
  const auto tokenizer =
      c.tokenizer.ends_with(".txt") ? Tokenizer::load(c.tokenizer) : tokenizer_from(c.tokenizer);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
  int checked = 0, wrong = 0;
  for (const std::string& line : lines_of(read_packed(c.golden))) {
    const auto json = parse_json(line, "line");
    ASSERT_TRUE(json.ok());
    if (!json->contains("text")) continue;
    const std::string text = (*json)["text"];
    EncodeOptions options;
    options.special_text = SpecialText::kParse;
    const auto encoding = tokenizer->encode(text, options);
    ASSERT_TRUE(encoding.ok()) << encoding.error().text();
    const auto ids = (*json)["ids"].get<std::vector<uint32_t>>();
    ++checked;
    bool same = encoding->ids == ids;
    std::vector<Span> offsets;
    if (json->contains("offsets") && !(*json)["offsets"].is_null())
      for (const auto& pair : (*json)["offsets"])
        offsets.push_back({pair[0].get<uint32_t>(), pair[1].get<uint32_t>()});
    const auto encoded_offsets = code_point_offsets(text, encoding->offsets);
    if (!offsets.empty() || ids.empty()) same = same && encoded_offsets == offsets;
    const std::string decoded = tokenizer->decode(ids);
    same = same && decoded == (*json)["decoded"].get<std::string>();
    if (json->contains("with_special") && !(*json)["with_special"].is_null()) {
      options.add_special = true;
      same = same &&
             tokenizer->encode(text, options)->ids == (*json)["with_special"].get<std::vector<uint32_t>>();
    }
    if (same || ++wrong > 3) continue;
    Json o = Json::array();
    for (const Span s : encoded_offsets) o.push_back({s.begin, s.end});
    ADD_FAILURE() << line << "\n ids " << Json(encoding->ids).dump() << "\n offsets " << o.dump()
                  << "\n decoded " << Json(decoded).dump();
  }
  EXPECT_EQ(wrong, 0) << "of " << checked;
  EXPECT_GT(checked, 100);
}

INSTANTIATE_TEST_SUITE_P(Text, Golden, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace makar
