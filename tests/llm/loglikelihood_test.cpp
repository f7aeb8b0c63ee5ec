// Log-likelihoods of many texts in one batch equal those of each text alone, bit for bit, also with shared
// contexts.
#include "llm/loglikelihood.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/json.h"
#include "formats/safetensors.h"
#include "infer/generate.h"
#include "llm/language_model_fixture.h"
#include "models/forward.h"
#include "ops/softmax.h"
#include "train/step.h"

namespace makar {
namespace {

using Texts = std::vector<ContextAndContinuation>;

class LoglikelihoodTest : public LanguageModelTest {
 protected:
  static EngineOptions options(int64_t step_tokens = 512, int64_t pages = 0) {
    EngineOptions o;
    o.step_tokens = step_tokens, o.max_pages = pages;
    return o;
  }
};

bool equal(const Loglikelihood& a, const Loglikelihood& b) {
  return a.logprob == b.logprob && a.tokens == b.tokens && a.windows == b.windows &&
         a.is_greedy == b.is_greedy;
}

Texts many_texts() {
  std::string shots;
  for (int i = 0; i < 7; ++i) shots += "question " + std::to_string(i) + " has an answer. ";
  return {{"The sky is", " blue"},
          {"The sky is", " green"},
          {"The sky is", " b"},
          {"", "a text without a context"},
          {shots + "Which one?", " the first"},
          {shots + "Which one?", " the second"},
          {shots + "And then?", " nothing"},
          {shots, "the end"},
          {"", shots + shots + shots + shots}};
}

TEST_F(LoglikelihoodTest, ABatchEqualsEachTextAlone) {
  const LanguageModel language = open();
  const Texts texts = many_texts();
  std::vector<Loglikelihood> alone;
  for (const auto& text : texts) {
    EngineOptions o = options();
    o.share_prefixes = false;
    Engine engine(language.model(), device_, o);
    const auto one = loglikelihood(engine, language, std::span(&text, 1));
    ASSERT_TRUE(one[0].ok()) << one[0].error().text();
    alone.push_back(*one[0]);
  }
  for (const int64_t step_tokens : {512, 33})
    for (const int64_t pages : {0, 12}) {
      Engine engine(language.model(), device_, options(step_tokens, pages));
      const auto all = loglikelihood(engine, language, texts);
      ASSERT_EQ(all.size(), texts.size());
      for (size_t i = 0; i < all.size(); ++i) {
        ASSERT_TRUE(all[i].ok()) << all[i].error().text();
        EXPECT_TRUE(equal(*all[i], alone[i])) << i << " with " << step_tokens << " and " << pages;
      }
    }
}

TEST_F(LoglikelihoodTest, IsTheSumOfTheTrainersLogProbabilities) {
  const LanguageModel language = open();
  Engine engine(language.model(), device_);
  const auto text = encode_scored(language, "The sky is", " blue");
  ASSERT_TRUE(text.ok());
  Inputs in;
  in.source.add(text->tokens);
  Context ctx{device_};
  ForwardContext f{ctx};
  const Tensor expected =
      ops::log_softmax(ctx, language.model().lm_logits(ctx, language.model().hidden(f, in)));
  double sum = 0;
  bool greedy = true;
  for (auto i = text->from; i < static_cast<int64_t>(text->tokens.size()); ++i) {
    const float* row = expected.f32() + (i - 1) * expected.dim(1);
    const int64_t token = text->tokens[static_cast<size_t>(i)];
    sum += static_cast<double>(row[token]);
    greedy = greedy && std::max_element(row, row + expected.dim(1)) - row == token;
  }
  const auto results = loglikelihood(engine, language, std::span(&*text, 1));
  ASSERT_TRUE(results[0].ok());
  EXPECT_EQ(results[0]->logprob, sum);
  EXPECT_EQ(results[0]->is_greedy, greedy);
  EXPECT_EQ(results[0]->perplexity(), std::exp(-sum / static_cast<double>(results[0]->tokens)));
}

TEST_F(LoglikelihoodTest, AGreedyContinuationIsGreedy) {
  const LanguageModel language = open();
  GenerateOptions o;
  o.max_new_tokens = 5, o.ignore_eos = true;
  const auto prompt = language.encode("The sky is");
  const auto ids = generate(language.model(), device_, *prompt, o);
  ASSERT_TRUE(ids.ok());
  ScoredText greedy{*ids, static_cast<int64_t>(prompt->size())}, other = greedy;
  other.tokens.back() = (other.tokens.back() + 1) % 256;
  Engine engine(language.model(), device_);
  const ScoredText both[] = {greedy, other};
  const auto results = loglikelihood(engine, language, both);
  EXPECT_TRUE(results[0]->is_greedy);
  EXPECT_FALSE(results[1]->is_greedy);
}

// A shared context costs its rows once, and contexts with a common prefix share pages.
TEST_F(LoglikelihoodTest, SharedContextsAreComputedOnce) {
  const LanguageModel language = open();
  const std::string context(90, 'x');
  Texts choices;
  for (const char* choice : {" aa", " bb", " cc", " dd"}) choices.push_back({context, choice});
  Engine engine(language.model(), device_);
  for (const auto& r : loglikelihood(engine, language, choices)) ASSERT_TRUE(r.ok());
  EXPECT_EQ(engine.stats().rows, 90 + 4 * 2);
  const std::string shots(2 * KvCache::kPageRows, 'y');
  Texts questions;
  for (const char* question : {"one", "two", "six"}) questions.push_back({shots + question, " yes"});
  Engine second(language.model(), device_);
  for (const auto& r : loglikelihood(second, language, questions)) ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(second.stats().reused_tokens, 2 * 2 * KvCache::kPageRows);
}

TEST_F(LoglikelihoodTest, ErrorsBelongToTheirText) {
  const LanguageModel language = open();
  Engine engine(language.model(), device_);
  const auto results = loglikelihood(engine, language, Texts{{"a", "b"}, {"only a context", ""}, {"c", "d"}});
  EXPECT_TRUE(results[0].ok() && results[2].ok());
  ASSERT_FALSE(results[1].ok());
  EXPECT_NE(results[1].error().text().find("no tokens to score"), std::string::npos);
  EXPECT_TRUE(loglikelihood(engine, language, Texts{}).empty());
}

TEST_F(LoglikelihoodTest, TokensAreReportedInOrderUntilStopped) {
  const LanguageModel language = open();
  Engine engine(language.model(), device_, options(16));
  const Texts texts = many_texts();
  std::vector<std::string> seen(texts.size());
  LoglikelihoodOptions o;
  o.on_token = [&](size_t text, int64_t token, const Logprobs&) {
    seen[text] += static_cast<char>(token);
    return true;
  };
  const auto all = loglikelihood(engine, language, texts, o);
  EXPECT_EQ(seen[0], " blue");
  EXPECT_EQ(seen[6], " nothing");
  EXPECT_TRUE(texts[8].continuation.ends_with(seen[8])) << "every token once, in order";
  EXPECT_EQ(static_cast<int64_t>(seen[8].size()), all[8]->tokens);
  EXPECT_GT(all[8]->windows, 1);
  int calls = 0;
  o.on_token = [&](size_t, int64_t, const Logprobs&) { return ++calls < 3; };
  (void)loglikelihood(engine, language, texts, o);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(engine.jobs(), 0) << "the jobs are cancelled";
}

// A model opened for training scores like a packed one, and with its new weights after training.
TEST_F(LoglikelihoodTest, TrainedWeightsScoreAsPackedOnes) {
  const LanguageModel packed = open();
  LanguageModel trained = open(WeightUse::kTrained);
  const Texts texts = {{"The sky is", " blue"}};
  const auto score = [&](const LanguageModel& language) {
    Engine engine(language.model(), device_);
    return loglikelihood(engine, language, texts)[0]->logprob;
  };
  const double before = score(packed);
  EXPECT_EQ(score(trained), before);
  Model& model = *trained.loaded().model;
  auto optimizer = Optimizer::make(model.parameters(), {});
  Batch batch;
  batch.add({'T', 'h', 'e', ' ', 's', 'k', 'y', ' ', 'i', 's', ' ', 'b', 'l', 'u', 'e'});
  std::vector<int64_t> targets(batch.tokens.begin() + 1, batch.tokens.end());
  targets.push_back(ops::kIgnore);
  for (uint64_t i = 0; i < 20; ++i) {
    StepOptions o;
    o.lr = 1e-2, o.step = i;
    train_step(model, *optimizer, device_, batch, targets, o);
  }
  EXPECT_GT(score(trained), before + 3);
}

// Encoder-decoders: the mean over the labels is the loss that transformers recorded.
class EncoderDecoders : public testing::TestWithParam<std::string> {
 protected:
  std::string folder() const { return std::string(MAKAR_TEST_GOLDEN) + "/models/" + GetParam(); }
  CpuDevice device_{2};
};

TEST_P(EncoderDecoders, ScoresMatchTransformers) {
  auto language = LanguageModel::open(folder(), device_, {});
  ASSERT_TRUE(language.ok()) << language.error().text();
  const auto golden = read_json(folder() + "/golden.json");
  const auto file = Safetensors::open(folder() + "/golden.safetensors");
  ASSERT_TRUE(golden.ok() && file.ok());
  const auto rows = [&](const char* name) {
    const Tensor all = *(*file)->tensor(name);
    std::vector<std::vector<int64_t>> out;
    for (int64_t r = 0; r < all.dim(0); ++r)
      out.emplace_back(all.i64() + r * all.dim(1), all.i64() + (r + 1) * all.dim(1));
    return out;
  };
  const auto sources = rows("in.input_ids"), masks = rows("in.attention_mask"), labels = rows("in.labels");
  std::vector<ScoredText> texts;
  for (size_t r = 0; r < sources.size(); ++r) {
    ScoredText& text = texts.emplace_back();
    text.tokens = {language->spec().decoder_start};
    for (size_t i = 0; i < sources[r].size(); ++i)
      if (masks[r][i] != 0) text.source.push_back(sources[r][i]);
    for (const int64_t id : labels[r])
      if (id >= 0) text.tokens.push_back(id);
  }
  texts.push_back(texts[0]), texts.back().tokens.pop_back();  // the same source
  Engine engine(language->model(), device_);
  const auto results = loglikelihood(engine, *language, texts);
  double sum = 0, count = 0;
  for (size_t r = 0; r < sources.size(); ++r) {
    ASSERT_TRUE(results[r].ok()) << results[r].error().text();
    sum -= results[r]->logprob, count += static_cast<double>(results[r]->tokens);
    const auto alone = loglikelihood(engine, *language, std::span(&texts[r], 1));
    EXPECT_TRUE(equal(*alone[0], *results[r])) << r;
  }
  const double expected = (*golden)["loss"].get<double>();
  EXPECT_NEAR(sum / count, expected, 1e-5 * expected);
  ASSERT_TRUE(results.back().ok());
  EXPECT_EQ(results.back()->tokens, results[0]->tokens - 1);
  EXPECT_GT(results.back()->logprob, results[0]->logprob);
  ScoredText outside = texts[0];
  outside.tokens.push_back(language->spec().vocab);
  const auto refused = loglikelihood(engine, *language, std::span(&outside, 1));
  ASSERT_FALSE(refused[0].ok());
  EXPECT_NE(refused[0].error().text().find("outside of the vocabulary"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Families, EncoderDecoders,
                         testing::Values("t5-tied-clean", "bart-clean", "marian-clean"),
                         [](const auto& info) { return info.param.substr(0, info.param.find('-')); });

// The prompt goes to the encoder; the completion gets the end token.
TEST(EncoderDecoderTexts, AreEncodedAsInTraining) {
  const ScratchFolder folder;
  std::filesystem::copy(std::string(MAKAR_TEST_GOLDEN) + "/models/t5-relu-tied", folder.path(),
                        std::filesystem::copy_options::recursive);
  ASSERT_TRUE(write_file(folder.path() + "/tokenizer.json", byte_tokenizer().dump()).ok());
  CpuDevice device{1};
  const auto language = LanguageModel::open(folder.path(), device, {});
  ASSERT_TRUE(language.ok()) << language.error().text();
  const auto text = encode_scored(*language, "ab", "cd");
  ASSERT_TRUE(text.ok()) << text.error().text();
  EXPECT_EQ(text->source, (std::vector<int64_t>{'a', 'b'}));
  EXPECT_EQ(text->tokens, (std::vector<int64_t>{0, 'c', 'd', 2}));
  EXPECT_EQ(text->from, 1);
  const auto empty = encode_scored(*language, "", "cd");
  ASSERT_FALSE(empty.ok());
  EXPECT_NE(empty.error().text().find("the encoder needs at least one token"), std::string::npos);
}

}  // namespace
}  // namespace makar
