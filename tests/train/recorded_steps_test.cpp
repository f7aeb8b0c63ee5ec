// Training with recorded steps gives the bytes of training without: on the CPU, the fence device and a GPU if
// there is one, in f32 and bf16.
#include "train/recorded_steps.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/file.h"
#include "scratch_folder.h"
#include "train/causal.h"
#include "train/loop.h"
#include "train/shapes.h"

namespace makar {
namespace {

constexpr int64_t kVocab = 23, kContext = 12, kBatch = 2;

TokenSource one_document(int64_t tokens) {
  std::vector<uint32_t> ids(static_cast<size_t>(tokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint32_t>(i * i * 7 + i / 5) % kVocab;
  return {"text", TokenStore::from_memory({ids}), 1};
}

// Micro-batches of one length, except some that are shorter.
class LengthsTask : public Task {
 public:
  explicit LengthsTask(Model& model)
      : long_(task(model, kContext)), short_(task(model, kContext / 2)), validation_(task(model, kContext)) {}
  Result<MicroBatch> train_batch(uint64_t index) override {
    return (is_short && is_short(index) ? short_ : long_).train_batch(index);
  }
  uint64_t batches_per_epoch() const override { return 100; }
  bool trains_next_tokens() const override { return next_tokens; }
  uint64_t validation_batches() const override { return 1; }
  Result<MicroBatch> validation_batch(uint64_t) override { return validation_.train_batch(0); }

  std::function<bool(uint64_t)> is_short;
  bool next_tokens = true;

 private:
  static CausalTask task(Model& model, int64_t context) {
    CausalOptions o;
    o.context = context, o.batch = kBatch, o.seed = 5;
    return CausalTask(model, {one_document(900)}, {}, o);
  }
  CausalTask long_, short_, validation_;
};

struct Trained {
  std::vector<double> losses, norms, rates;
  std::vector<bool> recorded;
  std::string state;  // bytes of the checkpoint: weights and moments
};

using Case = std::tuple<std::string, std::string, bool>;
class RecordedStepsTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto opened = open_device(std::get<0>(GetParam()), 2);
    if (!opened.ok()) GTEST_SKIP() << opened.error().text();
    device_ = std::move(*opened);
    settings_.learning_rate = 1e-2, settings_.lr_scheduler = "linear", settings_.warmup_steps = 3;
    settings_.weight_decay = 0.1, settings_.max_grad_norm = 0.5,
    settings_.max_steps = settings_.save_steps = 8;
    settings_.bf16 = std::get<2>(GetParam());
    folder_number_ = 0;
  }

  LoadedModel model() const {
    ShapeOptions o = shape_;
    o.type = std::get<1>(GetParam());
    o.layers = 2, o.width = 32, o.heads = 2, o.context = kContext, o.vocab = kVocab;
    auto loaded = make_model(Config(*shape_config(o), "test"));
    initialize(*loaded->model, 3);
    return std::move(*loaded);
  }

  // `stop`: the run is interrupted after this step and resumed.
  Trained train(std::optional<bool> record, int64_t stop = 0) {
    Trained out;
    settings_.output_dir = folder_ / fmt::format("run-{}", folder_number_++);
    for (int part = 0; part < (stop > 0 ? 2 : 1); ++part) {
      LoadedModel loaded = model();
      LengthsTask task(*loaded.model);
      task.is_short = is_short_, task.next_tokens = next_tokens_;
      std::atomic<bool> interrupted{false};
      LoopEvents events;
      events.step = [&](const StepInfo& i) {
        out.losses.push_back(i.loss), out.norms.push_back(i.norm), out.rates.push_back(i.lr);
        out.recorded.push_back(i.recorded);
        interrupted = i.step == stop;
      };
      const Loop loop{*loaded.model, task,           settings_, *device_, events,
                      &interrupted,  Json::object(), nullptr,   record};
      const auto result = run_loop(loop);
      EXPECT_TRUE(result.ok()) << result.error().text();
    }
    const auto bytes = read_file(checkpoints(settings_.output_dir).front() + "/state.safetensors");
    EXPECT_TRUE(bytes.ok());
    out.state = *bytes;
    return out;
  }

  // Trains with and without recorded steps; returns which steps were recorded.
  std::vector<bool> compare(int64_t stop = 0) {
    const Trained without = train(false), with = train(true, stop);
    EXPECT_EQ(with.losses, without.losses);
    EXPECT_EQ(with.norms, without.norms);
    EXPECT_TRUE(with.state == without.state) << "the checkpoints differ";
    EXPECT_EQ(without.recorded, std::vector<bool>(8, false));
    EXPECT_GT(std::abs(with.rates[4] - with.rates[5]), 1e-4);
    return with.recorded;
  }

  ScratchFolder folder_;
  int folder_number_ = 0;
  std::unique_ptr<Device> device_;
  LoopSettings settings_;
  ShapeOptions shape_;
  std::function<bool(uint64_t)> is_short_;
  bool next_tokens_ = true;
};
INSTANTIATE_TEST_SUITE_P(Devices, RecordedStepsTest,
                         testing::Combine(testing::Values("cpu", "fence", "cuda"),
                                          testing::Values("gpt2", "llama"), testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param) +
                                  (std::get<2>(info.param) ? "_bf16" : "_f32");
                         });

TEST_P(RecordedStepsTest, TheThirdStepOfAShapeIsRecorded) {
  EXPECT_EQ(compare(), (std::vector<bool>{false, false, true, true, true, true, true, true}));
}

TEST_P(RecordedStepsTest, AStepIsAllOfItsMicroBatches) {
  settings_.gradient_accumulation_steps = 3;
  is_short_ = [](uint64_t i) { return i % 3 == 1; };
  EXPECT_EQ(compare(), (std::vector<bool>{false, false, true, true, true, true, true, true}));
}

TEST_P(RecordedStepsTest, TheDeviceDecidesWhetherStepsAreRecorded) {
  EXPECT_EQ(train({}).recorded.back(), device_->records_work());
}

// A recording that another shape ended lets the next one wait for four steps instead of two.
TEST_P(RecordedStepsTest, OtherShapesAreNotRecorded) {
  settings_.gradient_checkpointing = true;
  is_short_ = [](uint64_t i) { return i >= 3; };
  EXPECT_EQ(compare(), (std::vector<bool>{false, false, true, false, false, false, false, true}));
}

TEST_P(RecordedStepsTest, ValidationFreesTheRecordingAndAResumedRunRecordsAgain) {
  settings_.eval_steps = 3;
  EXPECT_EQ(compare(4), (std::vector<bool>{false, false, true, true, false, false, true, true}));
}

TEST_P(RecordedStepsTest, StepsThatDrawRandomNumbersAreNotRecorded) {
  if (std::get<1>(GetParam()) != "gpt2") GTEST_SKIP() << "the family has no dropout";
  if (device_->name() != "cpu") GTEST_SKIP() << "the rule is the same on all devices";
  shape_.dropout = 0.1;
  EXPECT_EQ(compare(), std::vector<bool>(8, false));
  settings_.no_dropout = true;
  EXPECT_TRUE(compare().back());
}

TEST_P(RecordedStepsTest, OtherTasksAndOptimizersAreNotRecorded) {
  if (device_->name() != "cpu") GTEST_SKIP() << "the rule is the same on all devices";
  next_tokens_ = false;
  EXPECT_EQ(compare(), std::vector<bool>(8, false));
  next_tokens_ = true, settings_.optimizer = "muon";
  EXPECT_EQ(compare(), std::vector<bool>(8, false));
}

// The recorded part of a step depends on its own tokens and on the weights at that time.
TEST_P(RecordedStepsTest, ARecordedStepReadsItsTokensAndTheWeights) {
  LoadedModel loaded = model();
  loaded.model->parameters().to(device_->memory());
  LengthsTask task(*loaded.model);
  const Loop loop{*loaded.model, task, settings_, *device_, {}, nullptr, Json::object(), nullptr, true};
  RecordedSteps recorded;
  std::vector<double> norms;
  for (uint64_t step = 0; step < 5; ++step) {
    norms.push_back(step_gradients(loop, step, &recorded)->norm);
    EXPECT_EQ(norms.back(), step_gradients(loop, step)->norm);
    for (size_t i = 0; i + 1 < norms.size(); ++i) EXPECT_NE(norms[i], norms.back());
  }
  EXPECT_TRUE(recorded.is_recorded());
  const Parameter& p = *loaded.model->parameters().all().front();
  device_->scale({f32_on(*device_, p.value), f32_on(*device_, p.value), p.value.count(), 2.0f, false});
  const double changed = step_gradients(loop, 4, &recorded)->norm;
  EXPECT_TRUE(recorded.is_recorded());
  EXPECT_NE(changed, norms.back());
  EXPECT_EQ(changed, step_gradients(loop, 4)->norm);
}

}  // namespace
}  // namespace makar
