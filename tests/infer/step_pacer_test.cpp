// Steps of a limited time: how many rows fit, and what logits add.
#include "infer/cpu_seconds.h"
#include "infer/engine_fixture.h"

namespace makar {
namespace {

TEST(StepPacer, FindsTheRowsThatFitATimeLimit) {
  StepPacer pacer;
  const auto rows = [&] { return pacer.rows_within(pacer.budget(512, 0.1), 10000, 10000); };
  EXPECT_EQ(rows(), StepPacer::kFirstRows);
  // A machine that takes 2 ms per row and 10 ms per step.
  const auto seconds = [](int64_t count) { return 0.010 + 0.002 * static_cast<double>(count); };
  for (int i = 0; i < 20; ++i) pacer.computed(rows(), seconds(rows()), 0, 0);
  EXPECT_NEAR(static_cast<double>(rows()), 45, 3);
  pacer.computed(45, 4.5, 0, 0);  // 50 times as slow, all at once
  EXPECT_EQ(rows(), StepPacer::kMinRows);
  for (int i = 0; i < 30; ++i) pacer.computed(rows(), seconds(rows()), 0, 0);
  EXPECT_NEAR(static_cast<double>(rows()), 45, 3);
  pacer.computed(1, 100, 0, 0);  // a step of single tokens does not measure rows of prompts
  EXPECT_NEAR(static_cast<double>(rows()), 45, 3);
}

TEST(StepPacer, CountsTheTimeOfLogits) {
  StepPacer pacer;
  const auto rows = [&](int64_t without_logits) {
    return pacer.rows_within(pacer.budget(512, 0.0955), 10000, without_logits);
  };
  pacer.computed(100, 0.1, 0, 0);  // 1 ms per row
  EXPECT_EQ(rows(10000), 95);
  EXPECT_EQ(rows(0), StepPacer::kFirstRows) << "logits are not measured yet";
  pacer.computed(100, 0.1, 10, 0.09);  // 9 ms for the logits per row
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

// A vocabulary whose logits cost many times as much as the layers. After prompts, whose rows need no logits,
// a text to score must not get as many rows per step: a concurrent stream would stall. Another process may
// disturb a measurement, but not the best of several.
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
  const auto longest_share = [&] {  // of the time of the whole score
    Engine unpaced(model, device);
    unpaced.submit(score());
    const double start = cpu_seconds();
    unpaced.run();
    const double total_seconds = cpu_seconds() - start;  // in one step

    EngineOptions o;
    o.decode_step_seconds = o.prompt_step_seconds = total_seconds / 20;
    Engine engine(model, device, o);
    for (int i = 0; i < 5; ++i) {
      engine.submit(sample(random_ids(spec, 180, static_cast<uint64_t>(10 + i)), 1));
      engine.run();
    }
    engine.submit(sample({4, 9, 6}, 200));
    for (int i = 0; i < 5; ++i) engine.step();
    const auto score_job = score();
    engine.submit(score_job);
    double longest_step = 0;
    while (!score_job->done()) {
      const double before = cpu_seconds();
      engine.step();
      longest_step = std::max(longest_step, cpu_seconds() - before);
    }
    return longest_step / total_seconds;
  };
  double share = longest_share();
  for (int i = 0; i < 4 && share >= 1.0 / 3; ++i) share = std::min(share, longest_share());
  EXPECT_LT(share, 1.0 / 3);
}

}  // namespace
}  // namespace makar
