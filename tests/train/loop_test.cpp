// The loop on a tiny model: steps that are not finite, rollback, early stopping, averaged weights,
// checkpoints.
#include "train/loop.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "kernels/cpu_device.h"
#include "ops/elementwise.h"
#include "ops/shape.h"
#include "scratch_folder.h"
#include "train/background_save.h"
#include "train/lr_find.h"
#include "train/run_folder.h"
#include "train/shapes.h"

namespace makar {
namespace {

LoadedModel tiny() {
  ShapeOptions o;
  o.layers = 1, o.width = 8, o.heads = 2, o.context = 16, o.vocab = 11;
  auto loaded = make_model(Config(*shape_config(o), "test"));
  initialize(*loaded->model, 3);
  return std::move(*loaded);
}

// Next tokens of a fixed text; some micro-batches give a loss that is not finite.
class TestTask : public Task {
 public:
  explicit TestTask(Model& model) : model_(model) {}
  Result<MicroBatch> train_batch(uint64_t index) override {
    indices.push_back(index);
    MicroBatch b;
    b.weight = b.tokens = 5;
    b.loss = [this, index](ForwardContext& f) -> Result<Tensor> {
      Inputs inputs;
      inputs.source.add({1, 2, 3, 4, static_cast<int64_t>(index % 7)});
      Tensor loss = model_.lm_loss(f.ops, model_.hidden(f, inputs), std::vector<int64_t>{2, 3, 4, 5, 6});
      return bad(index) ? ops::scale(f.ops, loss, INFINITY) : loss;
    };
    return b;
  }
  uint64_t batches_per_epoch() const override { return 10; }
  uint64_t validation_batches() const override { return validation; }
  Result<MicroBatch> validation_batch(uint64_t) override { return train_batch(0); }
  Result<Metrics> metrics(Device&) override { return Metrics{{"figure", -static_cast<double>(figures++)}}; }
  std::string watched() const override { return "figure"; }

  std::function<bool(uint64_t)> bad = [](uint64_t) { return false; };
  uint64_t validation = 0;
  int figures = 0;
  std::vector<uint64_t> indices;

