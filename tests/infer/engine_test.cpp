// The engine's contract: the results of a request do not depend on other requests, chunk sizes, pages, prefix
// reuse, preemption, drafts or threads. Random mixes of requests, each compared bit for bit with a run alone.
#include "infer/engine.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "infer/beam_job.h"
#include "infer/contrastive_job.h"
#include "infer/model_drafter.h"
#include "infer/read_job.h"
#include "infer/sample_job.h"
#include "infer/score_job.h"
#include "kernels/cpu_device.h"
#include "models/subjects.h"
#include "ops/softmax.h"

namespace makar {
namespace {

// All results of a job as numbers that can be compared bit for bit.
std::vector<double> transcript(const Job& job) {
  std::vector<double> said;
  if (job.error) return {-1};
  const auto add = [&](const Logprobs& l) {
    said.push_back(static_cast<double>(l.chosen));
    for (const auto& t : l.top)
      said.push_back(static_cast<double>(t.id)), said.push_back(static_cast<double>(t.logprob));
  };
  if (const auto* write = dynamic_cast<const WriteJob*>(&job))
    for (const Answer& answer : write->answers()) {
      said.push_back(static_cast<double>(answer.finish)), said.push_back(answer.score);
      for (const auto& token : answer.tokens)
        said.push_back(static_cast<double>(token.id)), add(token.logprobs);
    }
  if (const auto* read = dynamic_cast<const ReadJob*>(&job)) {
    const Tensor states = read->states();
    said.insert(said.end(), states.span().begin(), states.span().end());
  }
  if (const auto* score = dynamic_cast<const ScoreJob*>(&job))
    for (size_t c = 0; c < score->continuations(); ++c)
      for (const auto& l : score->scores(c)) add(l);
  return said;
}

// Random adapters on every layer, which requests select.
void offer_adapters(Model& model, size_t count) {
  uint64_t seed = 0;
  model.each_linear([&](const std::string& name, Linear& linear) {
    for (size_t i = 0; i < count; ++i) {
      const auto random = [&](const char* end, Shape shape) {
        Parameter* p = model.parameters().add(fmt::format("adapter.{}.{}{}", i, name, end), shape);
        p->value = Tensor::empty(shape);
        const Rng rng(++seed, Purpose::kSynthetic);
        for (int64_t j = 0; j < p->value.count(); ++j)
          p->value.f32()[j] = 0.4f * (rng.uniform(static_cast<uint64_t>(j)) - 0.5f);
        return p;
      };
      const int64_t rank = 2 + static_cast<int64_t>(i);
      linear.offer(i, std::make_shared<Adapter>(Adapter{random(".a", {rank, linear.in()}),
                                                        random(".b", {linear.out(), rank}), nullptr, 0.7f}));
    }
  });
}

// Random numbers of a trial, from one seed.
class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed, Purpose::kSynthetic) {}
  int64_t roll(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng_.uniform_double(next_++) * static_cast<double>(high - low + 1));
  }
  bool chance(double p) { return rng_.uniform_double(next_++) < p; }

 private:
  Rng rng_;
  uint64_t next_ = 0;
};

class EngineTrials : public testing::TestWithParam<const char*> {
 protected:
  explicit EngineTrials(const std::string& name = GetParam()) : loaded_(subject(name)) {
    offer_adapters(*loaded_.model, 2);
  }

  std::shared_ptr<Job> random_job(Dice& dice, bool guesses) {
    const auto adapter = static_cast<int32_t>(dice.roll(-1, 1));
    const auto job = random_request(dice, guesses);
    job->adapter = adapter;
    return job;
  }

