// Data of training tasks: masked tokens and targets, the assistant's tokens, stored and packed conversations,
// the validation split, special token ids, recipes; and SQuAD's measures of answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ops/softmax.h"
#include "scratch_folder.h"
#include "train/classify.h"
#include "train/conversation.h"
#include "train/denoise.h"
#include "train/recipe.h"
#include "train/token_roles.h"

namespace makar {
namespace {

SpecialIds special() {
  SpecialIds s;
  s.cls = 1, s.sep = 2, s.mask = 3, s.eos = 4, s.vocab = 1000;
  for (int64_t i = 0; i < 100; ++i) s.sentinels.push_back(5 + i);
  return s;
}

std::vector<int64_t> numbers(size_t n) {
  std::vector<int64_t> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(200 + static_cast<int64_t>(i % 700));
  return ids;
}

TEST(Denoise, FifteenPercentAreMaskedReplacedOrKept) {
  const SpecialIds s = special();
  std::vector<int64_t> ids = numbers(100000), before = ids, targets;
  ids[0] = before[0] = s.cls;
  Draws draws{Rng(1, Purpose::kMask, 0)};
  mask_tokens(ids, targets, s, 0.15, draws);
  EXPECT_EQ(targets[0], ops::kIgnore);
  double selected = 0, masked = 0, unchanged = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (targets[i] == ops::kIgnore) {
      ASSERT_EQ(ids[i], before[i]);
      continue;
    }
    ASSERT_EQ(targets[i], before[i]);
    ++selected, masked += ids[i] == s.mask, unchanged += ids[i] == before[i];
  }
  EXPECT_NEAR(selected / 100000, 0.15, 0.005);
  EXPECT_NEAR(masked / selected, 0.8, 0.01);
  EXPECT_NEAR(unchanged / selected, 0.1, 0.01);
}

TEST(Denoise, CorruptedSpansRestoreTheText) {
  const SpecialIds s = special();
  for (const size_t n : {4u, 5u, 30u, 400u}) {
    const auto ids = numbers(n);
    Draws draws{Rng(n, Purpose::kMask, 0)};
    const TokenPair pair = corrupt_spans(ids, s, draws);
    std::vector<int64_t> restored;
    size_t masked = 0;
    for (const int64_t id : pair.source) {
      if (id == s.eos) break;
      if (id < 5 || id >= 105) {
        restored.push_back(id);
        continue;
      }
      auto it = std::find(pair.target.begin(), pair.target.end(), id);
      ASSERT_NE(it, pair.target.end());
      for (++it; *it >= 105 && *it != s.eos; ++it) restored.push_back(*it), ++masked;
    }
    EXPECT_EQ(restored, ids);
    EXPECT_NEAR(static_cast<double>(masked), 0.15 * static_cast<double>(n), 1.0);
    EXPECT_EQ(pair.target.back(), s.eos);
  }
}

TEST(Denoise, InfillingKeepsTheTextAsTarget) {
  const SpecialIds s = special();
  const auto ids = numbers(2000);
  Draws draws{Rng(9, Purpose::kMask, 0)};
  const TokenPair pair = infill(ids, s, draws);
  EXPECT_EQ(std::vector<int64_t>(pair.target.begin(), pair.target.end() - 1), ids);
  const auto unchanged = static_cast<double>(
      std::count_if(pair.source.begin(), pair.source.end(), [](int64_t id) { return id >= 105; }));
  EXPECT_NEAR(1 - unchanged / 2000, 0.3, 0.05);
}

TEST(Conversation, OnlyTheAssistantsTokensAreLearnt) {
  Json vocab = Json::object();
  const std::string letters = "abcdefghijklmnopqrstuvwxyz#:<|>_ \nIR";
  for (const char c : letters) vocab[std::string(1, c)] = vocab.size();
  vocab["[UNK]"] = vocab.size();
  const Json json = {{"model", {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "[UNK]"}}},
                     {"pre_tokenizer",
                      {{"type", "Split"},
                       {"pattern", {{"Regex", "[\\s\\S]"}}},
                       {"behavior", "Isolated"},
                       {"invert", false}}},
                     {"decoder", {{"type", "Fuse"}}}};
  const auto tokenizer = Tokenizer::from_json(json, "test");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
  const Json messages = Json::array({{{"role", "user"}, {"content", "ask"}},
                                     {{"role", "assistant"}, {"content", "tell"}},
                                     {{"role", "user"}, {"content", "more"}},
                                     {{"role", "assistant"}, {"content", "done"}}});
  const char* marked =
      "{% for m in messages %}{% if m['role'] == 'assistant' %}R:{% generation %}{{ m['content'] }}#{% "
      "endgeneration %}"
      "{% else %}I:{{ m['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}R:{% endif %}";
  const char* plain =
      "{% for m in messages %}{% if m['role'] == 'assistant' %}R:{{ m['content'] }}#"
      "{% else %}I:{{ m['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}R:{% endif %}";
  for (const char* source : {marked, plain}) {
    auto chat = ChatTemplate::parse(source, "test");
    ASSERT_TRUE(chat.ok()) << chat.error().text();
    const ConversationEncoder encoder(*tokenizer, *chat, {100, false});
    const auto encoded = encoder.encode(messages);
    ASSERT_TRUE(encoded.ok()) << encoded.error().text();
    std::string learnt;
    for (size_t i = 0; i < encoded->ids.size(); ++i)
      if (encoded->loss_mask[i]) learnt += *tokenizer->token(static_cast<uint32_t>(encoded->ids[i]));
    EXPECT_EQ(learnt, "tell#done#");
    EXPECT_FALSE(ConversationEncoder(*tokenizer, *chat, {4, false}).encode(messages).ok());
  }
}