 private:
  Model& model_;
};

struct TinyRun {
  ScratchFolder folder;
  LoadedModel loaded = tiny();
  TestTask task{*loaded.model};
  LoopSettings settings;
  std::vector<std::string> messages;
  TinyRun() {
    settings.output_dir = folder / "run";
    settings.learning_rate = 1e-3, settings.lr_scheduler = "constant", settings.max_steps = 12;
  }
  Result<LoopResult> go(int threads = 1) {
    CpuDevice device(threads);
    LoopEvents events;
    events.say = [&](const std::string& text) { messages.push_back(text); };
    return run_loop({*loaded.model, task, settings, device, events, nullptr, Json::object()});
  }
  std::vector<float> weights() const {
    std::vector<float> out;
    for (const auto& p : loaded.model->parameters().all())
      if (!p->buffer) out.insert(out.end(), p->value.f32(), p->value.f32() + p->value.count());
    return out;
  }
};

TEST(Loop, NonFiniteStepsAreSkippedAndReported) {
  TinyRun r;
  r.task.bad = [](uint64_t i) { return i == 4; };
  const auto result = r.go();
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_EQ(result->bad_steps, 1);
  ASSERT_EQ(r.messages.size(), 1u);
  EXPECT_NE(r.messages[0].find("step 5"), std::string::npos);
  for (const float w : r.weights()) ASSERT_TRUE(std::isfinite(w));
}

TEST(Loop, ThreeNonFiniteStepsRollBackAndSkipTheData) {
  TinyRun r;
  r.settings.save_steps = 4;
  r.task.bad = [](uint64_t i) { return i >= 6 && i <= 8; };
  const auto result = r.go();
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_EQ(result->steps, 12);
  EXPECT_EQ(result->bad_steps, 3);
  // Steps 5 to 9 used data 4 to 8; after the rollback to step 4 the data continues with 9.
  EXPECT_EQ(r.task.indices,
            (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
  TinyRun no_checkpoint;
  no_checkpoint.task.bad = [](uint64_t) { return true; };
  EXPECT_FALSE(no_checkpoint.go().ok());  // no checkpoint to roll back to
  TinyRun never_recovers;
  never_recovers.settings.save_steps = 2;
  never_recovers.task.bad = [](uint64_t i) { return i >= 4; };
  const auto failed = never_recovers.go();
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().text().find("lower learning_rate"), std::string::npos);
}

// A model that no step has changed is not a result, however short the run is.
TEST(Loop, ARunInWhichNoStepWasAppliedFails) {
  for (const int64_t steps : {1, 2}) {
    TinyRun r;
    r.settings.max_steps = steps, r.settings.save_steps = 1;
    r.task.bad = [](uint64_t) { return true; };
    const auto result = r.go();
    ASSERT_FALSE(result.ok()) << steps;
    EXPECT_NE(result.error().text().find("lower learning_rate"), std::string::npos);
    EXPECT_TRUE(checkpoints(r.settings.output_dir).empty());
  }
  TinyRun last_only;  // one good step, then a resumed run with a bad one
  last_only.settings.max_steps = 2, last_only.settings.save_steps = 1;
  last_only.task.bad = [](uint64_t i) { return i == 1; };
  ASSERT_TRUE(last_only.go().ok());
  TinyRun resumed;
  resumed.settings = last_only.settings;
  resumed.task.bad = last_only.task.bad;
  const auto result = resumed.go();
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_EQ(result->bad_steps, 1);
}

TEST(Loop, AccumulatedMicroBatchesAreOneStep) {
  TinyRun r;
  r.settings.gradient_accumulation_steps = 3, r.settings.max_steps = 2;
  ASSERT_TRUE(r.go().ok());
  EXPECT_EQ(r.task.indices, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(Loop, StopsEarly) {
  TinyRun r;
  r.task.validation = 1;
  r.settings.eval_steps = 1, r.settings.early_stopping_patience = 2;
  const auto result = r.go();
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->stopped_early);
  EXPECT_EQ(result->steps, 3);
}

TEST(Loop, AveragingChangesTheFinalWeights) {
  TinyRun plain, averaged;
  averaged.settings.ema = 0.5;
  ASSERT_TRUE(plain.go().ok());
  ASSERT_TRUE(averaged.go().ok());
  EXPECT_NE(plain.weights(), averaged.weights());
}

TEST(Loop, TheNewestCheckpointsAreKeptAndThreadsDoNotMatter) {
  TinyRun one, two;
  one.settings.save_steps = two.settings.save_steps = 3, one.settings.save_total_limit = 2;
  ASSERT_TRUE(one.go(1).ok());
  ASSERT_TRUE(two.go(2).ok());
  EXPECT_EQ(one.weights(), two.weights());
  const auto remaining = checkpoints(one.settings.output_dir);
  ASSERT_EQ(remaining.size(), 2u);
  EXPECT_TRUE(remaining[0].ends_with("checkpoint-12"));
}

// Muon's parameters have a momentum buffer, AdamW's two moments.
TEST(Loop, MuonStepsHiddenMatricesOnly) {
  for (const char* type : {"gpt2", "llama", "bert", "t5", "bart"}) {
    ShapeOptions o;
    o.type = type, o.layers = 1, o.width = 8, o.heads = 2, o.context = 16, o.vocab = 11, o.tied = false;
    auto loaded = make_model(Config(*shape_config(o), "test"));
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    initialize(*loaded->model, 3);
    LoopSettings settings;
    settings.optimizer = "muon";
    auto optimizer = Optimizer::make(loaded->model->parameters(), optimizer_of(settings, *loaded->model));
    ASSERT_TRUE(optimizer.ok());
    for (const auto& p : loaded->model->parameters().all())
      if (p->trainable && !p->buffer) p->grad = Tensor::full(p->shape, 0.5f);
    CpuDevice device(1);
    optimizer->step(device, 1e-3);
    std::set<std::string> muon;
    for (const auto& [name, tensor] : optimizer->state())
      if (name.ends_with(".momentum_buffer")) muon.insert(name.substr(0, name.size() - 16));
    EXPECT_FALSE(muon.empty()) << type;
    for (const auto& p : loaded->model->parameters().all()) {
      const std::string& n = p->name;
      const bool outer = n.find(".embed.") != n.npos || n.find("relative") != n.npos ||
                         n.starts_with("head.lm") || p->shape.rank() != 2 || p->buffer;
      EXPECT_EQ(muon.contains(n), !outer) << type << ": " << n;
    }
  }
}

// The inode of a checkpoint's state file: a rewritten file has another one.
ino_t state_inode(const TinyRun& r, int64_t step) {
  struct stat info {};
  EXPECT_EQ(
      ::stat(fmt::format("{}/checkpoint-{}/state.safetensors", r.settings.output_dir, step).c_str(), &info),
      0);
  return info.st_ino;
}

TEST(Loop, ACompleteCheckpointIsNeverWrittenAgain) {
  TinyRun r;
  r.settings.save_steps = 4, r.settings.save_total_limit = 1;
  ASSERT_TRUE(r.go().ok());
  const ino_t before = state_inode(r, 12);
  CpuDevice device(1);
  std::atomic<bool> stop{true};  // stops before the first step, at the saved step
  TinyRun resumed;
  resumed.settings = r.settings;
  resumed.settings.save_in_background = true;
  for (int i = 0; i < 2; ++i) {
    const auto result =
        run_loop({*resumed.loaded.model, resumed.task, resumed.settings, device, {}, &stop, Json::object()});
    ASSERT_TRUE(result.ok()) << result.error().text();
    EXPECT_EQ(result->steps, 12);
  }
  EXPECT_EQ(state_inode(r, 12), before);
  const auto optimizers = Optimizers::make(*r.loaded.model, r.settings);
  RunState state;
  state.step = 12;
  ASSERT_TRUE(
      save_checkpoint(r.settings.output_dir, take_snapshot(state, *r.loaded.model, *optimizers, {}, false), 1)
          .ok());
  EXPECT_EQ(state_inode(r, 12), before);
}

TEST(Loop, ADamagedCheckpointNeverReplacesValidOnes) {
  TinyRun r;
  r.settings.save_steps = 4, r.settings.save_total_limit = 9;
  ASSERT_TRUE(r.go().ok());
  ASSERT_TRUE(write_file(r.settings.output_dir + "/checkpoint-12/state.safetensors", "cut short").ok());
  std::filesystem::remove(r.settings.output_dir + "/run.json");
  TinyRun resumed;
  resumed.settings = r.settings;
  resumed.settings.save_steps = 1, resumed.settings.save_total_limit = 1;
  std::atomic<bool> stop{false};
  CpuDevice device(1);
  LoopEvents events;
  events.step = [&](const StepInfo& i) { stop = i.step == 10; };
  events.say = [&](const std::string& text) { resumed.messages.push_back(text); };
  const auto result = run_loop(
      {*resumed.loaded.model, resumed.task, resumed.settings, device, events, &stop, Json::object()});
  ASSERT_TRUE(result.ok()) << result.error().text();
  ASSERT_EQ(resumed.messages.size(), 2u);
  EXPECT_NE(resumed.messages[0].find("checksum"), std::string::npos);
  EXPECT_TRUE(is_file(r.settings.output_dir + "/checkpoint-10/complete.json"));
  // The run continues from there and replaces the damaged one.
  TinyRun last;
  last.settings = resumed.settings;
  const auto end = last.go();
  ASSERT_TRUE(end.ok()) << end.error().text();
  EXPECT_EQ(last.weights(), r.weights());
  const auto remaining = checkpoints(r.settings.output_dir);
  ASSERT_EQ(remaining.size(), 1u);
  EXPECT_TRUE(remaining[0].ends_with("checkpoint-12"));
}

TEST(Loop, AFinishedRunIsReplacedOnlyWithOverwrite) {
  TinyRun r;
  ASSERT_TRUE(r.go().ok());
  const std::string run = r.settings.output_dir + "/run.json";
  auto json = read_json(run);  // as finish_run leaves it
  ASSERT_TRUE(json.ok());
  EXPECT_FALSE((*json)["finished"].get<bool>());
  (*json)["finished"] = true;
  ASSERT_TRUE(write_file(run, json->dump()).ok());
  ASSERT_TRUE(write_file(r.settings.output_dir + "/model.safetensors", "weights").ok());
  const auto same = r.go();
  ASSERT_TRUE(same.ok());
  EXPECT_TRUE(same->finished_before);
  r.settings.learning_rate = 2e-3, r.settings.max_steps = 13;
  const auto other = r.go();
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().text().find("learning_rate was 0.001, now 0.002; max_steps was 12, now 13"),
            std::string::npos)
      << other.error().text();
  r.settings.overwrite = true;
  const auto replaced = r.go();
  ASSERT_TRUE(replaced.ok()) << replaced.error().text();
  EXPECT_EQ(replaced->steps, 13);
  TinyRun foreign;  // a model that no run wrote
  ASSERT_TRUE(make_folder(foreign.settings.output_dir).ok());
  ASSERT_TRUE(write_file(foreign.settings.output_dir + "/model.safetensors", "weights").ok());
  const auto refused = foreign.go();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text().find("--overwrite"), std::string::npos);
}

std::string bytes_of_file(const std::string& path) {
  const auto bytes = read_file(path);
  return bytes.ok() ? *bytes : "cannot read " + path;
}

TEST(Loop, CheckpointsWrittenInTheBackgroundAreTheSameBytes) {
  TinyRun plain, background;
  for (TinyRun* r : {&plain, &background})
    r->settings.save_steps = 2, r->settings.save_total_limit = 9, r->settings.ema = 0.9;
  background.settings.save_in_background = true;
  ASSERT_TRUE(plain.go().ok());
  ASSERT_TRUE(background.go().ok());
  EXPECT_EQ(plain.weights(), background.weights());
  for (int step = 2; step <= 12; step += 2)
    for (const char* file : {"state.safetensors", "trainer_state.json", "complete.json"}) {
      const std::string at = fmt::format("/checkpoint-{}/{}", step, file);
      EXPECT_EQ(bytes_of_file(plain.settings.output_dir + at),
                bytes_of_file(background.settings.output_dir + at))
          << at;
    }
  // A run saved this way resumes like any other.
  TinyRun resumed;
  resumed.settings.output_dir = background.settings.output_dir;
  resumed.settings.ema = 0.9;
  std::filesystem::remove_all(background.settings.output_dir + "/checkpoint-12");
  ASSERT_TRUE(resumed.go().ok());
  EXPECT_EQ(resumed.weights(), plain.weights());
}

TEST(Loop, BackgroundErrorsAreReported) {
  BackgroundSave save;
  std::promise<void> go;
  std::shared_future<void> allowed(go.get_future());
  const auto failing = [allowed]() -> Status {
    allowed.wait();
    return error_at("disk", "full");
  };
  EXPECT_TRUE(save.poll().ok());
  ASSERT_TRUE(save.start(failing).ok());
  EXPECT_TRUE(save.poll().ok()) << "it is still being written";
  go.set_value();
  EXPECT_FALSE(save.wait().ok());
  EXPECT_TRUE(save.wait().ok()) << "an error is reported once";
  ASSERT_TRUE(save.start(failing).ok());
  EXPECT_FALSE(save.start([]() -> Status { return Done{}; }).ok())
      << "the next save reports the error of the one before";
}

TEST(Loop, TheRateIsWhereTheLossFallsFastest) {
  RateSearchResult result;
  for (int i = 0; i < 60; ++i) {  // flat, down around 1e-3, up from 1e-2
    const double x = -6 + 0.1 * i;
    result.rates.push_back(std::pow(10, x));
    result.smoothed.push_back(3 - std::tanh(2 * (x + 3)) + std::max(0.0, 4 * (x + 2)));
  }
  ASSERT_TRUE(choose_rate(result).ok());
  EXPECT_NEAR(std::log10(result.steepest), -3, 0.15);
  EXPECT_NEAR(std::log10(result.lowest), -2, 0.15);
  for (double& y : result.smoothed) y = 1;
  EXPECT_FALSE(choose_rate(result).ok());
}

TEST(Loop, SearchingARateWritesNoFiles) {
  TinyRun r;
  CpuDevice device(1);
  const Loop loop{*r.loaded.model, r.task, r.settings, device, {}, nullptr, Json::object()};
  const auto result = find_rate(loop, {40, 1e-6, 10.0});
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_GT(result->steepest, 1e-6);
  EXPECT_LT(result->steepest, 1.0);
  EXPECT_FALSE(path_exists(r.settings.output_dir));
  EXPECT_FALSE(find_rate(loop, {3}).ok());
}

TEST(Loop, ADecayLongerThanTheRunIsRejected) {
  TinyRun r;
  r.settings.lr_scheduler = "warmup_stable_decay", r.settings.warmup_steps = 4, r.settings.decay_steps = 9;
  EXPECT_FALSE(r.go().ok());
  r.settings.decay_steps = 8;
  EXPECT_TRUE(r.go().ok());
}

TEST(Loop, BadSettingsAreNamed) {
  LoopSettings s;
  s.learning_rate = NAN;
  EXPECT_NE(check_loop(s).error().text().find("learning_rate"), std::string::npos);
  s = {};
  s.lr_scheduler = "cosin";
  EXPECT_FALSE(check_loop(s).ok());
  s = {};
  s.micro_batch_size = 0;
  EXPECT_FALSE(check_loop(s).ok());
}

TEST(TensorBoard, ChecksumIsCrc32cAndScalarsAreWritten) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  ScratchFolder f;
  auto file = EventFile::create(f.path());
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->scalar("train/loss", 3, 1.5).ok());
}

}  // namespace
}  // namespace makar
