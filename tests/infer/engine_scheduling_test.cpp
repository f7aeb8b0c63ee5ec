// Which request the engine computes first: priorities, fairness between callers, waiting masks, too few
// pages.
#include "infer/engine_fixture.h"

namespace makar {
namespace {

// With a single slot, a request of higher priority does not wait for the end of a long answer.
TEST_F(EngineTest, HigherPriorityPreemptsLower) {
  const auto request = [](int64_t tokens, int64_t answers, int64_t priority) {
    SampleRequest r;
    r.prompt = {4, 9, 6}, r.max_new_tokens = tokens, r.answers = answers;
    r.sampler.temperature = 1, r.sampler.seed = 3;
    auto job = std::make_shared<SampleJob>(r);
    job->priority = priority;
    return job;
  };
  Engine idle_engine(model_, device_);
  const auto expected = request(60, 3, -1);
  idle_engine.submit(expected);
  idle_engine.run();
  EngineOptions o;
  o.max_branches = 1;
  Engine engine(model_, device_, o);
  const auto low_priority = request(60, 3, -1), same_priority = request(4, 1, -1),
             high_priority = request(4, 1, 0);
  engine.submit(low_priority);
  for (int i = 0; i < 10; ++i) engine.step();
  engine.submit(same_priority);
  engine.submit(high_priority);
  for (int i = 0; i < 10; ++i) engine.step();
  EXPECT_TRUE(high_priority->done());
  EXPECT_FALSE(low_priority->done());
  EXPECT_FALSE(same_priority->done());
  EXPECT_EQ(engine.stats().preemptions, 1);
  engine.run();
  EXPECT_TRUE(same_priority->done());
  EXPECT_EQ(transcript(*low_priority), transcript(*expected));
}

// A text to embed or score is computed in chunks like a prompt.
TEST_F(EngineTest, LongTextsDoNotDelayShortRequests) {
  EngineOptions o;
  o.step_tokens = 8, o.decode_step_seconds = o.prompt_step_seconds = 100;
  Engine engine(model_, device_, o);
  const auto encode_job = std::make_shared<EncodeJob>(random_ids(model_.spec(), 180, 1));
  const auto score_job = std::make_shared<ScoreJob>(random_ids(model_.spec(), 180, 2), 1);
  engine.submit(encode_job);
  engine.submit(score_job);
  engine.step();
  SampleRequest r;
  r.prompt = {4, 9, 6}, r.max_new_tokens = 6;
  const auto sample_job = std::make_shared<SampleJob>(r);
  engine.submit(sample_job);
  for (int i = 0; i < 8; ++i) {
    const int64_t before = engine.stats().rows;
    engine.step();
    EXPECT_LE(engine.stats().rows - before, 8);
  }
  EXPECT_TRUE(sample_job->done());
  EXPECT_FALSE(encode_job->done());
  engine.run();
  EXPECT_TRUE(encode_job->done() && score_job->done());
}

// Allows every token, but is not ready for `delay` polls before each.
class DelayedConstraint : public Constraint {
 public:
  explicit DelayedConstraint(int delay) : delay_(delay) {}
  Status mask(std::span<float>) override {
    EXPECT_EQ(polls_, delay_) << "a token is chosen before its mask is ready";
    return Done{};
  }
  Status accept(int64_t) override { return polls_ = 0, Done{}; }
  std::unique_ptr<Constraint> fork() const override { return std::make_unique<DelayedConstraint>(*this); }
  bool ready() override { return polls_ == delay_ || ++polls_ > delay_; }

