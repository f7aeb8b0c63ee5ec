// The engine's promise: what a request gets does not depend on what runs beside it, on chunks, pages, reuse,
// being put off, guesses or threads. Random mixes of requests, each compared to the bit with itself alone.
#include "infer/engine.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "infer/beam_job.h"
#include "infer/generate.h"
#include "infer/model_drafter.h"
#include "infer/sample_job.h"
#include "infer/score_job.h"
#include "models/subjects.h"
#include "ops/softmax.h"

namespace makar {
namespace {

// Everything a job says, as numbers that can be compared to the bit.
std::vector<double> transcript(const Job& job) {
  std::vector<double> said;
  if (job.error) return {-1};
  const auto add = [&](const Logprobs& l) {
    said.push_back(static_cast<double>(l.chosen));
    for (const auto& t : l.top)
      said.push_back(static_cast<double>(t.id)), said.push_back(static_cast<double>(t.logprob));
  };
  if (const auto* sample = dynamic_cast<const SampleJob*>(&job))
    for (const auto& answer : sample->answers()) {
      said.push_back(static_cast<double>(answer.finish));
      for (const auto& token : answer.tokens)
        said.push_back(static_cast<double>(token.id)), add(token.logprobs);
    }
  if (const auto* beam = dynamic_cast<const BeamJob*>(&job))
    for (const auto& answer : beam->answers()) {
      said.push_back(answer.score);
      for (const int64_t id : answer.tokens) said.push_back(static_cast<double>(id));
    }
  if (const auto* score = dynamic_cast<const ScoreJob*>(&job))
    for (const auto& l : score->scores()) add(l);
  return said;
}

// Numbers for a trial, from one seed.
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

class EngineTrials : public testing::Test {
 protected:
  // Prompts begin alike, so that there are prefixes to share.
  std::shared_ptr<Job> random_job(Dice& dice, bool guesses) {
    const ModelSpec& spec = model_.spec();
    const int64_t room = longest(spec), kind = dice.roll(0, 5);
    const int64_t length = dice.chance(0.3) ? dice.roll(1, 30) : dice.roll(90, room - 20);
    std::vector<int64_t> prompt = random_ids(spec, length, static_cast<uint64_t>(dice.roll(0, 1)));
    const int64_t own = dice.roll(0, std::min<int64_t>(length, 8));
    const auto tail = random_ids(spec, own, static_cast<uint64_t>(dice.roll(10, 1000)));
    std::copy(tail.begin(), tail.end(), prompt.end() - own);
    if (kind == 0 && length > 1) return std::make_shared<ScoreJob>(prompt, dice.roll(1, length - 1), 2);
    if (kind == 1) {
      BeamRequest r;
      r.prompt = prompt, r.max_new_tokens = dice.roll(1, 15), r.beams = dice.roll(2, 4), r.answers = 2,
      r.stop = {5, 7};
      return std::make_shared<BeamJob>(r);
    }
    SampleRequest r;
    r.prompt = prompt, r.max_new_tokens = dice.roll(1, 20), r.answers = dice.roll(1, 4), r.logprobs = 2,
    r.stop = {5, 7};
    r.sampler.temperature = dice.chance(0.3) ? 0.0 : 0.9;
    r.sampler.seed = static_cast<uint64_t>(dice.roll(0, 99));
    if (dice.chance(0.3)) r.sampler.repetition_penalty = 1.2;
    if (guesses && dice.chance(0.5)) r.drafter = std::make_shared<LookupDrafter>(1, 3);
    return std::make_shared<SampleJob>(r);
  }

  std::vector<double> alone(uint64_t seed) {
    Dice dice(seed);
    const auto job = random_job(dice, false);
    EngineOptions plain;
    plain.share_prefixes = false;
    Engine engine(model_, pool_, plain);
    engine.submit(job);
    engine.run();
    return transcript(*job);
  }

  void check_pages(Engine& engine, const std::vector<std::shared_ptr<Job>>& jobs) {
    int64_t held = engine.prefix_pages();
    for (const auto& job : jobs)
      for (const Branch& branch : job->branches)
        if (branch.slot)
          for (const KvCache::Page page : engine.cache().pages(*branch.slot)) held += page >= 0 ? 1 : 0;
    ASSERT_EQ(engine.cache().references(), held);
    if (engine.cache().max_pages() > 0) ASSERT_LE(engine.cache().pages_used(), engine.cache().max_pages());
  }