  // Prompts have common prefixes to share. In an encoder-decoder, the encoder reads them.
  std::shared_ptr<Job> random_request(Dice& dice, bool guesses) {
    const ModelSpec& spec = model_.spec();
    const int64_t room = longest(spec), kind = dice.roll(0, 8);
    const int64_t length = dice.chance(0.3) ? dice.roll(1, 30) : dice.roll(90, room - 20);
    std::vector<int64_t> prompt = random_ids(spec, length, static_cast<uint64_t>(dice.roll(0, 1)));
    const int64_t own = dice.roll(0, std::min<int64_t>(length, 8));
    const auto tail = random_ids(spec, own, static_cast<uint64_t>(dice.roll(10, 1000)));
    std::copy(tail.begin(), tail.end(), prompt.end() - own);
    if (!spec.decoder) return std::make_shared<ReadJob>(prompt, random_types(dice, length));
    std::vector<int64_t> source;
    if (spec.encoder) {
      source = prompt;
      prompt = {spec.decoder_start, 4, 5};
    }
    const auto job = job_of(dice, kind, std::move(prompt), guesses);
    job->source = std::move(source);
    return job;
  }

  static std::vector<int64_t> random_types(Dice& dice, int64_t length) {
    std::vector<int64_t> types;
    if (dice.chance(0.5))
      for (int64_t i = 0; i < length; ++i) types.push_back(dice.roll(0, 1));
    return types;
  }

  std::shared_ptr<Job> job_of(Dice& dice, int64_t kind, std::vector<int64_t> prompt, bool guesses) {
    const auto length = static_cast<int64_t>(prompt.size());
    if (kind == 0 && length > 1) {
      const int64_t from = dice.roll(1, length - 1);
      if (dice.chance(0.5)) return std::make_shared<ScoreJob>(prompt, from, 2);
      const std::vector<int64_t> prefix(prompt.begin(), prompt.begin() + from),
          rest(prompt.begin() + from, prompt.end());
      return std::make_shared<ScoreJob>(
          prefix, std::vector<std::vector<int64_t>>{rest, {rest.rbegin(), rest.rend()}, {rest[0]}, {}}, 2);
    }
    if (kind == 1) return std::make_shared<ReadJob>(prompt);
    WriteRequest shared;
    shared.prompt = std::move(prompt), shared.stop = {5, 7}, shared.logprobs = 2;
    shared.sampler.seed = static_cast<uint64_t>(dice.roll(0, 99));
    if (dice.chance(0.3)) shared.sampler.repetition_penalty = 1.2;
    if (kind == 2 || kind == 3) {
      BeamRequest r{shared};
      r.max_new_tokens = dice.roll(1, 15), r.answers = 2;
      r.beams = kind == 2 ? dice.roll(2, 4) : 4;
      if (kind == 3) r.groups = dice.roll(1, 2) * 2, r.diversity_penalty = 0.7;
      r.early = static_cast<EarlyStop>(dice.roll(0, 2));
      return std::make_shared<BeamJob>(r);
    }
    if (kind == 4) {
      ContrastiveRequest r{shared};
      r.max_new_tokens = dice.roll(1, 12), r.candidates = dice.roll(2, 4);
      return std::make_shared<ContrastiveJob>(r);
    }
    SampleRequest r{shared};
    r.max_new_tokens = dice.roll(1, 20), r.answers = dice.roll(1, 4);
    r.sampler.temperature = dice.chance(0.3) ? 0.0 : 0.9;
    if (dice.chance(0.2)) r.stop_below = 0.02;
    if (dice.chance(0.2)) r.window = 100;  // longer texts forget
    if (guesses && dice.chance(0.5)) r.drafter = std::make_shared<LookupDrafter>(1, 3);
    return std::make_shared<SampleJob>(r);
  }

  // Only the cache dtypes and the context policy may change the results.
  EngineOptions random_numbers(Dice& dice) const {
    EngineOptions o;
    const DType types[] = {DType::kF32, DType::kF16, DType::kQ8_0};
    if (dice.chance(0.5)) o.cache = {types[dice.roll(0, 2)], types[dice.roll(0, 2)]};
    if (dice.chance(0.3) && sinks_) o.context = {ContextPolicy::kSinks, dice.roll(60, 130), dice.roll(1, 5)};
    return o;
  }

