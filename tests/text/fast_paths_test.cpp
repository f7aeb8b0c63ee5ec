// Compares the fast paths with the pipeline (ids and offsets), and checks decode(encode(bytes)) = bytes, on
// random text. MAKAR_SLOW=1 tries a million strings.
#include <ctime>
#include <random>

#include "fixtures.h"
#include "text/unicode.h"

namespace makar {
namespace {

std::string random_text(std::mt19937& random, bool any_bytes) {
  static const std::vector<std::string> parts = {" ",
                                                 "  ",
                                                 "   ",
                                                 "\t",
                                                 "\n",
                                                 "\r\n",
                                                 "\u00A0",
                                                 "\u3000",
                                                 "'s",
                                                 "'LL",
                                                 "don't",
                                                 "Hello",
                                                 " world",
                                                 "The",
                                                 "naïve",
                                                 "Zürich",
                                                 "1",
                                                 "1984",
                                                 "3.14",
                                                 "!",
                                                 "?!",
                                                 "...",
                                                 "/",
                                                 "</s>",
                                                 "<s>",
                                                 "<unk>",
                                                 "[CLS]",
                                                 "<|endoftext|>",
                                                 "<|im_start|>",
                                                 "\u2581",
                                                 "\u2581\u2581",
                                                 "\u4E2D\u6587",
                                                 "\u0301",
                                                 "e\u0301",
                                                 "\u00C5",
                                                 "\u212B",
                                                 "\uAC00",
                                                 "\u1100\u1161",
                                                 "\u0939\u093F\u0928\u094D\u0926\u0940",
                                                 "\U0001F600",
                                                 "\U0001F468\u200D\U0001F469",
                                                 "\u200B",
                                                 std::string(1, '\0'),
                                                 "\x7F",
                                                 "\uFFFD",
                                                 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};
  std::string text;
  const int count = static_cast<int>(random() % 10) + 1;
  for (int i = 0; i < count; ++i) {
    const auto kind = random() % 10;
    if (kind < 7) {
      text += parts[random() % parts.size()];
    } else if (kind < 9 || !any_bytes) {
      char32_t code = random() % 0x30000;
      if (code >= 0xD800 && code < 0xE000) code = 'x';
      append_utf8(text, code);
    } else {
      text.push_back(static_cast<char>(random()));
    }
  }
  return text;
}

void compare(const std::string& path, int count) {
  const auto tokenizer = path.ends_with(".model") ? Tokenizer::load(path) : tokenizer_from(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
  std::mt19937 random(11);
  int wrong = 0;
  for (int i = 0; i < count && wrong < 3; ++i) {
    const std::string text = random_text(random, i % 2);
    EncodeOptions options;
    options.special_text = i % 3 ? SpecialText::kPlain : SpecialText::kParse;
    const auto fast = tokenizer->encode(text, options);
    options.fast_paths = false;
    const auto slow = tokenizer->encode(text, options);
    ASSERT_EQ(fast.ok(), slow.ok());
    if (!fast.ok()) continue;
    std::vector<uint32_t> ids;
    options.fast_paths = true;
    ASSERT_TRUE(tokenizer->append_ids(text, options, ids).ok());
    bool same = fast->ids == slow->ids && fast->offsets == slow->offsets && ids == fast->ids;
    const bool nfc = !tokenizer->pipeline()["normalizer"].is_null();
    if (tokenizer->byte_level() && !nfc && tokenizer->decode_bytes(fast->ids) != text) same = false;
    if (options.special_text == SpecialText::kPlain)
      for (const uint32_t id : fast->ids)
        same = same && (!tokenizer->is_special(id) || tokenizer->token(id) == "<unk>" ||
                        tokenizer->token(id) == "[UNK]");
    if (same) continue;
    ++wrong;
    const auto show = [](const Encoding& e) {
      std::string out = Json(e.ids).dump();
      for (const Span s : e.offsets) out += fmt::format(" {}-{}", s.begin, s.end);
      return out;
    };
    ADD_FAILURE() << path << "\n"
                  << Json(to_valid_utf8(text)).dump(-1, ' ', true) << "\nfast " << show(*fast) << "\nslow "
                  << show(*slow) << "\ndecoded "
                  << Json(to_valid_utf8(tokenizer->decode_bytes(fast->ids))).dump(-1, ' ', true);
  }
}

TEST(FastPaths, GiveTheResultsOfThePipeline) {
  const std::string hf = assets() + "/tokenizers/hf/", trained = shared_golden() + "/tokenizers/trained/";
  if (!is_folder(hf)) GTEST_SKIP() << hf << " is not available";
  const int count = std::getenv("MAKAR_SLOW") ? 100000 : 3000;
  for (const char* name : {"gpt2", "llama3_2", "qwen2_5", "gpt4o", "llama2", "gemma2"})
    compare(hf + name + "/tokenizer.json", count);
  for (const char* name : {"corpus-wordpiece-bert-2000", "corpus-unigram-metaspace-2000",
                           "corpus-bpe-bytelevel-2000", "corpus-bpe-whitespace-unk-2000"})
    compare(trained + name + "/tokenizer.json", count);
}

// SentencePiece adds scores in single precision over the whole text: ids without offsets use cached words
// where that cannot matter, and must equal the ids of the whole text at any length.
TEST(FastPaths, GiveTheIdsOfTheWholeTextForSentencePiece) {
  const std::string real = assets() + "/tokenizers/sentencepiece/",
                    golden_models = shared_golden() + "/tokenizers/sentencepiece/";
  if (!is_folder(real) || !is_folder(golden_models)) GTEST_SKIP() << real << " is not available";
  const int count = std::getenv("MAKAR_SLOW") ? 100000 : 3000;
  const std::string book = *read_file(real + "botchan.txt");
  for (const std::string& path : {real + "test_model.model", real + "test_ja_model.model",
                                  golden_models + "botchan-unigram-1500/spm.model",
                                  golden_models + "botchan-unigram-bytefallback-1500/spm.model",
                                  golden_models + "botchan-bpe-1500/spm.model"}) {
    compare(path, count);
    const auto tokenizer = Tokenizer::load(path);
    ASSERT_TRUE(tokenizer.ok());
    for (const size_t size : {size_t{100}, size_t{3000}, size_t{30000}, book.size()}) {
      for (size_t at = 0; at < book.size(); at += std::max<size_t>(size, 9000)) {
        const std::string_view text = std::string_view(book).substr(at, size);
        EncodeOptions options;
        std::vector<uint32_t> fast, slow;
        ASSERT_TRUE(tokenizer->append_ids(text, options, fast).ok());
        options.fast_paths = false;
        ASSERT_TRUE(tokenizer->append_ids(text, options, slow).ok());
        ASSERT_EQ(fast, slow) << path << " " << at << " " << size;
      }
    }
  }
}

// A repeated character: 512 KiB take half a second on an idle machine. The bounds, 2 s of CPU time and twelve
// times as long for four times the text, leave a margin for slow builds.
TEST(FastPaths, LongRepeatsStayFast) {
  const std::string hf = assets() + "/tokenizers/hf/", trained = shared_golden() + "/tokenizers/trained/",
                    golden_models = shared_golden() + "/tokenizers/sentencepiece/";
  if (!is_folder(hf)) GTEST_SKIP() << hf << " is not available";
  const auto seconds = [](const Tokenizer& tokenizer, const char* unit, size_t size) {
    std::string text;
    while (text.size() < size) text += unit;
    const clock_t start = clock();
    EXPECT_TRUE(tokenizer.encode(text).ok());
    return static_cast<double>(clock() - start) / CLOCKS_PER_SEC;
  };
  for (const std::string& path :
       {hf + "gpt2", hf + "llama2", hf + "llama3_2", hf + "qwen2_5", hf + "gpt4o", hf + "gemma2",
        trained + "corpus-wordpiece-bert-2000", trained + "corpus-unigram-metaspace-2000",
        trained + "corpus-bpe-whitespace-unk-2000", golden_models + "botchan-unigram-1500/spm.model",
        golden_models + "botchan-unigram-bytefallback-1500/spm.model",
        golden_models + "botchan-bpe-1500/spm.model"}) {
    const auto tokenizer =
        path.ends_with(".model") ? Tokenizer::load(path) : tokenizer_from(path + "/tokenizer.json");
    ASSERT_TRUE(tokenizer.ok());
    double worst = 0;
    const char* slowest = "a";
    for (const char* unit : {"a", " ", "\n", "\u00E9", ".", "1", "\u4E2D", "\u2581", "\u0301"}) {
      const double cpu_seconds = seconds(*tokenizer, unit, 512 << 10);
      if (cpu_seconds > worst) worst = cpu_seconds, slowest = unit;
    }
    EXPECT_LT(worst, 2.0) << path << " " << slowest;
    EXPECT_LT(seconds(*tokenizer, slowest, 2048 << 10), 12 * worst) << path << " " << slowest;
    std::printf("%s: %.0f ms at most\n", path.substr(path.rfind('/', path.size() - 11) + 1).c_str(),
                worst * 1000);
  }
}

}  // namespace
}  // namespace makar
