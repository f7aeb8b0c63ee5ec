// Drafts change no token; scores equal the training loss.
#include "infer/engine_fixture.h"
#include "infer/model_drafter.h"
#include "ops/softmax.h"

namespace makar {
namespace {

TEST_F(EngineTest, DraftsSaveStepsAndChangeNothing) {
  SampleRequest r;
  r.prompt = {4, 9, 6, 4, 9, 6, 4, 9, 6, 4, 9};
  r.max_new_tokens = 60;
  const auto run = [&](bool drafts, int64_t* steps) {
    SampleRequest own = r;
    if (drafts) own.drafter = std::make_shared<LookupDrafter>();
    const auto job = std::make_shared<SampleJob>(own);
    Engine engine(model_, device_);
    engine.submit(job);
    engine.run();
    *steps = engine.stats().steps;
    return transcript(*job);
  };
  int64_t plain = 0, drafted = 0;
  EXPECT_EQ(run(false, &plain), run(true, &drafted));
  EXPECT_LE(drafted, plain);
}

// A model that drafts for itself is always right with greedy decoding, so steps are saved for certain;
// sampled tokens are predicted less well.
TEST_F(EngineTest, DraftModelSavesStepsAndChangesNothing) {
  for (const double temperature : {0.0, 0.9}) {
    SampleRequest r;
    r.prompt = random_ids(model_.spec(), 20, 5);
    r.max_new_tokens = 40, r.logprobs = 2, r.sampler.temperature = temperature;
    const auto run = [&](bool drafts, EngineStats* stats, int64_t* drafted, int64_t* accepted) {
      SampleRequest own = r;
      if (drafts) own.drafter = std::make_shared<ModelDrafter>(model_, device_);
      const auto job = std::make_shared<SampleJob>(own);
      Engine engine(model_, device_);
      engine.submit(job);
      engine.run();
      *stats = engine.stats(), *drafted = job->drafted(), *accepted = job->accepted();
      return transcript(*job);
    };
    EngineStats plain, ahead;
    int64_t drafted = 0, accepted = 0;
    const auto want = run(false, &plain, &drafted, &accepted);
    EXPECT_EQ(run(true, &ahead, &drafted, &accepted), want);
    if (temperature > 0) continue;
    EXPECT_EQ(accepted, drafted);
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

}  // namespace
}  // namespace makar