  std::vector<double> alone(uint64_t seed, EngineOptions numbers) {
    Dice dice(seed);
    const auto job = random_job(dice, false);
    numbers.share_prefixes = false;
    Engine engine(model_, device_, numbers);
    engine.submit(job);
    engine.run();
    return transcript(*job);
  }

  void check_pages(Engine& engine, const std::vector<std::shared_ptr<Job>>& jobs) {
    int64_t held = engine.prefix_pages();
    for (const auto& job : jobs)
      for (const Branch& branch : job->branches)
        if (branch.slot) {
          for (const KvCache::Page page : engine.cache().pages(*branch.slot)) held += page >= 0 ? 1 : 0;
          held += static_cast<int64_t>(engine.cache().cross_pages(*branch.slot).size());
        }
    ASSERT_EQ(engine.cache().references(), held);
    if (engine.cache().max_pages() > 0) ASSERT_LE(engine.cache().pages_used(), engine.cache().max_pages());
  }

  void trial(uint64_t seed) {
    Dice dice(seed);
    const EngineOptions numbers = random_numbers(dice);
    EngineOptions o = numbers;
    o.step_tokens = dice.chance(0.5) ? dice.roll(1, 40) : 512;
    o.share_prefixes = dice.chance(0.7);
    o.max_branches = dice.chance(0.3) ? dice.roll(1, 4) : 256;
    if (dice.chance(0.6)) o.max_pages = dice.roll(13, 16);  // the widest job needs four beams of three pages
    if (dice.chance(0.4)) {  // chunks of prompts sized by time: any size, changing from step to step
      o.decode_step_seconds = 1e-4 * static_cast<double>(dice.roll(1, 20));
      o.prompt_step_seconds = 1e-4 * static_cast<double>(dice.roll(1, 20));
    }
    CpuDevice device(dice.chance(0.5) ? 1 : 3);
    Engine engine(model_, device, o);
    std::vector<std::shared_ptr<Job>> jobs;
    std::vector<uint64_t> seeds;
    const int64_t count = dice.roll(2, 20);
    while (static_cast<int64_t>(jobs.size()) < count || engine.waiting() > 0) {
      if (static_cast<int64_t>(jobs.size()) < count && dice.chance(0.8)) {
        seeds.push_back(seed * 7919 + jobs.size());
        Dice own(seeds.back());
        jobs.push_back(random_job(own, true));
        jobs.back()->priority = dice.roll(0, 2);
        jobs.back()->salt = dice.chance(0.2) ? "other" : "";
        engine.submit(jobs.back());
      }
      engine.step();
      ASSERT_NO_FATAL_FAILURE(check_pages(engine, jobs)) << "trial " << seed;
    }
    for (size_t i = 0; i < jobs.size(); ++i)
      ASSERT_EQ(transcript(*jobs[i]), alone(seeds[i], numbers))
          << "trial " << seed << ", job " << i << (jobs[i]->error ? ": " + jobs[i]->error->text() : "");
    preempted_ += engine.stats().preempted, reused_ += engine.stats().reused;
  }

  LoadedModel loaded_;
  const Model& model_ = *loaded_.model;
  const bool sinks_ = check_context(model_.spec(), {ContextPolicy::kSinks, 60, 4}).ok();
  CpuDevice device_{2};
  int64_t preempted_ = 0, reused_ = 0;
};

TEST_P(EngineTrials, MixedRequestsEqualSeparateRuns) {
  const char* slow = std::getenv("MAKAR_SLOW");
  const bool main = std::string(GetParam()) == "small/llama";
  const uint64_t trials = slow && *slow == '1' ? (main ? 1000 : 200) : (main ? 60 : 12);
  for (uint64_t i = 1; i <= trials; ++i) ASSERT_NO_FATAL_FAILURE(trial(i));
  if (!model_.spec().decoder) return;
  EXPECT_GT(preempted_, 0) << "no trial ran out of pages";
  if (!model_.spec().encoder) EXPECT_GT(reused_, 0) << "no trial shared a prefix";
}