  void trial(uint64_t seed) {
    Dice dice(seed);
    EngineOptions o;
    o.step_tokens = dice.chance(0.5) ? dice.roll(1, 40) : 512;
    o.share_prefixes = dice.chance(0.7);
    o.max_branches = dice.chance(0.3) ? dice.roll(1, 4) : 256;
    if (dice.chance(0.6)) o.max_pages = dice.roll(13, 16);  // the widest job needs four beams of three pages
    ThreadPool pool(dice.chance(0.5) ? 1 : 3);
    Engine engine(model_, pool, o);
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
      ASSERT_EQ(transcript(*jobs[i]), alone(seeds[i])) << "trial " << seed << ", job " << i;
    preempted_ += engine.stats().preempted, reused_ += engine.stats().reused;
  }

  LoadedModel loaded_ = subject("small/llama");
  const Model& model_ = *loaded_.model;
  ThreadPool pool_{2};
  int64_t preempted_ = 0, reused_ = 0;
};

TEST_F(EngineTrials, AnyMixGivesEachRequestWhatItGetsAlone) {
  const char* slow = std::getenv("MAKAR_SLOW");
  const uint64_t trials = slow && *slow == '1' ? 1000 : 60;
  for (uint64_t i = 1; i <= trials; ++i) ASSERT_NO_FATAL_FAILURE(trial(i));
  EXPECT_GT(preempted_, 0) << "no trial ran out of pages";
  EXPECT_GT(reused_, 0) << "no trial shared a prefix";
}

TEST_F(EngineTrials, GuessesSaveStepsAndChangeNothing) {
  SampleRequest r;
  r.prompt = {4, 9, 6, 4, 9, 6, 4, 9, 6, 4, 9};
  r.max_new_tokens = 60;
  const auto run = [&](bool guesses, int64_t* steps) {
    SampleRequest own = r;
    if (guesses) own.drafter = std::make_shared<LookupDrafter>();
    const auto job = std::make_shared<SampleJob>(own);
    Engine engine(model_, pool_);
    engine.submit(job);
    engine.run();
    *steps = engine.stats().steps;
    return transcript(*job);
  };
  int64_t plain = 0, guessed = 0;
  EXPECT_EQ(run(false, &plain), run(true, &guessed));
  EXPECT_LE(guessed, plain);
}

// A model that guesses for itself is always right, so steps are saved for certain; drawn tokens are guessed
// less well.
TEST_F(EngineTrials, AModelsGuessesSaveStepsAndChangeNothing) {
  for (const double temperature : {0.0, 0.9}) {
    SampleRequest r;
    r.prompt = random_ids(model_.spec(), 20, 5);
    r.max_new_tokens = 40, r.logprobs = 2, r.sampler.temperature = temperature;
    const auto run = [&](bool guesses, EngineStats* stats, int64_t* guessed, int64_t* accepted) {
      SampleRequest own = r;
      if (guesses) own.drafter = std::make_shared<ModelDrafter>(model_, pool_);
      const auto job = std::make_shared<SampleJob>(own);
      Engine engine(model_, pool_);
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

TEST_F(EngineTrials, TheScoreOfATextIsTheTrainersLoss) {
  const auto ids = random_ids(model_.spec(), 150, 3);
  const auto job = std::make_shared<ScoreJob>(ids, 1);
  EngineOptions chunks;
  chunks.step_tokens = 37;
  Engine engine(model_, pool_, chunks);
  engine.submit(job);
  engine.run();
  Inputs in;
  in.source.add(ids);
  Context ctx{pool_};
  const Tensor want = ops::log_softmax(ctx, logits(model_, pool_, in));
  for (size_t i = 0; i + 1 < ids.size(); ++i)
    ASSERT_EQ(job->scores()[i].chosen, want.f32()[static_cast<int64_t>(i) * want.dim(1) + ids[i + 1]]) << i;
}

TEST_F(EngineTrials, TooFewPagesIsAnErrorOfThatRequestAlone) {
  EngineOptions o;
  o.max_pages = 1;
  Engine engine(model_, pool_, o);
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
