// Small built-in tokenizers: every stage without fixtures.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "text/read/read.h"
#include "text/read/sentencepiece.h"
#include "text/same_tokens.h"
#include "text/unicode.h"

namespace makar {
namespace {

Json word_level(const char* extra = "{}") {
  Json json = Json::parse(
      R"({"version":"1.0","added_tokens":[{"id":0,"content":"[UNK]","special":true,"normalized":false},
    {"id":1,"content":"<x>","special":true,"normalized":false,"lstrip":true},{"id":2,"content":"tag","special":false,"single_word":true,"normalized":false}],
    "model":{"type":"WordLevel","unk_token":"[UNK]","vocab":{"[UNK]":0,"<x>":1,"tag":2,"hello":3,"world":4,"<":5,"x":6,">":7}},
    "pre_tokenizer":{"type":"Whitespace"}})");
  const Json more = Json::parse(extra);
  for (const auto& [key, value] : more.items()) json[key] = value;
  return json;
}

Json byte_bpe() {
  Json json = {
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"added_tokens", {{{"id", 300}, {"content", "<|end|>"}, {"special", true}, {"normalized", false}}}}};
  Json vocab = Json::object();
  char32_t next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    vocab[utf8(printable ? static_cast<char32_t>(b) : next++)] = b;
  }
  vocab["ab"] = 256, vocab["abc"] = 257, vocab["bc"] = 258;
  json["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"b c", "a b", "ab c"}}};
  return json;
}

std::vector<uint32_t> ids(const Tokenizer& t, std::string_view text, EncodeOptions options = {}) {
  return t.encode(text, options)->ids;
}

TEST(Tokenizer, SpecialTextIsPlainByDefault) {
  const auto t = Tokenizer::from_json(word_level(), "test");
  ASSERT_TRUE(t.ok()) << t.error().text();
  EXPECT_EQ(ids(*t, "hello <x> tag tags"), (std::vector<uint32_t>{3, 5, 6, 7, 2, 0}));
  EncodeOptions options;
  options.special_text = SpecialText::kParse;
  EXPECT_EQ(ids(*t, "hello <x> tag", options), (std::vector<uint32_t>{3, 1, 2}));
  EXPECT_EQ(t->encode("hello <x>", options)->offsets[1], (Span{5, 9}));  // lstrip strips the blank
  options.special_text = SpecialText::kForbid;
  EXPECT_FALSE(t->encode("hello <x>", options).ok());
}

TEST(Tokenizer, PlainTextNeverGivesAControlId) {
  Json json = word_level(R"({"pre_tokenizer":{"type":"WhitespaceSplit"}})");
  const auto t = Tokenizer::from_json(json, "test");
  EXPECT_EQ(ids(*t, "hello <x>"), (std::vector<uint32_t>{3, 0}));
}

TEST(Tokenizer, BytesRoundTrip) {
  const auto t = Tokenizer::from_json(byte_bpe(), "test");
  ASSERT_TRUE(t.ok()) << t.error().text();
  EXPECT_EQ(ids(*t, "abc abcab"), (std::vector<uint32_t>{'a', 258, ' ', 'a', 258, 256}));
  for (const std::string& bytes : {std::string("a\xFF\x80"
                                               "b"),
                                   std::string("\xE2\x82"), std::string("\xED\xA0\x80"),
                                   std::string("\0\0", 2), std::string("\xF4\x90\x80\x80")}) {
    EXPECT_EQ(t->decode_bytes(ids(*t, bytes)), bytes);
    EXPECT_TRUE(is_valid_utf8(t->decode(ids(*t, bytes))));
    EXPECT_EQ(t->encode(bytes)->offsets.size(), bytes.size());
  }
}

TEST(Tokenizer, LongTextThatIsNotUtf8IsRefused) {
  const auto t = Tokenizer::from_json(byte_bpe(), "test");
  std::string text(size_t{129} << 20, 'a');
  text.back() = '\xFF';
  const auto e = t->encode(text);
  ASSERT_FALSE(e.ok());
  EXPECT_EQ(e.error().kind, Error::Kind::kLimit);
}