// More answers than the cache can hold: later ones wait or are preempted.
TEST_P(EngineTrials, MoreAnswersThanPagesArePreempted) {
  const ModelSpec& spec = model_.spec();
  if (!spec.decoder) GTEST_SKIP() << "reads only";
  const auto text = random_ids(spec, 30, 3);
  const auto request = [&](int64_t first, int64_t answers) {
    SampleRequest r;
    r.prompt = spec.encoder ? std::vector<int64_t>{spec.decoder_start} : text;
    r.max_new_tokens = std::min<int64_t>(longest(spec) - 31, 130), r.answers = answers, r.logprobs = 1;
    r.sampler.seed = static_cast<uint64_t>(first), r.sampler.temperature = 1.1;
    const auto job = std::make_shared<SampleJob>(r);
    if (spec.encoder) job->source = text;
    return job;
  };
  constexpr int64_t kAnswers = 12;
  std::vector<double> want;
  for (int64_t i = 0; i < kAnswers; ++i) {
    const auto job = request(i, 1);
    Engine engine(model_, device_);
    engine.submit(job);
    engine.run();
    const auto said = transcript(*job);
    want.insert(want.end(), said.begin(), said.end());
  }
  for (const bool share : {true, false})
    for (const int64_t pages : {4, 7}) {
      EngineOptions o;
      o.max_pages = pages, o.share_prefixes = share;
      Engine engine(model_, device_, o);
      const auto job = request(0, kAnswers);
      engine.submit(job);
      while (engine.step()) ASSERT_NO_FATAL_FAILURE(check_pages(engine, {job}));
      ASSERT_FALSE(job->error.has_value()) << job->error->text();
      EXPECT_EQ(transcript(*job), want) << pages << " pages";
      EXPECT_GT(engine.stats().preempted, 0) << "no answer was preempted";
    }
  EngineOptions o;
  o.max_pages = 1;
  Engine engine(model_, device_, o);
  const auto job = request(0, kAnswers);
  engine.submit(job);
  engine.run();
  ASSERT_TRUE(job->error.has_value()) << "not even one answer has room";
}

// Rotary positions, experts, sliding windows, relative position bias, encoder-decoder, encoder only.
INSTANTIATE_TEST_SUITE_P(Families, EngineTrials,
                         testing::Values("small/llama", "small/mixtral", "small/gemma2", "small/bloom",
                                         "small/bart", "small/bert", "small/gemma3_text", "small/gpt_oss",
                                         "small/qwen2_moe", "small/cohere2", "small/phi3",
                                         "small/deepseek_v3"),
                         [](const auto& info) { return std::string(info.param).substr(6); });

class EngineTest : public EngineTrials {
 protected:
  EngineTest() : EngineTrials("small/llama") {}
};

// With a single slot, a request of higher priority does not wait for the end of a long answer.
TEST_F(EngineTest, HigherPriorityPreemptsLower) {
  const auto ask = [](int64_t tokens, int64_t answers, int64_t priority) {
    SampleRequest r;
    r.prompt = {4, 9, 6}, r.max_new_tokens = tokens, r.answers = answers;
    r.sampler.temperature = 1, r.sampler.seed = 3;
    auto job = std::make_shared<SampleJob>(r);
    job->priority = priority;
    return job;
  };
  Engine quiet(model_, device_);
  const auto undisturbed = ask(60, 3, -1);
  quiet.submit(undisturbed);
  quiet.run();
  EngineOptions o;
  o.max_branches = 1;
  Engine engine(model_, device_, o);
  const auto patient = ask(60, 3, -1), equal = ask(4, 1, -1), urgent = ask(4, 1, 0);
  engine.submit(patient);
  for (int i = 0; i < 10; ++i) engine.step();
  engine.submit(equal);
  engine.submit(urgent);
  for (int i = 0; i < 10; ++i) engine.step();
  EXPECT_TRUE(urgent->done());
  EXPECT_FALSE(patient->done());
  EXPECT_FALSE(equal->done());
  EXPECT_EQ(engine.stats().preempted, 1);
  engine.run();
  EXPECT_TRUE(equal->done());
  EXPECT_EQ(transcript(*patient), transcript(*undisturbed));
}

