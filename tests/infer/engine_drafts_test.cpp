// Drafts change no token; scores equal the training loss.
#include "infer/engine_fixture.h"
#include "infer/model_drafter.h"
#include "ops/softmax.h"

namespace makar {
namespace {

TEST_F(EngineTest, LookupDraftsChangeNothingAndAddNoSteps) {
  SampleRequest r;
  r.prompt = {4, 9, 6, 4, 9, 6, 4, 9, 6, 4, 9};
  r.max_new_tokens = 60;
  const auto run = [&](bool drafts, int64_t* steps) {
    SampleRequest request = r;
    if (drafts) request.drafter = std::make_shared<LookupDrafter>();
    const auto job = std::make_shared<SampleJob>(request);
    Engine engine(model_, device_);
    engine.submit(job);
    engine.run();
    *steps = engine.stats().steps;
    return transcript(*job);
  };
  int64_t plain_steps = 0, draft_steps = 0;
  EXPECT_EQ(run(false, &plain_steps), run(true, &draft_steps));
  EXPECT_LE(draft_steps, plain_steps);
}

// With greedy decoding, all drafts of the model itself are accepted, which must save steps; fewer are
// accepted with sampling.
TEST_F(EngineTest, DraftModelSavesStepsAndChangesNothing) {
  for (const double temperature : {0.0, 0.9}) {
    SampleRequest r;
    r.prompt = random_ids(model_.spec(), 20, 5);
    r.max_new_tokens = 40, r.logprobs = 2, r.sampler.temperature = temperature;
    const auto run = [&](bool drafts, EngineStats* stats, int64_t* drafted, int64_t* accepted) {
      SampleRequest request = r;
      if (drafts) request.drafter = std::make_shared<ModelDrafter>(model_, device_);
      const auto job = std::make_shared<SampleJob>(request);
      Engine engine(model_, device_);
      engine.submit(job);
      engine.run();
      *stats = engine.stats(), *drafted = job->drafted_tokens(), *accepted = job->accepted_tokens();
      return transcript(*job);
    };
    EngineStats plain_stats, draft_stats;
    int64_t drafted = 0, accepted = 0;
    const auto expected = run(false, &plain_stats, &drafted, &accepted);
    EXPECT_EQ(run(true, &draft_stats, &drafted, &accepted), expected);
    if (temperature > 0) continue;
    EXPECT_EQ(accepted, drafted);
    EXPECT_LT(draft_stats.steps, plain_stats.steps / 2);
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
  const Tensor expected = ops::log_softmax(ctx, logits(model_, device_, in));
  for (size_t i = 0; i + 1 < ids.size(); ++i)
    ASSERT_EQ(job->scores()[i].chosen, expected.f32()[static_cast<int64_t>(i) * expected.dim(1) + ids[i + 1]])
        << i;
}

}  // namespace
}  // namespace makar