// One long word and many short words, by the fast path and stage by stage: a small budget ends the encoding,
// and counting the work changes no id.
TEST(Tokenizer, ABudgetEndsLongTexts) {
  std::string word, words;
  for (int i = 0; i < 60000; ++i) word += "abc", words += i % 2 ? "abc " : "xyz, ";
  for (const Json& json : {byte_bpe(), word_level()}) {
    const auto t = Tokenizer::from_json(json, "test");
    ASSERT_TRUE(t.ok());
    for (const std::string& text : {word, words})
      for (const bool fast_paths : {true, false}) {
        EncodeOptions plain, counted;
        WorkBudget unlimited;
        plain.fast_paths = counted.fast_paths = fast_paths;
        counted.work = &unlimited;
        EXPECT_EQ(ids(*t, text, counted), ids(*t, text, plain));
        EXPECT_GT(unlimited.spent(), static_cast<int64_t>(text.size()) / 16);
        const auto cancel = std::make_shared<std::atomic<bool>>(true);
        WorkBudget small(1000),
            cancelled(WorkBudget::kUnlimited, WorkBudget::Clock::time_point::max(), cancel);
        for (WorkBudget* budget : {&small, &cancelled}) {
          counted.work = budget;
          const auto result = t->encode(text, counted);
          ASSERT_FALSE(result.ok()) << text.substr(0, 10) << fast_paths;
          EXPECT_EQ(result.error().kind, Error::Kind::kLimit);
        }
      }
  }
}

TEST(Tokenizer, StreamsWholeCharacters) {
  const auto t = Tokenizer::from_json(byte_bpe(), "test");
  StreamDecoder stream(*t);
  std::string streamed;
  for (const uint32_t id : ids(*t, "a\u4E2D\U0001F600")) {
    const std::string part = stream.push(id);
    EXPECT_TRUE(is_valid_utf8(part));
    EXPECT_EQ(part.find("\uFFFD"), std::string::npos);
    streamed += part;
  }
  EXPECT_EQ(streamed + stream.finish(), "a\u4E2D\U0001F600");
  stream.push(0xE2);
  EXPECT_EQ(stream.finish(), "\uFFFD");
}