// A text to embed or score is computed in chunks like a prompt.
TEST_F(EngineTest, LongReadDoesNotDelayShortRequests) {
  EngineOptions o;
  o.step_tokens = 8, o.decode_step_seconds = o.prompt_step_seconds = 100;
  Engine engine(model_, device_, o);
  const auto read = std::make_shared<ReadJob>(random_ids(model_.spec(), 180, 1));
  const auto scored = std::make_shared<ScoreJob>(random_ids(model_.spec(), 180, 2), 1);
  engine.submit(read);
  engine.submit(scored);
  engine.step();
  SampleRequest r;
  r.prompt = {4, 9, 6}, r.max_new_tokens = 6;
  const auto sampled = std::make_shared<SampleJob>(r);
  engine.submit(sampled);
  for (int i = 0; i < 8; ++i) {
    const int64_t before = engine.stats().rows;
    engine.step();
    EXPECT_LE(engine.stats().rows - before, 8);
  }
  EXPECT_TRUE(sampled->done());
  EXPECT_FALSE(read->done());
  engine.run();
  EXPECT_TRUE(read->done() && scored->done());
}

// Allows every token, and is not ready for a few steps before each.
class LateConstraint : public Constraint {
 public:
  explicit LateConstraint(int late) : late_(late) {}
  Status mask(std::span<float>) override {
    EXPECT_EQ(asked_, late_) << "a token is chosen before its mask is ready";
    return Done{};
  }
  Status accept(int64_t) override { return asked_ = 0, Done{}; }
  std::unique_ptr<Constraint> fork() const override { return std::make_unique<LateConstraint>(*this); }
  bool ready() override { return asked_ == late_ || ++asked_ > late_; }

 private:
  int late_, asked_ = 0;
};

// A sequence whose mask is still being computed is skipped; the others continue, and all results are the
// same.
TEST_F(EngineTest, WaitingForAMaskBlocksOnlyThatSequence) {
  const auto request = [](uint64_t seed, int late) {
    SampleRequest r;
    r.prompt = {4, 9, 6}, r.max_new_tokens = 10, r.logprobs = 1;
    r.sampler.temperature = 1, r.sampler.seed = seed;
    if (late >= 0) r.constraint = std::make_shared<LateConstraint>(late);
    return std::make_shared<SampleJob>(r);
  };
  const auto alone = [&](uint64_t seed) {
    Engine engine(model_, device_);
    const auto job = request(seed, -1);
    engine.submit(job);
    engine.run();
    return transcript(*job);
  };
  Engine engine(model_, device_);
  const auto late = request(1, 5), prompt = request(2, 0), plain = request(3, -1);
  for (const auto& job : {late, prompt, plain}) engine.submit(job);
  for (int i = 0; i < 12; ++i) {
    engine.step();
    if (!plain->done()) EXPECT_FALSE(engine.waits_only());
  }
  EXPECT_TRUE(plain->done() && prompt->done());
  EXPECT_FALSE(late->done());
  int idle = 0;
  while (engine.step()) idle += engine.waits_only() ? 1 : 0;
  EXPECT_GT(idle, 0);
  EXPECT_EQ(transcript(*late), alone(1));
  EXPECT_EQ(transcript(*prompt), alone(2));
  EXPECT_EQ(transcript(*plain), alone(3));
}

