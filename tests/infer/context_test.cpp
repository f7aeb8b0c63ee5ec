// Texts longer than the model's context: rejected, truncated, or attended through sinks and a window.
#include "infer/context.h"

#include <gtest/gtest.h>

#include "infer/generate.h"
#include "infer/score_job.h"
#include "kernels/cpu_device.h"
#include "models/subjects.h"

namespace makar {
namespace {

using Ids = std::vector<int64_t>;

LoadedModel llama(int64_t layers) {
  Json config = small_config("llama");
  config["num_hidden_layers"] = layers, config["max_position_embeddings"] = 120;
  return small_model(config);
}

class ContextTest : public testing::Test {
 protected:
  std::vector<float> logits_after(const Model& model, const Ids& ids) {
    Inputs in;
    in.source.add(ids);
    const Tensor all = logits(model, device_, in);
    const auto last = all.span().last(static_cast<size_t>(all.dim(1)));
    return {last.begin(), last.end()};
  }
  GenerateOptions options(ContextPolicy policy, int64_t tokens) {
    GenerateOptions o;
    o.max_new_tokens = tokens, o.stop = {-1}, o.engine.context.policy = policy;
    return o;
  }
  CpuDevice device_{2};
};

TEST_F(ContextTest, LongTextsAreRejectedByDefault) {
  const LoadedModel loaded = llama(2);
  const auto got = generate(*loaded.model, device_, random_ids(loaded.model->spec(), 100, 1),
                            options(ContextPolicy::kError, 50));
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().kind, Error::Kind::kLimit);
  EXPECT_NE(got.error().text().find("`program.context_policy`"), std::string::npos) << got.error().text();
}

// Truncation drops the oldest half and recomputes the rest as a new text; compared with full forward passes.
TEST_F(ContextTest, TruncatedTextsEqualNewTexts) {
  const LoadedModel loaded = llama(2);
  const Model& model = *loaded.model;
  constexpr size_t kContext = 120, kNewTokens = 200;
  for (const int64_t length : {10, 119, 120, 121, 400}) {
    Ids text = random_ids(model.spec(), length, 2);
    const auto o = options(ContextPolicy::kTruncateLeft, kNewTokens);
    const auto got = generate(model, device_, text, o);
    ASSERT_TRUE(got.ok()) << got.error().text();
    if (text.size() > kContext / 2)
      text.erase(text.begin(), text.end() - kContext / 2);  // space for the generated tokens
    Ids expected;
    for (size_t i = 0; i < kNewTokens; ++i) {
      if (text.size() > kContext) text.erase(text.begin(), text.end() - kContext / 2);
      const auto row = logits_after(model, text);
      expected.push_back(std::max_element(row.begin(), row.end()) - row.begin());
      text.push_back(expected.back());
    }
    EXPECT_EQ(Ids(got->end() - kNewTokens, got->end()), expected) << length;
  }
}

// With one layer, keys and values do not depend on earlier tokens, so a token attends to exactly what it
// would in a new text made of the sinks and the window.
TEST_F(ContextTest, SinksAreTheFirstTokensRightBeforeTheWindow) {
  const LoadedModel loaded = llama(1);
  const Model& model = *loaded.model;
  constexpr int64_t kContext = 120, kSinks = 4;
  const Ids ids = random_ids(model.spec(), 700, 3);
  EngineOptions o;
  o.context.policy = ContextPolicy::kSinks, o.step_tokens = 100;
  Engine engine(model, device_, o);
  const auto job = std::make_shared<ScoreJob>(ids, 1);
  engine.submit(job);
  engine.run();
  ASSERT_FALSE(job->error) << job->error->text();
  for (const int64_t at : {50, 119, 120, 121, 130, 250, 400, 698}) {
    Ids visible(ids.begin(), ids.begin() + std::min(at + 1, kContext));
    if (at + 1 > kContext) {
      visible.resize(kSinks);
      visible.insert(visible.end(), ids.begin() + at + 1 - (kContext - kSinks), ids.begin() + at + 1);
    }
    const auto reference = logprobs(logits_after(model, visible), ids[static_cast<size_t>(at + 1)], 0);
    ASSERT_TRUE(reference.ok());
    EXPECT_NEAR(job->scores()[static_cast<size_t>(at)].chosen, reference->chosen, 2e-4) << at;
  }
}

// An unbounded text: the same tokens while it fits, bounded memory, the same bits for any chunk size.
TEST_F(ContextTest, StreamsRunInBoundedMemory) {
  for (const char* family : {"llama", "bloom", "gemma2"}) {
    const LoadedModel loaded = small_model(small_config(family));
    const Model& model = *loaded.model;
    const Ids prompt = random_ids(model.spec(), 40, 5);
    constexpr int64_t kContext = 150, kNewTokens = 1500;
    const auto run = [&](ContextPolicy policy, int64_t tokens, int64_t step, int64_t* max_pages) {
      Decoding d;
      d.max_new_tokens = tokens;
      EngineOptions o;
      o.context = {policy, kContext, 4}, o.step_tokens = step, o.share_prefixes = false;
      Engine engine(model, device_, o);
      const auto job = make_job(model, o.context, prompt, d, {-1});
      engine.submit(job);
      while (engine.step())
        if (max_pages) *max_pages = std::max(*max_pages, engine.cache().pages_used());
      check(!job->error, job->error ? job->error->text() : "");
      return job->answers()[0].ids();
    };
    int64_t max_pages = 0;
    const Ids stream = run(ContextPolicy::kSinks, kNewTokens, 512, &max_pages);
    ASSERT_EQ(stream.size(), static_cast<size_t>(kNewTokens));
    EXPECT_LE(max_pages, 5) << family;  // one of the sinks, three of the window, one that is leaving it
    EXPECT_EQ(run(ContextPolicy::kSinks, kNewTokens, 7, nullptr), stream) << family;
    const Ids short_answer = run(ContextPolicy::kError, kContext - 40, 512, nullptr);
    EXPECT_EQ(short_answer, Ids(stream.begin(), stream.begin() + kContext - 40)) << family;
  }
}

TEST_F(ContextTest, SinksNeedRelativePositions) {
  const ContextOptions sinks{ContextPolicy::kSinks, 0, 4};
  for (const char* name : {"small/gpt2", "small/t5", "small/bart", "small/bert"})
    EXPECT_FALSE(check_context(subject(name).model->spec(), sinks).ok()) << name;
  const LoadedModel loaded = llama(1);
  EXPECT_TRUE(check_context(loaded.model->spec(), sinks).ok());
  EXPECT_FALSE(check_context(loaded.model->spec(), {ContextPolicy::kSinks, 0, 0}).ok());
  EXPECT_FALSE(check_context(loaded.model->spec(), {ContextPolicy::kSinks, 0, 97}).ok());
  EXPECT_FALSE(check_context(loaded.model->spec(), {ContextPolicy::kSinks, 4, 4}).ok());
  EXPECT_FALSE(check_context(loaded.model->spec(), {ContextPolicy::kError, -1, 4}).ok());
}

}  // namespace
}  // namespace makar