TEST(Tokenizer, PairsAreTruncatedAndPadded) {
  const auto json =
      bert_vocab_to_json("[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nworld\n##s\n,\n", true, "vocab.txt");
  ASSERT_TRUE(json.ok());
  const auto t = Tokenizer::from_json(*json, "test");
  ASSERT_TRUE(t.ok()) << t.error().text();
  EncodeOptions options;
  options.add_special = true;
  const auto pair = t->encode_pair("Hello, WORLDS", "h\u00E9llo", options);
  EXPECT_EQ(pair->ids, (std::vector<uint32_t>{2, 4, 7, 5, 6, 3, 4, 3}));
  EXPECT_EQ(pair->type_ids, (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(pair->sequence_ids, (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(pair->special_mask, (std::vector<uint8_t>{1, 0, 0, 0, 0, 1, 0, 1}));
  options.truncation = Truncation{.max_length = 4};
  options.padding = Padding{.length = 6, .id = 0};
  EXPECT_TRUE(t->encode("hello world hello", options)->overflow.empty());
  options.overflow = true;
  const auto truncated = t->encode("hello world hello", options);
  EXPECT_EQ(truncated->ids, (std::vector<uint32_t>{2, 4, 5, 3, 0, 0}));
  EXPECT_EQ(truncated->attention_mask, (std::vector<uint8_t>{1, 1, 1, 1, 0, 0}));
  ASSERT_EQ(truncated->overflow.size(), 1u);
  EXPECT_EQ(truncated->overflow[0].ids, (std::vector<uint32_t>{2, 4, 3, 0, 0, 0}));
}

TEST(Tokenizer, TruncatingPairsIsLinearAndDoesNotDependOnOverflow) {
  const auto json = word_level(R"({"pre_tokenizer":{"type":"WhitespaceSplit"}})");
  const auto t = Tokenizer::from_json(json, "test");
  ASSERT_TRUE(t.ok()) << t.error().text();
  const auto words = [](int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += i % 3 ? "hello " : "world ";
    return out;
  };
  using Strategy = Truncation::Strategy;
  for (const Strategy strategy : {Strategy::kLongestFirst, Strategy::kOnlyFirst, Strategy::kOnlySecond})
    for (const bool left : {false, true})
      for (const auto& [a, b] : {std::pair{3, 4}, {20, 4}, {4, 20}, {20, 30}, {30, 20}, {25, 25}, {9, 8}}) {
        EncodeOptions options;
        options.truncation = Truncation{.max_length = 15, .strategy = strategy, .left = left};
        const auto plain = t->encode_pair(words(a), words(b), options);
        options.overflow = true;
        const auto windows = t->encode_pair(words(a), words(b), options);
        ASSERT_EQ(plain.ok(), windows.ok());
        if (!plain.ok()) continue;
        EXPECT_EQ(plain->ids, windows->ids) << a << " " << b;
        EXPECT_EQ(plain->sequence_ids, windows->sequence_ids);
        EXPECT_EQ(plain->offsets, windows->offsets);
        EXPECT_TRUE(plain->overflow.empty());
      }
  // Windows of a million tokens: a copy of all truncated tokens per window would take terabytes.
  EncodeOptions options;
  options.truncation = Truncation{.max_length = 16}, options.overflow = true, options.offsets = false;
  const auto many = t->encode_pair(words(500'000), words(500'000), options);
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(many->overflow.size(), 2U * (500'000 / 8 - 1));
}

TEST(Tokenizer, TrimmedOffsetsExcludeStrippedBlanks) {
  Json json =
      word_level(R"({"post_processor":{"type":"ByteLevel","trim_offsets":true,"add_prefix_space":false}})");
  json["added_tokens"][1]["rstrip"] = true;
  const auto t = Tokenizer::from_json(json, "test");
  ASSERT_TRUE(t.ok()) << t.error().text();
  EncodeOptions options;
  options.special_text = SpecialText::kParse;
  const auto e = t->encode("hello\u3000\u00A0<x>\u3000 world", options);
  EXPECT_EQ(e->ids, (std::vector<uint32_t>{3, 1, 4}));
  EXPECT_EQ(e->offsets, (std::vector<Span>{{0, 5}, {10, 13}, {17, 22}}));
}

TEST(Tokenizer, FindsATokenInTheStrippedBlanksOfAnother) {
  Json json = word_level();
  json["added_tokens"][1]["rstrip"] = true;
  json["added_tokens"].push_back({{"id", 8}, {"content", "\n"}, {"normalized", false}});
  const auto t = Tokenizer::from_json(json, "test");
  EncodeOptions options;
  options.special_text = SpecialText::kParse;
  EXPECT_EQ(ids(*t, "<x> \n\nhello", options), (std::vector<uint32_t>{1, 8, 8, 3}));
}

TEST(Tokenizer, AddedTokensAreDecodedInTheirMatchedForm) {
  Json json = word_level(R"({"normalizer":{"type":"Lowercase"}})");
  json["added_tokens"].push_back({{"id", 8}, {"content", "LOUD"}, {"normalized", true}});
  json["added_tokens"].push_back({{"id", 9}, {"content", "AS IS"}, {"normalized", false}});
  const auto t = Tokenizer::from_json(json, "test");
  EXPECT_EQ(ids(*t, "Loud AS IS"), (std::vector<uint32_t>{8, 9}));
  EXPECT_EQ(t->decode(std::vector<uint32_t>{8, 9}), "loud AS IS");
  EXPECT_EQ(t->token(8), "LOUD");
}

TEST(Tokenizer, SameBatchesForAnyThreadCount) {
  const auto t = Tokenizer::from_json(byte_bpe(), "test");
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) texts.push_back(std::string(i % 17, 'a') + "bc " + std::to_string(i));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  ThreadPool one(1), three(3);
  const auto a = t->encode_batch(views, {}, one), b = t->encode_batch(views, {}, three);
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(a[i]->ids, b[i]->ids);
}

TEST(Tokenizer, RoundTripsThroughJson) {
  const auto t = Tokenizer::from_json(byte_bpe(), "test");
  const auto again = Tokenizer::from_json(t->to_json(), "again");
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(ids(*again, "abc ab"), ids(*t, "abc ab"));
}

TEST(Tokenizer, RoundTripsThroughSentencePiece) {
  SentencePieceModel model;
  model.kind = SentencePieceModel::kBpe;
  model.remove_extra_whitespaces = false;
  model.pieces = {{"<unk>", 0, 2}, {"<s>", 0, 3},     {"</s>", 0, 3}, {"\u2581a", -1, 1},
                  {"ab", -2, 1},   {"\u2581", -3, 1}, {"a", -4, 1},   {"b", -5, 1}};
  const auto parsed = SentencePieceModel::parse(model.write());
  ASSERT_TRUE(parsed.ok()) << parsed.error().text();
  const auto json = sentencepiece_to_json(*parsed, "spm");
  ASSERT_TRUE(json.ok()) << json.error().text();
  const auto t = Tokenizer::from_json(*json, "spm");
  ASSERT_TRUE(t.ok()) << t.error().text();
  EXPECT_EQ(ids(*t, "ab b"), (std::vector<uint32_t>{3, 7, 5, 7}));
  EXPECT_EQ(t->decode(ids(*t, "ab b")), "ab b");
  const auto back = json_to_sentencepiece(t->to_json());
  ASSERT_TRUE(back.ok()) << back.error().text();
  const auto t2 = Tokenizer::from_json(*sentencepiece_to_json(*back, "back"), "back");
  EXPECT_EQ(ids(*t2, "ab b<s>"), ids(*t, "ab b<s>"));
}

TEST(Tokenizer, UnknownComponentsAreErrors) {
  for (const char* section : {"normalizer", "pre_tokenizer", "post_processor", "decoder", "model"}) {
    Json json = word_level();
    json[section] = {{"type", "Frobnicate"}};
    const auto t = Tokenizer::from_json(json, "file.json");
    ASSERT_FALSE(t.ok());
    EXPECT_EQ(t.error().kind, Error::Kind::kUnsupported);
    EXPECT_NE(t.error().text().find("Frobnicate"), std::string::npos) << t.error().text();
    EXPECT_NE(t.error().text().find("file.json"), std::string::npos);
  }
}

TEST(Tokenizer, BrokenFilesAreErrors) {
  const char* const broken[] = {
      R"({})",
      R"([])",
      R"({"model":null})",
      R"({"model":[]})",
      R"({"model":{"type":"BPE"}})",
      R"({"model":{"type":"BPE","vocab":[],"merges":[]}})",
      R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})",
      R"({"model":{"type":"BPE","vocab":{"a":99999999999},"merges":[]}})",
      R"({"model":{"type":"BPE","vocab":{"a":"x"},"merges":[]}})",
      R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}})",
      R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}})",
      R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[["a"]]}})",
      R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[7]}})",
      R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"b"}})",
      R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":3}})",
      R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[],"byte_fallback":1}})",
      R"({"model":{"type":"WordPiece"}})",
      R"({"model":{"type":"WordPiece","vocab":{"a":1.5}}})",
      R"({"model":{"type":"Unigram","vocab":{}}})",
      R"({"model":{"type":"Unigram","vocab":[["a"]]}})",
      R"({"model":{"type":"Unigram","vocab":[["a","b"]]}})",
      R"({"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":4}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"normalizer":{"type":"Replace"}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"normalizer":7})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"normalizer":{"type":"Sequence"}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"normalizer":{"type":"Precompiled","precompiled_charsmap":"!"}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"normalizer":{"type":"Precompiled","precompiled_charsmap":"//8A/w=="}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a"},"behavior":"Sometimes"}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"pre_tokenizer":{"type":"Metaspace","replacement":"ab"}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"pre_tokenizer":{"type":"FixedLength","length":0}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}}]}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"post_processor":{"type":"BertProcessing","sep":1}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"added_tokens":{}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"added_tokens":[{"content":"x"}]})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"added_tokens":[{"id":4294967295,"content":"x"}]})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"truncation":{"max_length":-1}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"decoder":{"type":"Strip"}})",
      R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a  b"]}})",
      R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a",""]]}})",
      R"({"model":{"type":"BPE","vocab":{"a":0,"##b":1},"merges":["a b"],"continuing_subword_prefix":"##"}})",
      R"({"model":{"type":"BPE","vocab":{"a":true},"merges":[]}})",
      R"({"model":{"type":"WordLevel","vocab":7}})",
      R"({"model":{"type":"Unigram","vocab":[["a",null]]}})",
      R"({"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":-1}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"pre_tokenizer":{"type":"Sequence","pretokenizers":{}}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"pre_tokenizer":{"type":"Split","pattern":{"Glob":"*"},"behavior":"Isolated"}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"decoder":{"type":"Sequence","decoders":[{"type":"Nothing"}]}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"truncation":{"max_length":5,"strategy":"Both"}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"padding":{"strategy":{"Fixed":-3}}})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"added_tokens":[{"id":1,"content":7}]})",
      R"({"model":{"type":"WordLevel","vocab":{"a":0}},"normalizer":{"type":"Prepend"}})",
  };
  for (const char* text : broken) {
    const auto t = Tokenizer::from_json(Json::parse(text), "file.json");
    EXPECT_FALSE(t.ok()) << text;
    if (!t.ok()) EXPECT_LT(t.error().text().size(), 1000u);
  }
  for (const std::string& bytes : {std::string(""), std::string("\x0A\xFF"), std::string("\x0A\x03\x0A\x09x"),
                                   std::string("hello"), std::string("\x12\x00", 2)})
    EXPECT_FALSE(sentencepiece_to_json(bytes, "x.model").ok());
  for (const std::string& text : {std::string(""), std::string("x"), std::string("IQ== x"),
                                  std::string("%% 0"), std::string("IQ== 0\nIg==")})
    EXPECT_FALSE(tiktoken_to_json(text, "gpt2", "x.tiktoken").ok()) << text;
  for (const std::string& bytes :
       {std::string(""), std::string("GGUF"), std::string("GGUF\x07\0\0\0", 8),
        std::string("GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 24)})
    EXPECT_FALSE(gguf_to_json(bytes, "x.gguf").ok());
  EXPECT_FALSE(vocab_merges_to_json("[]", "", "vocab.json").ok());
  EXPECT_FALSE(bert_vocab_to_json("", true, "vocab.txt").ok());
}

// What matters is which ids a text gets, not how the file says it.
TEST(Tokenizer, SameTokensAreComparedByIdsAndEncodings) {
  const auto message = [](const Json& a, const Json& b) {
    const Status same =
        check_same_tokens(*Tokenizer::from_json(a, "a"), *Tokenizer::from_json(b, "b"), "a", "b");
    return same.ok() ? std::string() : same.error().text();
  };
  const Json base = byte_bpe();
  EXPECT_EQ(message(base, base), "");
  Json other_form = base;  // the same pipeline with defaults written out, and a longer vocabulary
  other_form["truncation"] = nullptr, other_form["model"]["dropout"] = nullptr;
  other_form["added_tokens"].push_back({{"id", 301}, {"content", "[PAD301]"}, {"special", true}});
  EXPECT_NE(Tokenizer::from_json(base, "a")->to_json(), Tokenizer::from_json(other_form, "b")->to_json());
  EXPECT_EQ(message(base, other_form), "");
  EXPECT_EQ(message(other_form, base), "");
  Json piece = base, control = base;  // the same id: a piece in one file, a control token in the other
  piece["model"]["vocab"]["<x>"] = 301;
  control["added_tokens"].push_back({{"id", 301}, {"content", "<x>"}, {"special", true}});
  EXPECT_NE(message(piece, control).find("has other ids"), std::string::npos) << message(piece, control);
  EXPECT_NE(message(control, piece).find("has other ids"), std::string::npos) << message(control, piece);
  Json renamed = base;
  renamed["added_tokens"][0]["content"] = "<|stop|>";
  EXPECT_NE(message(base, renamed).find("id 300 is"), std::string::npos) << message(base, renamed);
  Json fewer_merges = base;
  fewer_merges["model"]["merges"] = Json::array({"a b", "ab c"});
  EXPECT_NE(message(base, fewer_merges).find("has other ids"), std::string::npos);
  Json prefixed = base;
  prefixed["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_NE(message(base, prefixed).find("has other ids"), std::string::npos);
}

}  // namespace
}  // namespace makar