TEST(StepPacer, FindsTheRowsThatFitATimeLimit) {
  StepPacer pacer;
  const auto rows = [&] { return pacer.rows_within(pacer.budget(512, 0.1), 10000, 10000); };
  EXPECT_EQ(rows(), StepPacer::kFirstRows);
  // A machine that takes 2 ms per row and 10 ms per step.
  const auto seconds = [](int64_t count) { return 0.010 + 0.002 * static_cast<double>(count); };
  for (int i = 0; i < 20; ++i) pacer.computed(rows(), seconds(rows()), 0, 0);
  EXPECT_NEAR(static_cast<double>(rows()), 45, 3);
  pacer.computed(45, 4.5, 0, 0);  // 50 times as slow, all at once
  EXPECT_EQ(rows(), StepPacer::kLeastRows);
  for (int i = 0; i < 30; ++i) pacer.computed(rows(), seconds(rows()), 0, 0);
  EXPECT_NEAR(static_cast<double>(rows()), 45, 3);
  pacer.computed(1, 100, 0, 0);  // a step of single tokens does not measure rows of prompts
  EXPECT_NEAR(static_cast<double>(rows()), 45, 3);
}

TEST(StepPacer, CountsTheTimeOfLogits) {
  StepPacer pacer;
  const auto rows = [&](int64_t plain) { return pacer.rows_within(pacer.budget(512, 0.0955), 10000, plain); };
  pacer.computed(100, 0.1, 0, 0);  // 1 ms per row
  EXPECT_EQ(rows(10000), 95);
  EXPECT_EQ(rows(0), StepPacer::kFirstRows) << "logits are not measured yet";
  pacer.computed(100, 0.1, 10, 0.09);  // 9 ms for the logits of a row
  EXPECT_EQ(rows(10000), 95);
  EXPECT_EQ(rows(0), 10);
  EXPECT_EQ(rows(50), 55);
  EXPECT_EQ(pacer.rows_within(pacer.budget(7, 0.1), 10000, 0), 7) << "no more rows than allowed";
  EXPECT_EQ(pacer.rows_within({512}, 10000, 0), 512) << "without a time limit";
  StepPacer::Budget budget = pacer.budget(512, 0.0955);
  pacer.take(budget, 5, 5);
  EXPECT_EQ(pacer.rows_within(budget, 10000, 0), 5);
  pacer.take(budget, 5, 5);
  pacer.take(budget, 1, 0);
  EXPECT_TRUE(budget.empty());
}