 private:
  int delay_, polls_ = 0;
};

// A sequence whose mask is still being computed is skipped; the others continue, and all results are the
// same.
TEST_F(EngineTest, WaitingForAMaskBlocksOnlyThatSequence) {
  const auto request = [](uint64_t seed, int delay) {
    SampleRequest r;
    r.prompt = {4, 9, 6}, r.max_new_tokens = 10, r.logprobs = 1;
    r.sampler.temperature = 1, r.sampler.seed = seed;
    if (delay >= 0) r.constraint = std::make_shared<DelayedConstraint>(delay);
    return std::make_shared<SampleJob>(r);
  };
  const auto transcript_alone = [&](uint64_t seed) {
    Engine engine(model_, device_);
    const auto job = request(seed, -1);
    engine.submit(job);
    engine.run();
    return transcript(*job);
  };
  Engine engine(model_, device_);
  const auto slow_mask_job = request(1, 5), instant_mask_job = request(2, 0),
             unconstrained_job = request(3, -1);
  for (const auto& job : {slow_mask_job, instant_mask_job, unconstrained_job}) engine.submit(job);
  for (int i = 0; i < 12; ++i) {
    engine.step();
    if (!unconstrained_job->done()) EXPECT_FALSE(engine.all_blocked());
  }
  EXPECT_TRUE(unconstrained_job->done() && instant_mask_job->done());
  EXPECT_FALSE(slow_mask_job->done());
  int idle = 0;
  while (engine.step()) idle += engine.all_blocked() ? 1 : 0;
  EXPECT_GT(idle, 0);
  EXPECT_EQ(transcript(*slow_mask_job), transcript_alone(1));
  EXPECT_EQ(transcript(*instant_mask_job), transcript_alone(2));
  EXPECT_EQ(transcript(*unconstrained_job), transcript_alone(3));
}

// With pacing, short prompts finish before long ones, but do not take the slot of a job that is before them.
TEST_F(EngineTest, AShortPromptDoesNotTakeTheOnlySlot) {
  EngineOptions o;
  o.max_branches = 1, o.decode_step_seconds = o.prompt_step_seconds = 100;
  Engine engine(model_, device_, o);
  const auto submit = [&](int64_t length) {
    SampleRequest r;
    r.prompt = random_ids(model_.spec(), length, 1), r.max_new_tokens = 3;
    const auto job = std::make_shared<SampleJob>(r);
    engine.submit(job);
    return job;
  };
  const auto long_job = submit(150), short_job = submit(3);
  while (!long_job->done()) ASSERT_TRUE(engine.step());
  EXPECT_FALSE(short_job->done());
  engine.run();
  EXPECT_TRUE(short_job->done());
}

// One caller has many requests waiting: another caller's first request is next, and a caller that sends one
// request after the other does not delay the other caller.
TEST_F(EngineTest, CallersTakeTurns) {
  EngineOptions o;
  o.max_branches = 1;
  Engine engine(model_, device_, o);
  std::vector<std::pair<std::string, std::shared_ptr<SampleJob>>> jobs;
  const auto submit = [&](const std::string& caller) {
    SampleRequest r;
    r.prompt = {4, 9, 6}, r.max_new_tokens = 3;
    jobs.emplace_back(caller, std::make_shared<SampleJob>(r));
    jobs.back().second->salt = caller;
    engine.submit(jobs.back().second);
  };
  std::string order;
  const auto run = [&](bool b_again) {
    while (engine.step())
      for (size_t i = 0; i < jobs.size(); ++i) {
        if (!jobs[i].second->done() || order.size() > 20) continue;
        const std::string caller = jobs[i].first;
        order += caller;
        jobs.erase(jobs.begin() + static_cast<int64_t>(i--));
        if (b_again && caller == "b" && order.size() < 8) submit("b");
      }
  };
  for (int i = 0; i < 4; ++i) submit("a");
  engine.step();  // the first one holds the only slot
  for (int i = 0; i < 2; ++i) submit("b");
  run(false);
  EXPECT_EQ(order, "ababaa");
  order.clear();
  for (int i = 0; i < 3; ++i) submit("a");
  submit("b");
  run(true);
  EXPECT_EQ(order.substr(0, 6), "ababab");
}

TEST_F(EngineTest, TooFewPagesFailsOnlyThatRequest) {
  EngineOptions o;
  o.max_pages = 1;
  Engine engine(model_, device_, o);
  const auto big_job = std::make_shared<ScoreJob>(random_ids(model_.spec(), 150, 3), 1);
  SampleRequest r;
  r.prompt = {4, 5, 6}, r.max_new_tokens = 4;
  const auto small_job = std::make_shared<SampleJob>(r);
  engine.submit(big_job);
  engine.submit(small_job);
  engine.run();
  ASSERT_TRUE(big_job->error.has_value());
  EXPECT_NE(big_job->error->text().find("pages"), std::string::npos) << big_job->error->text();
  EXPECT_EQ(small_job->answers()[0].tokens.size(), 4u);
  EXPECT_EQ(engine.cache().pages_used(), engine.prefix_pages());
}

// Pages kept for later prompts have a limit of their own; pages in use do not count.
TEST_F(EngineTest, PrefixPagesAreLimited) {
  const auto run = [&](int64_t limit) {
    EngineOptions o;
    o.max_prefix_pages = limit;
    Engine engine(model_, device_, o);
    std::vector<double> out;
    for (int seed = 0; seed < 5; ++seed) {
      const auto job =
          std::make_shared<ScoreJob>(random_ids(model_.spec(), 150, static_cast<uint64_t>(seed)), 1);
      engine.submit(job);
      engine.run();
      const std::vector<double> scores = transcript(*job);
      out.insert(out.end(), scores.begin(), scores.end());
    }
    return std::pair(out, engine.prefix_pages());
  };
  const int64_t pages_per_text = 150 / KvCache::kPageRows;
  const auto [unlimited_scores, unlimited_pages] = run(0);
  EXPECT_EQ(unlimited_pages, 5 * pages_per_text);
  const auto [limited_scores, limited_pages] = run(2);
  EXPECT_EQ(limited_scores, unlimited_scores);
  EXPECT_LE(limited_pages, 2 + pages_per_text);
}

}  // namespace
}  // namespace makar
