// Preference optimisation: the golden DPO fixture through the task, forms of records, tokens of answers, and
// rewards.
#include "train/dpo.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/preference_record.h"
#include "formats/safetensors.h"
#include "kernels/cpu_device.h"
#include "models/adapter.h"
#include "scratch_folder.h"
#include "train/loop.h"

namespace makar {
namespace {

std::string golden_folder() {
  const char* folder = std::getenv("MAKAR_GOLDEN");
  return folder ? folder : MAKAR_TEST_GOLDEN;
}

// The pairs of preference/dpo.safetensors, both as training and as validation data.
AnswerPairs golden_pairs(const std::string& scratch) {
  const auto file = Safetensors::open(golden_folder() + "/preference/dpo.safetensors");
  check(file.ok(), "the fixture opens");
  const Tensor chosen = *(*file)->tensor("chosen"), rejected = *(*file)->tensor("rejected"),
               mask = *(*file)->tensor("mask");
  AnswerPairs out(scratch);
  const int64_t time = chosen.dim(1);
  for (int64_t i = 0; i < chosen.dim(0); ++i) {
    AnswerPair pair;
    for (int64_t t = i * time; t < (i + 1) * time; ++t) {
      pair.chosen.push_back(chosen.i64()[t]), pair.rejected.push_back(rejected.i64()[t]);
      pair.chosen_mask.push_back(mask.f32()[t] != 0), pair.rejected_mask.push_back(mask.f32()[t] != 0);
    }
    check(out.train.add(pair).ok() && out.validation.add(pair).ok(), "the pair is stored");
  }
  return out;
}

struct Golden {
  ScratchFolder scratch;
  CpuDevice device{2};
  Json figures = *read_json(golden_folder() + "/preference/dpo.json");
  LoadedModel policy = *load_model(golden_folder() + "/models/dpo-policy", {true});
  LoadedModel reference = *load_model(golden_folder() + "/models/dpo-reference");