double processor_seconds() {  // of this thread: other programs do not count
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A vocabulary whose logits cost many times as much as the layers. After prompts, whose rows need no logits,
// a text to score must not get as many rows per step: a stream beside it would pause.
TEST(EnginePacing, AScoreTakesNoMoreOfAStepThanAPrompt) {
  Json config = small_config("llama");
  config["vocab_size"] = 60000;
  const LoadedModel loaded = small_model(config);
  const Model& model = *loaded.model;
  const ModelSpec& spec = model.spec();
  CpuDevice device(1);
  const auto score = [&] { return std::make_shared<ScoreJob>(random_ids(spec, 190, 2), 1); };
  const auto sample = [&](std::vector<int64_t> prompt, int64_t tokens) {
    SampleRequest r;
    r.prompt = std::move(prompt), r.max_new_tokens = tokens;
    return std::make_shared<SampleJob>(r);
  };
  Engine whole(model, device);
  whole.submit(score());
  const double start = processor_seconds();
  whole.run();
  const double all = processor_seconds() - start;  // in one step

  EngineOptions o;
  o.decode_step_seconds = o.prompt_step_seconds = all / 20;
  Engine engine(model, device, o);
  for (int i = 0; i < 5; ++i) {
    engine.submit(sample(random_ids(spec, 180, static_cast<uint64_t>(10 + i)), 1));
    engine.run();
  }
  engine.submit(sample({4, 9, 6}, 200));
  for (int i = 0; i < 5; ++i) engine.step();
  const auto scored = score();
  engine.submit(scored);
  double longest = 0;
  while (!scored->done()) {
    const double before = processor_seconds();
    engine.step();
    longest = std::max(longest, processor_seconds() - before);
  }
  EXPECT_LT(longest, all / 3);
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
  const auto long_one = submit(150), short_one = submit(3);
  while (!long_one->done()) ASSERT_TRUE(engine.step());
  EXPECT_FALSE(short_one->done());
  engine.run();
  EXPECT_TRUE(short_one->done());
}

// One caller has many requests waiting: another caller's first request is next, and a caller that sends one
// request after the other does not keep the rest waiting.
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

TEST_F(EngineTest, DraftsSaveStepsAndChangeNothing) {
  SampleRequest r;
  r.prompt = {4, 9, 6, 4, 9, 6, 4, 9, 6, 4, 9};
  r.max_new_tokens = 60;
  const auto run = [&](bool guesses, int64_t* steps) {
    SampleRequest own = r;
    if (guesses) own.drafter = std::make_shared<LookupDrafter>();
    const auto job = std::make_shared<SampleJob>(own);
    Engine engine(model_, device_);
    engine.submit(job);
    engine.run();
    *steps = engine.stats().steps;
    return transcript(*job);
  };
  int64_t plain = 0, guessed = 0;
  EXPECT_EQ(run(false, &plain), run(true, &guessed));
  EXPECT_LE(guessed, plain);
}

// A model that drafts for itself is always right with greedy decoding, so steps are saved for certain;
// sampled tokens are predicted less well.
TEST_F(EngineTest, DraftModelSavesStepsAndChangesNothing) {
  for (const double temperature : {0.0, 0.9}) {
    SampleRequest r;
    r.prompt = random_ids(model_.spec(), 20, 5);
    r.max_new_tokens = 40, r.logprobs = 2, r.sampler.temperature = temperature;
    const auto run = [&](bool guesses, EngineStats* stats, int64_t* guessed, int64_t* accepted) {
      SampleRequest own = r;
      if (guesses) own.drafter = std::make_shared<ModelDrafter>(model_, device_);
      const auto job = std::make_shared<SampleJob>(own);
      Engine engine(model_, device_);
      engine.submit(job);
      engine.run();
      *stats = engine.stats(), *guessed = job->guessed(), *accepted = job->accepted();
      return transcript(*job);
    };
    EngineStats plain, ahead;
    int64_t guessed = 0, accepted = 0;
    const auto want = run(false, &plain, &guessed, &accepted);
    EXPECT_EQ(run(true, &ahead, &guessed, &accepted), want);
    if (temperature > 0) continue;
    EXPECT_EQ(accepted, guessed);
    EXPECT_LT(ahead.steps, plain.steps / 2);
  }
}

TEST_F(EngineTest, ScoreOfATextEqualsTheTrainingLoss) {
  const auto ids = random_ids(model_.spec(), 150, 3);
  const auto job = std::make_shared<ScoreJob>(ids, 1);
  EngineOptions chunks;
  chunks.step_tokens = 37;
  Engine engine(model_, device_, chunks);
  engine.submit(job);
  engine.run();
  Inputs in;
  in.source.add(ids);
  Context ctx{device_};
  const Tensor want = ops::log_softmax(ctx, logits(model_, device_, in));
  for (size_t i = 0; i + 1 < ids.size(); ++i)
    ASSERT_EQ(job->scores()[i].chosen, want.f32()[static_cast<int64_t>(i) * want.dim(1) + ids[i + 1]]) << i;
}

TEST_F(EngineTest, TooFewPagesFailsOnlyThatRequest) {
  EngineOptions o;
  o.max_pages = 1;
  Engine engine(model_, device_, o);
  const auto big = std::make_shared<ScoreJob>(random_ids(model_.spec(), 150, 3), 1);
  SampleRequest r;
  r.prompt = {4, 5, 6}, r.max_new_tokens = 4;
  const auto small = std::make_shared<SampleJob>(r);
  engine.submit(big);
  engine.submit(small);
  engine.run();
  ASSERT_TRUE(big->error.has_value());
  EXPECT_NE(big->error->text().find("pages"), std::string::npos) << big->error->text();
  EXPECT_EQ(small->answers()[0].tokens.size(), 4u);
  EXPECT_EQ(engine.cache().pages_used(), engine.prefix_pages());
}

}  // namespace
}  // namespace makar