// Records round-trip through disk: ids, loss mask, split.
TEST(Conversation, ConversationsOnDiskRoundTrip) {
  for (const int64_t vocab : {300, 70000}) {  // 16 and 32 bits
    ScratchFolder folder;
    ConversationWriter writer(folder.path(), vocab);
    std::vector<MaskedTokens> written;
    for (int64_t i = 0; i < 9; ++i) {
      MaskedTokens t;
      for (int64_t j = 0; j <= i; ++j)
        t.ids.push_back((vocab - 1 - i * j) % vocab), t.loss_mask.push_back(j % 2);
      ASSERT_TRUE(writer.add(t, i % 3 == 2).ok());
      written.push_back(t);
    }
    ASSERT_TRUE(writer.finish().ok());
    EXPECT_EQ(writer.train(), 6u);
    EXPECT_EQ(writer.validation(), 3u);
    int64_t at[] = {0, 0};
    const auto train = TokenStore::open(folder.path(), "train"),
               validation_store = TokenStore::open(folder.path(), "validation");
    ASSERT_TRUE(train.ok() && validation_store.ok());
    EXPECT_EQ(train->documents() + validation_store->documents(), 9);
    for (size_t i = 0; i < 9; ++i) {
      const TokenStore& store = i % 3 == 2 ? *validation_store : *train;
      const TokenRange range = store.document(at[i % 3 == 2]++);
      EXPECT_EQ(store.read(range), written[i].ids);
      EXPECT_EQ(store.mask(range), written[i].loss_mask);
    }
  }
}

TEST(Conversation, EveryDocumentIsInOnePackAndNoPackExceedsTheGivenLength) {
  std::vector<std::vector<uint32_t>> documents;
  for (size_t i = 0; i < 50; ++i) documents.emplace_back(1 + i * 7 % 20, 3);
  const TokenStore store = TokenStore::from_memory(documents, {});
  const Packs packs = pack_documents(store, 20);
  EXPECT_EQ(packs, pack_documents(store, 20));
  std::set<int64_t> seen;
  int64_t tokens = 0;
  for (const auto& pack : packs) {
    int64_t length = 0;
    for (const int64_t d : pack) {
      EXPECT_TRUE(seen.insert(d).second) << d;
      length += store.document(d).size();
    }
    EXPECT_LE(length, 20);
    tokens += length;
  }
  EXPECT_EQ(seen.size(), documents.size());
  EXPECT_LE(static_cast<int64_t>(packs.size()), tokens / 20 + 2) << "almost no space is left over";
}

