// A small random model in a folder, with a byte-level tokenizer and a chat template.
#pragma once
#include <gtest/gtest.h>

#include "base/file.h"
#include "kernels/cpu_device.h"
#include "llm/language_model.h"
#include "models/small_models.h"
#include "scratch_folder.h"
#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace makar {

// Each byte is a token; three control tokens follow.
inline Json byte_tokenizer() {
  Json vocab = Json::object();
  for (int b = 0; b < 256; ++b) vocab[utf8(byte_to_letter(static_cast<unsigned char>(b)))] = b;
  Json added = Json::array();
  int id = 256;
  for (const char* content : {"<|end|>", "<|user|>", "<|assistant|>"})
    added.push_back({{"id", id++}, {"content", content}, {"special", true}, {"normalized", false}});
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
}

class LanguageModelTest : public testing::Test {
 protected:
  void SetUp() override {
    Json config = small_config("llama");
    config["vocab_size"] = 259, config["eos_token_id"] = 256;
    const LoadedModel small = small_model(config);
    ASSERT_TRUE(save_model(folder_.path(), *small.model, *small.family).ok());
    ASSERT_TRUE(write_file(folder_.path() + "/tokenizer.json", byte_tokenizer().dump()).ok());
    const Json chat = {{"chat_template",
                        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
                        "{% if add_generation_prompt %}<|assistant|>{% endif %}"}};
    ASSERT_TRUE(write_file(folder_.path() + "/tokenizer_config.json", chat.dump()).ok());
    ASSERT_TRUE(
        write_file(folder_.path() + "/generation_config.json", R"({"eos_token_id": [256, 257]})").ok());
  }
  LanguageModel open(WeightUse weights = WeightUse::kPacked) {
    LanguageModelOptions options;
    options.weights = weights;
    auto language = LanguageModel::open(folder_.path(), device_, options);
    check(language.ok(), language.ok() ? "" : language.error().text());
    return std::move(*language);
  }
  ScratchFolder folder_;
  CpuDevice device_{2};
};

}  // namespace makar
