// Texts, ids and decoded text recorded from transformers for many tokenizers; runs those whose files are
// available.
#include <map>

#include "fixtures.h"
#include "text/read/read.h"

namespace makar {
namespace {

// The file of each tokenizer, relative to the assets. After kWithoutSpecial: the recorded tokenizer adds no
// special tokens although this file does.
const std::string kWithoutSpecial = "plain:";
const std::map<std::string, std::string> kFiles = {
    {"Xenova/bert-base-uncased", "weights/bert-tiny-toxicity/vocab.txt"},
    {"Xenova/distilbert-base-uncased-finetuned-sst-2-english", "weights/bert-tiny-toxicity/vocab.txt"},
    {"Xenova/gpt2", "tokenizers/hf/gpt2/tokenizer.json"},
    {"openai-community/gpt2", "tokenizers/hf/gpt2/tokenizer.json"},
    {"Xenova/gpt-4", "tokenizers/tiktoken/cl100k_base.json"},
    {"Xenova/gpt-4o", "tokenizers/hf/gpt4o/tokenizer.json"},
    {"Xenova/gemma2-tokenizer", "tokenizers/hf/gemma2/tokenizer.json"},
    {"Xenova/llama-tokenizer", "tokenizers/sentencepiece/llama2-tokenizer.model"},
    {kWithoutSpecial + "Xenova/llama3-tokenizer", "tokenizers/hf/llama3_2/tokenizer.json"},
    {"Xenova/llama3-tokenizer-new", "tokenizers/hf/llama3_2/tokenizer.json"},
    {"Xenova/Qwen1.5-0.5B-Chat", "tokenizers/hf/qwen2_5/tokenizer.json"},
};

Result<Tokenizer> load(const std::string& path) {
  if (path.ends_with(".txt") || path.ends_with(".model")) return Tokenizer::load(path);
  if (path.find("tiktoken") == std::string::npos) return tokenizer_from(path);
  MAKAR_TRY(Json json, tiktoken_to_json(read_packed(path), "", path));
  return Tokenizer::from_json(std::move(json), path);
}

// The clean-up of decoded text by transformers when tokenizer_config.json has clean_up_tokenization_spaces.
std::string cleaned_up(std::string text) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{" .", "."},
                                                                                 {" ?", "?"},
                                                                                 {" !", "!"},
                                                                                 {" ,", ","},
                                                                                 {" ' ", "'"},
                                                                                 {" n't", "n't"},
                                                                                 {" 'm", "'m"},
                                                                                 {" 's", "'s"},
                                                                                 {" 've", "'ve"},
                                                                                 {" 're", "'re"}})
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  return text;
}

TEST(Vectors, MatchTransformers) {
  const std::string file = assets() + "/tokenizers/hf_tokenizer_test_vectors.json.gz";
  if (!is_file(file)) GTEST_SKIP() << file << " is not available";
  const auto vectors = parse_json(read_packed(file), file);
  ASSERT_TRUE(vectors.ok()) << vectors.error().text();
  int checked = 0, wrong = 0;
  for (const auto& [key, path] : kFiles) {
    const bool without_special = key.starts_with(kWithoutSpecial);
    const std::string name = without_special ? key.substr(kWithoutSpecial.size()) : key;
    if (!vectors->contains(name)) continue;
    const auto tokenizer = load(assets() + "/" + path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
    for (const auto& [label, record] : (*vectors)[name]["cases"].items()) {
      if (!record.contains("ids") || !record["text"].is_string()) continue;
      const auto ids = record["ids"].get<std::vector<uint32_t>>();
      EncodeOptions options;
      options.special_text = SpecialText::kParse;
      options.add_special = !without_special;
      const bool pair = record.contains("text_pair") && record["text_pair"].is_string();
      const auto encoding = pair ? tokenizer->encode_pair(record["text"].get<std::string>(),
                                                          record["text_pair"].get<std::string>(), options)
                                 : tokenizer->encode(record["text"].get<std::string>(), options);
      ASSERT_TRUE(encoding.ok()) << encoding.error().text();
      ++checked;
      auto encoded = encoding->ids;
      if (path.ends_with(".model"))
        encoded.insert(encoded.begin(), 1);  // the file does not say that <s> comes first
      const std::string decoded = tokenizer->decode(ids);
      bool same = encoded == ids;
      if (record.contains("decoded"))
        same = same && (record["decoded"] == decoded || record["decoded"] == cleaned_up(decoded));
      if (same || ++wrong > 12) continue;
      ADD_FAILURE() << name << " " << label << "\n"
                    << record.dump().substr(0, 900) << "\nids " << Json(encoded).dump().substr(0, 400)
                    << "\ndecoded " << Json(tokenizer->decode(ids)).dump().substr(0, 300);
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << checked;
  EXPECT_GT(checked, 100);
}

}  // namespace
}  // namespace makar