TEST(Validation, UsesTheLastExamplesIfTheHashSelectsNone) {
  ValidationSplit none(1e-12);
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(none.selects(std::to_string(i)));
  auto tail = none.tail();
  ASSERT_TRUE(tail);
  std::vector<int> selected;
  for (int i = 0; i < 40; ++i)
    if (tail->selects(std::to_string(i))) selected.push_back(i);
  EXPECT_EQ(selected, std::vector<int>{39});
  EXPECT_FALSE(tail->tail()) << "there is only one fallback";
  ValidationSplit half(0.5), off(0), one(1e-12);
  for (int i = 0; i < 40; ++i) half.selects(std::to_string(i)), off.selects(std::to_string(i));
  one.selects("alone");
  EXPECT_FALSE(half.tail() || off.tail() || one.tail());
}

TEST(TokenRoles, IdsOfAConfigComeFromTheTokenizer) {
  const auto tokenizer = Tokenizer::from_json(*parse_json(R"({"version": "1.0", "added_tokens": [
          {"id": 0, "content": "<s>", "special": true}, {"id": 1, "content": "</s>", "special": true},
          {"id": 2, "content": "<pad>", "special": true}],
          "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"<s>": 0, "</s>": 1, "<pad>": 2, "a": 3}}})",
                                                          "test"),
                                              "test");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text();
  const TokenRoles roles = TokenRoles::of(*tokenizer, "");
  EXPECT_EQ(roles.to_json(), Json({{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}}));
  Json config = {
      {"model_type", "bart"}, {"bos_token_id", 3}, {"eos_token_id", 50256}, {"forced_eos_token_id", 2}};
  set_special_ids(config, roles, *tokenizer);
  EXPECT_EQ(config, Json({{"model_type", "bart"},
                          {"bos_token_id", 0},
                          {"eos_token_id", 1},
                          {"pad_token_id", 2},
                          {"decoder_start_token_id", 1}}));
  Json fits = {{"model_type", "llama"},
               {"eos_token_id", {1, 2}}};  // several end tokens, all of this tokenizer
  const Json before = fits;
  set_special_ids(fits, roles, *tokenizer);
  EXPECT_EQ(fits, before);
}

TEST(Answers, SquadMeasuresMatchValuesByHand) {
  EXPECT_EQ(normalize_answer("The  Cat, sat!"), "cat sat");
  EXPECT_DOUBLE_EQ(answer_f1("the cat sat", "a cat"), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(answer_f1("dog", "cat"), 0.0);
}

TEST(Recipe, KeysListsAndOverridesAreRead) {
  ScratchFolder f;
  const std::string file = f.write("r.yaml",
                                   "learning_rate: 1e-3\ndatasets:\n  - path: a.jsonl\n    type: alpaca\n    "
                                   "weight: 2\n  - b.txt\nflag: true\n");
  double rate = 0;
  std::vector<std::string> datasets;
  bool flag = false;
  Options o("test", "", "");
  o.add("--learning-rate --lr", &rate, "");
  o.add("-d --datasets", &datasets, "");
  o.add("--flag", &flag, "");
  auto words = expand_recipe({file, "learning_rate=5e-4"}, o);
  ASSERT_TRUE(words.ok()) << words.error().text();
  ASSERT_TRUE(o.parse(*words).ok());
  EXPECT_DOUBLE_EQ(rate, 5e-4);
  EXPECT_EQ(datasets, (std::vector<std::string>{"a.jsonl,type=alpaca,weight=2", "b.txt"}));
  EXPECT_TRUE(flag);
  const auto spec = parse_dataset(datasets[0]);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->path, "a.jsonl");
  EXPECT_EQ(spec->type, "alpaca");
  EXPECT_EQ(spec->weight, 2);
  words = expand_recipe({file, "-d", "c.txt"}, o);
  EXPECT_EQ(std::count(words->begin(), words->end(), "--datasets=b.txt"), 0);
  const auto unknown = expand_recipe({f.write("u.yaml", "seed: 1\nlearning_rat: 2\n")}, o);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(expand_recipe({f.write("v.yaml", "\nlearning_rat: 2\n")}, o)
                .error()
                .text()
                .find("v.yaml:2: unknown key 'learning_rat'; did you mean 'learning_rate'"),
            std::string::npos);
  EXPECT_FALSE(parse_recipe("a: [1, {b: \n", "x").ok());
  EXPECT_FALSE(parse_recipe(std::string(1000, '['), "x").ok());
  EXPECT_FALSE(parse_recipe("- a\n", "x").ok());
}

}  // namespace
}  // namespace makar