  DpoTask task(const DpoOptions& options, const Model& frozen, int64_t batch = 3) {
    DpoTask out(*policy.model, golden_pairs(scratch.path()), options, batch, 1);
    Json identity;
    const Status scored = out.score_reference(Reference(frozen), device, identity);
    check(scored.ok() && identity.contains("reference"), "the reference is scored");
    return out;
  }
  double loss(Task& task) {
    LoopSettings settings;
    const Loop loop{*policy.model, task, settings, device, {}, nullptr, {}};
    return step_gradients(loop, 0)->loss;
  }
};

TEST(Dpo, TheTaskMatchesTheGoldenFixture) {
  Golden g;
  for (const auto& [loss, smoothing, key] :
       {std::tuple(PreferenceLoss::kSigmoid, 0.0f, "loss"),
        std::tuple(PreferenceLoss::kSigmoid, 0.1f, "label_smoothing_0.1_loss"),
        std::tuple(PreferenceLoss::kIpo, 0.0f, "ipo_loss")}) {
    DpoTask task = g.task({loss, 0.1f, smoothing}, *g.reference.model);
    const double expected = g.figures[key];
    EXPECT_NEAR(g.loss(task), expected, 1e-5 * std::max(1.0, expected)) << key;
    const Metrics step = task.step_metrics(), held_out = *validate(task, g.device);
    double chosen = 0, correct = 0;
    for (size_t i = 0; i < 3; ++i) {
      const auto at = [&](const char* name) { return g.figures[name][i].get<double>(); };
      const double a = at("policy_chosen_logps") - at("ref_chosen_logps");
      const double b = at("policy_rejected_logps") - at("ref_rejected_logps");
      chosen += 0.1 * a / 3, correct += a > b ? 1.0 / 3 : 0;
    }
    EXPECT_NEAR(step.at("rewards/chosen"), chosen, 1e-5);
    EXPECT_NEAR(step.at("rewards/accuracies"), correct, 1e-12);
    EXPECT_NEAR(held_out.at("loss"), expected, 1e-5 * std::max(1.0, expected)) << key;
    EXPECT_NEAR(held_out.at("rewards/margins"), step.at("rewards/margins"), 1e-9);
  }
}

// The gradient of the golden loss reaches the model: its norm from the fixture's tensors.
TEST(Dpo, GradientsMatchTheGoldenFixture) {
  Golden g;
  DpoTask task = g.task({}, *g.reference.model);
  g.loss(task);
  double expected = 0;
  for (const auto& item : g.figures["grads"].items())
    expected += std::pow(item.value()["l2"].get<double>(), 2);
  const double norm = TrainedModels(*g.policy.model).gradient_norm(g.device);
  EXPECT_NEAR(norm, std::sqrt(expected), 1e-4 * norm);
}

// The model before training is its own reference: all rewards are exactly 0, in batches of any size, and an
// adapter that was just added changes nothing.
TEST(Dpo, TheInitialModelHasNoMargin) {
  for (const bool adapter : {false, true}) {
    Golden g;
    if (adapter) {
      AdapterConfig config;
      config.targets = {"all-linear"};
      ASSERT_TRUE(add_adapter(g.policy, config, g.device, 1).ok());
    }
    for (const int64_t batch : {1, 2, 3}) {
      DpoTask task = g.task({}, *g.policy.model, batch);
      EXPECT_NEAR(g.loss(task), std::log(2.0), 1e-6);
      const Metrics rewards = *task.metrics(g.device);
      EXPECT_EQ(rewards.at("rewards/chosen"), 0.0);
      EXPECT_EQ(rewards.at("rewards/rejected"), 0.0);
      EXPECT_EQ(rewards.at("rewards/accuracies"), 0.0);
      if (!adapter) continue;
      DpoTask adapter_off(*g.policy.model, golden_pairs(g.scratch.path()), {}, batch, 1);
      Json identity;
      ASSERT_TRUE(
          adapter_off.score_reference(*Reference::without_adapter(*g.policy.model), g.device, identity).ok());
      EXPECT_EQ(adapter_off.metrics(g.device)->at("rewards/margins"), 0.0);
    }
  }
}

TEST(Dpo, SimPoComparesMeansPerToken) {
  Golden g;
  DpoTask task(*g.policy.model, golden_pairs(g.scratch.path()), {PreferenceLoss::kSimPo, 2.0f, 0, 0.5f}, 3,
               1);
  double expected = 0;
  for (size_t i = 0; i < 3; ++i) {
    double length = 0;
    const AnswerPair p = *golden_pairs(g.scratch.path()).train.read(i);
    for (size_t t = 1; t < p.chosen.size(); ++t) length += p.chosen_mask[t];
    const double margin = (g.figures["policy_chosen_logps"][i].get<double>() -
                           g.figures["policy_rejected_logps"][i].get<double>()) /
                          length;
    expected += std::log1p(std::exp(-(2 * margin - 0.5))) / 3;
  }
  EXPECT_NEAR(g.loss(task), expected, 1e-5);
}

Json message(const char* role, const char* text) { return {{"role", role}, {"content", text}}; }

TEST(PreferenceRecord, ReadsAllForms) {
  const Json user = message("user", "Why?"), good = message("assistant", "So."),
             bad = message("assistant", "No.");
  const Json forms = {
      {{"prompt", "Why?"}, {"chosen", "So."}, {"rejected", "No."}},
      {{"prompt", {user}}, {"chosen", {good}}, {"rejected", {bad}}},
      {{"prompt", "Why?"}, {"chosen", {user, good}}, {"rejected", {user, bad}}},
      {{"chosen", {user, good}}, {"rejected", {user, bad}}},
      {{"conversations", {{{"from", "human"}, {"value", "Why?"}}}},
       {"chosen", {{"from", "gpt"}, {"value", "So."}}},
       {"rejected", {{"from", "gpt"}, {"value", "No."}}}},
      {{"instruction", "Why?"}, {"input", ""}, {"output", "So."}, {"chosen", "So."}, {"rejected", "No."}},
      {{"chosen", "\n\nHuman: Why?\n\nAssistant: So."}, {"rejected", "\n\nHuman: Why?\n\nAssistant: No."}},
      {{"prompt", "\n\nHuman: Why?\n\nAssistant:"}, {"chosen", "So."}, {"rejected", "No."}}};
  for (const Json& form : forms) {
    const auto record = to_preference(form);
    ASSERT_TRUE(record.ok()) << form << record.error().text();
    EXPECT_EQ(record->prompt, Json::array({user})) << form;
    EXPECT_EQ(record->chosen, Json::array({good})) << form;
    EXPECT_EQ(record->rejected, Json::array({bad})) << form;
  }
}

TEST(PreferenceRecord, RefusesRecordsWithoutAPair) {
  const std::pair<Json, const char*> records[] = {
      {{{"prompt", "Why?"}, {"chosen", "So."}}, "'rejected' is missing"},
      {{{"prompt", "Why?"}, {"chosen", "So."}, {"rejected", "So."}}, "are the same"},
      {{{"prompt", "Why?"}, {"chosen", " "}, {"rejected", "So."}}, "'chosen' is empty"},
      {{{"prompt", 3}, {"chosen", "So."}, {"rejected", "No."}}, "'prompt' must be a list of turns"},
      {{{"prompt", "Why?"}, {"chosen", {1}}, {"rejected", "No."}}, "turn 0 of 'chosen'"},
      {{{"chosen", "So."}, {"rejected", "No."}}, "there is no prompt"},
      {{{"prompt", "Why?"}, {"chosen", {message("user", "So.")}}, {"rejected", "No."}},
       "not the assistant's"}};
  for (const auto& [record, part] : records) {
    const auto result = to_preference(record);
    ASSERT_FALSE(result.ok()) << record;
    EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  }
}

}  // namespace
}  // namespace makar
