// Reinforcement learning: closed forms of advantages and token weights, the losses of KTO and ORPO, reward
// rules, and GRPO on a tiny model: the reward rises, sampler and trainer agree in every bit, and a run
// resumes in the middle of a buffer.
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "kernels/cpu_device.h"
#include "scratch_folder.h"
#include "train/grpo.h"
#include "train/loop.h"
#include "train/ppo.h"
#include "train/run_folder.h"
#include "train/shapes.h"

namespace makar {
namespace {

Tensor vector_of(const std::vector<float>& v) {
  return Tensor::from({static_cast<int64_t>(v.size())}, std::span<const float>(v));
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Policy, AdvantagesFollowTheirScale) {
  const Tensor rewards = vector_of({1, 0, 0, 1, 2, 2, 2, 5});
  const Tensor group = group_advantages(rewards, 4),
               none = group_advantages(rewards, 4, AdvantageScale::kNone),
               batch = group_advantages(rewards, 4, AdvantageScale::kBatch);
  const double batch_deviation = std::sqrt((3 * std::pow(2 - 1.625, 2) + 2 * std::pow(1 - 1.625, 2) +
                                            2 * std::pow(1.625, 2) + std::pow(5 - 1.625, 2)) /
                                           7);
  const double first[] = {0.5, -0.5, -0.5, 0.5}, second[] = {-0.75, -0.75, -0.75, 2.25};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(group.f32()[i], first[i] / (std::sqrt(1.0 / 3) + 1e-4), 1e-6);
    EXPECT_NEAR(none.f32()[i], first[i], 1e-7);
    EXPECT_NEAR(none.f32()[4 + i], second[i], 1e-7);
    EXPECT_NEAR(group.f32()[4 + i], second[i] / (1.5 + 1e-4), 1e-6);
    EXPECT_NEAR(batch.f32()[4 + i], second[i] / (batch_deviation + 1e-4), 1e-6);
  }
}

TEST(Policy, TokenWeightsFollowTheirMean) {
  PolicySlice s;
  s.starts = {0, 2, 6}, s.counted = {1, 1, 1, 1, 1, 1}, s.tokens = 6;
  EXPECT_EQ(token_weights(s, TokenMean::kAnswer, 10),
            (std::vector<float>{0.25f, 0.25f, 0.125f, 0.125f, 0.125f, 0.125f}));
  EXPECT_EQ(token_weights(s, TokenMean::kTokens, 10), std::vector<float>(6, 1.0f / 6));
  EXPECT_EQ(token_weights(s, TokenMean::kConstant, 10), std::vector<float>(6, 0.05f));
  s.counted = {0, 0, 1, 1, 1, 1}, s.tokens = 4;  // a masked answer
  EXPECT_EQ(token_weights(s, TokenMean::kTokens, 10), (std::vector<float>{0, 0, 0.25f, 0.25f, 0.25f, 0.25f}));
}

TEST(Policy, ClippedAndKlTermsMatchValuesByHand) {
  CpuDevice device(1);
  Context ctx{device};
  const Tensor current = vector_of({0.25f, 0.25f, -0.4f, -0.4f, 0.0f}), old = vector_of({0, 0, 0, 0, 0}),
               advantage = vector_of({1, -1, 1, -1, 3});
  const Tensor terms = clipped_policy_terms(ctx, current, old, advantage, 0.2f, 0.28f);
  const double up = std::exp(0.25), down = std::exp(-0.4);
  const double expected[] = {-std::min(up, 1.28), up, -down, 0.8, -3};
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(terms.f32()[i], expected[i], 1e-6) << i;
  const Tensor kl = kl_terms(ctx, current, vector_of({0.5f, 0.25f, -1.4f, 0, 0}));
  for (const auto& [i, d] : {std::pair(0, 0.25), {1, 0.0}, {2, -1.0}, {3, 0.4}})
    EXPECT_NEAR(kl.f32()[i], std::exp(d) - d - 1, 1e-6);
}

TEST(Policy, WhiteningKeepsTheMeanOnRequest) {
  const Tensor x = vector_of({1, 2, 3, 6}), y = whiten(x, true);
  const double dev = std::sqrt((4 + 1 + 0 + 9) / 4.0);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y.f32()[i], (x.f32()[i] - 3) / dev + 3, 1e-5);
}

// The penalty is at every token, the reward at the last one of each answer.
TEST(Policy, RewardsOfPpoMatchValuesByHand) {
  PolicyBuffer b;
  b.rollouts.resize(2);
  b.rollouts[0].log_probabilities = {-1, -2}, b.rollouts[1].log_probabilities = {-0.5f};
  b.reference = {-1.5f, -1, -0.5f}, b.rewards = {3, -1};
  EXPECT_EQ(penalised_rewards(b, 0.5), (std::vector<float>{-0.25f, 3.5f, -1}));
  // GAE with gamma 1 and lambda 1: the advantage is the sum of the rewards to come minus the value.
  const Advantages a =
      generalised_advantages(vector_of({-0.25f, 3.5f, -1}), vector_of({1, 2, 0.5f}), {0, 2, 3}, 1, 1);
  EXPECT_FLOAT_EQ(a.advantages.f32()[0], 2.25f);
  EXPECT_FLOAT_EQ(a.advantages.f32()[1], 1.5f);
  EXPECT_FLOAT_EQ(a.returns.f32()[0], 3.25f);
  EXPECT_FLOAT_EQ(a.advantages.f32()[2], -1.5f);
  EXPECT_DOUBLE_EQ(adapted_weight(0.1, 7, 6, 64, 10000), 0.1 * (1 + (7.0 / 6 - 1) * 64 / 10000));
  EXPECT_DOUBLE_EQ(adapted_weight(0.1, 100, 6, 64, 10000), 0.1 * (1 + 0.2 * 64 / 10000));
  EXPECT_DOUBLE_EQ(adapted_weight(0.1, 0, 6, 64, 10000), 0.1 * (1 - 0.2 * 64 / 10000));
}

TEST(Preference, KtoMatchesValuesByHand) {
  CpuDevice device(1);
  Tape tape(device);
  Context ctx{device, &tape};
  const Tensor policy = vector_of({-1, -2, -3}), reference = vector_of({-1.5f, -1, -3});
  tape.watch(policy);
  const Tensor loss = kto_loss(ctx, {policy, reference, {true, false, true}, 1.0f, 1.5f}, 0.5f, 0.25f);
  const double margins[] = {0.5, -1, 0}, weights[] = {1, 1.5, 1}, signs[] = {1, -1, 1};
  double expected = 0;
  tape.backward(loss);
  for (int i = 0; i < 3; ++i) {
    const double s = sigmoid(signs[i] * 0.5 * (margins[i] - 0.25));
    expected += weights[i] * (1 - s) / 3;
    EXPECT_NEAR(tape.gradient(policy).f32()[i], -weights[i] * signs[i] * 0.5 * s * (1 - s) / 3, 1e-7);
  }
  EXPECT_NEAR(loss.f32()[0], expected, 1e-6);
  // Pairs: the divergence of each half is the mean margin of the other, at least 0.
  const PreferencePairs pairs = {vector_of({-1, -2}), vector_of({-2, -5}), vector_of({-2, -2}),
                                 vector_of({-1, -4})};
  Context plain{device};
  const double chosen_kl = 0.5, rejected_kl = 0;
  double expected_pairs = 0;
  for (const double m : {1.0, 0.0}) expected_pairs += (1 - sigmoid(0.1 * (m - rejected_kl))) / 4;
  for (const double m : {-1.0, -1.0}) expected_pairs += (1 - sigmoid(0.1 * (chosen_kl - m))) / 4;
  EXPECT_NEAR(kto_pair_loss(plain, pairs, 0.1f).f32()[0], expected_pairs, 1e-6);
}

TEST(Preference, OrpoMatchesValuesByHand) {
  CpuDevice device(1);
  const auto value = [](double a, double b, double beta) {
    const double odds = std::log(std::exp(a) / (1 - std::exp(a))) - std::log(std::exp(b) / (1 - std::exp(b)));
    return -a - beta * std::log(sigmoid(odds));
  };
  const std::vector<float> a = {-0.5f, -2.0f, -0.01f}, b = {-1.0f, -0.3f, -4.0f};
  Tape tape(device);
  Context ctx{device, &tape};
  const Tensor chosen = vector_of(a), rejected = vector_of(b);
  tape.watch(chosen), tape.watch(rejected);
  const Tensor loss = orpo_loss(ctx, chosen, rejected, 0.7f);
  tape.backward(loss);
  double expected = 0;
  for (size_t i = 0; i < 3; ++i) {
    expected += value(a[i], b[i], 0.7) / 3;
    const double h = 1e-5;
    EXPECT_NEAR(tape.gradient(chosen).f32()[i],
                (value(a[i] + h, b[i], 0.7) - value(a[i] - h, b[i], 0.7)) / (6 * h), 1e-4);
    EXPECT_NEAR(tape.gradient(rejected).f32()[i],
                (value(a[i], b[i] + h, 0.7) - value(a[i], b[i] - h, 0.7)) / (6 * h), 1e-4);
  }
  EXPECT_NEAR(loss.f32()[0], expected, 1e-5);
}

TEST(RewardRules, FindTheLastNumber) {
  for (const auto& [text, expected] : {std::pair("#### 42", 42.0),
                                       {"1,234.5 apples", 1234.5},
                                       {"x = -7.", -7.0},
                                       {"3-4", 4.0},
                                       {"from 3 to 12!", 12.0},
                                       {"2.5.", 2.5}})
    EXPECT_EQ(last_number(text), std::optional<double>(expected)) << text;
  EXPECT_EQ(last_number("none"), std::nullopt);
  EXPECT_TRUE(last_number(std::string(1000, '9')).has_value());
}

double reward(const std::string& rule, const Json& record, const std::string& text) {
  CpuDevice device(1);
  const auto spec = parse_reward_term(rule);
  check(spec.ok(), "the rule parses");
  const auto term = make_reward_term(*spec);
  check(term.ok(), term.ok() ? "" : term.error().text());
  const Json turns = Json::array();
  const RewardInput answers[] = {{record, turns, text, true}};
  const auto scores = term->score(answers, device);
  check(scores.ok(), scores.ok() ? "" : scores.error().text());
  return (*scores)[0];
}

TEST(RewardRules, ScoreAnswersOrAreErrors) {
  const Json record = {{"answer", "The answer is 7."}}, several = {{"answers", {"red", "crimson"}}};
  EXPECT_EQ(reward("exact", record, " The answer is 7.\n"), 1);
  EXPECT_EQ(reward("exact", record, "7"), 0);
  EXPECT_EQ(reward("exact", several, "crimson"), 1);
  EXPECT_EQ(reward("numeric", record, "seven is 7.0"), 1);
  EXPECT_EQ(reward("numeric", record, "I do not know"), 0);
  EXPECT_EQ(reward("regex=^<b>.*</b>$", record, "<b>7</b>"), 1);
  EXPECT_EQ(reward("regex=a{2,3}b,weight=2", record, "xaab"), 1) << "a comma in a pattern";
  EXPECT_EQ(reward("length=10", record, "12345"), -0.5);
  EXPECT_EQ(reward("length=10", record, std::string(99, 'x')), -1);
  EXPECT_EQ(reward("program=exit 0", record, "x"), 1);
  EXPECT_EQ(reward("program=exit 3", record, "x"), 0);
  EXPECT_EQ(reward("program=grep -c answer", record, "x"), 1);
  EXPECT_EQ(parse_reward_term("world,weight=-0.5")->weight, -0.5);
  for (const char* bad : {"exakt", "regex", "regex=(", "length=x", "program="})
    EXPECT_FALSE(make_reward_term(*parse_reward_term(bad)).ok()) << bad;
  EXPECT_FALSE(parse_reward_term("exact,weight=x").ok());
  const auto exact = make_reward_term({"exact", "", 1});
  CpuDevice device(1);
  const Json none = Json::object(), turns = Json::array();
  const RewardInput answers[] = {{none, turns, "x", true}};
  EXPECT_FALSE(exact->score(answers, device).ok()) << "a record without an answer";
}

// Rewards that are not usable are errors that name the term and the answer.
TEST(RewardRules, SumsAreFiniteAndBounded) {
  CpuDevice device(1);
  const Json record = Json::object(), turns = Json::array();
  const RewardInput answers[] = {{record, turns, "first", true}, {record, turns, "second", true}};
  const auto term = [](double value, double weight) {
    return RewardTerm{"judge", weight, [value](std::span<const RewardInput>, Device&) {
                        return Result<std::vector<double>>(std::vector<double>{1, value});
                      }};
  };
  const std::vector<RewardTerm> good = {term(3, 2), term(-1e6, 1)};
  const auto sums = sum_rewards(good, answers, device);
  ASSERT_TRUE(sums.ok()) << sums.error().text();
  EXPECT_EQ(sums->rewards, (std::vector<double>{3, -999994}));
  EXPECT_EQ(sums->means, (std::vector<double>{2, -499999.5}));
  for (const auto& [value, weight] :
       {std::pair(INFINITY, 1.0), {-INFINITY, 0.0}, {std::nan(""), 1.0}, {1.1e6, 1.0}, {-2.0, 1e6}}) {
    const std::vector<RewardTerm> terms = {term(value, weight)};
    const auto bad = sum_rewards(terms, answers, device);
    ASSERT_FALSE(bad.ok()) << value;
    for (const char* part : {"judge", "'second'"})
      EXPECT_NE(bad.error().text().find(part), std::string::npos) << bad.error().text();
  }
}

TEST(RewardRules, RecordsAreCheckedForTheirFields) {
  const Json whole = {{"answer", "7"}}, empty = Json::object();
  for (const auto& [rule, needs_answer] :
       {std::pair("exact", true), {"numeric", true}, {"length=9", false}, {"regex=x", false}}) {
    const std::vector<RewardTerm> terms = {*make_reward_term(*parse_reward_term(rule))};
    EXPECT_TRUE(check_record(terms, whole).ok()) << rule;
    EXPECT_EQ(check_record(terms, empty).ok(), !needs_answer) << rule;
  }
  const std::vector<RewardTerm> world = {*make_reward_term(*parse_reward_term("world"))};
  EXPECT_FALSE(check_record(world, whole).ok());
  EXPECT_FALSE(check_record(world, {{"id", "no such id"}}).ok());
}

constexpr int64_t kVocab = 11, kRewardedToken = 5;

LoadedModel tiny(uint64_t seed, bool value = false) {
  ShapeOptions o;
  o.type = "llama", o.layers = 2, o.width = 16, o.heads = 2, o.context = 64, o.vocab = kVocab;
  Json config = *shape_config(o);
  if (value)
    config["architectures"] = {"LlamaForSequenceClassification"}, config["num_labels"] = 1,
    config.erase("tie_word_embeddings");
  auto loaded = make_model(Config(config, "test"));
  check(loaded.ok(), loaded.ok() ? "" : loaded.error().text());
  initialize(*loaded->model, seed);
  return std::move(*loaded);
}

// A tokenizer whose token i is the letter 'a' + i; 'a' ends an answer.
Tokenizer letters() {
  Json vocab = Json::object();
  for (int i = 0; i < kVocab; ++i) vocab[std::string(1, static_cast<char>('a' + i))] = i;
  const Json json = {
      {"version", "1.0"},
      {"added_tokens", Json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "."}}}, {"behavior", "Isolated"}, {"invert", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "Fuse"}}},
      {"model", {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "a"}}}};
  auto tokenizer = Tokenizer::from_json(json, "test");
  check(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().text());
  return std::move(*tokenizer);
}

PolicyPrompts prompts(const std::string& folder) {
  PolicyPrompts out(folder);
  const std::vector<std::vector<int64_t>> ids = {{1, 2, 3}, {4}, {9, 8, 7, 6, 5, 4}, {2, 2}, {3, 1}};
  for (size_t i = 0; i < ids.size(); ++i)
    check((i < 4 ? out.train : out.validation).add({ids[i], "[]", "{}"}).ok(), "the prompt is stored");
  return out;
}

// The share of the rewarded letter in an answer.
RewardTerm rewarded_share() {
  return {
      "share", 1, [](std::span<const RewardInput> answers, Device&) -> Result<std::vector<double>> {
        std::vector<double> out;
        for (const RewardInput& a : answers)
          out.push_back(static_cast<double>(std::count(a.text.begin(), a.text.end(), 'a' + kRewardedToken)) /
                        static_cast<double>(std::max<size_t>(1, a.text.size())));
        return out;
      }};
}

std::vector<float> weights(const Model& model) {
  std::vector<float> out;
  for (const auto& p : model.parameters().all())
    if (!p->buffer) out.insert(out.end(), p->value.f32(), p->value.f32() + p->value.count());
  return out;
}

struct PolicyCase {
  ScratchFolder scratch;
  Tokenizer tokenizer = letters();
  LoadedModel policy = tiny(3), reference = tiny(3), value = tiny(4, true);
  PolicyOptions options;
  LoopSettings settings;
  std::unique_ptr<PolicyTask> task;
  std::vector<Metrics> steps;
  std::vector<int64_t> collections;  // rollouts so far, per step
  bool ppo;

  PolicyCase(const std::string& folder, int64_t count, bool with_value, int64_t per_generation,
             int64_t iterations, const PpoOptions& ppo_options = {})
      : ppo(with_value) {
    settings.output_dir = folder, settings.max_steps = count, settings.learning_rate = 1e-2,
    settings.lr_scheduler = "constant";
    settings.gradient_accumulation_steps = 2, settings.no_dropout = true;
    options.group = 4, options.micro_batch = 4, options.accumulate = 2, options.max_new_tokens = 6,
    options.stop = {0}, options.seed = 7;
    options.steps_per_generation = per_generation, options.iterations = iterations;
    if (ppo)
      task = std::make_unique<PpoTask>(*policy.model, *value.model, tokenizer, prompts(scratch.path()),
                                       std::vector<RewardTerm>{rewarded_share()}, Reference(*reference.model),
                                       options, ppo_options);
    else
      task = std::make_unique<GrpoTask>(
          *policy.model, tokenizer, prompts(scratch.path()), std::vector<RewardTerm>{rewarded_share()},
          Reference(*reference.model), options,
          GrpoOptions{TokenMean::kTokens, AdvantageScale::kGroup, 0.2f, 0.28f, 0.01f});
  }
  Result<LoopResult> go(int threads = 1, int64_t stop_at = -1) {
    CpuDevice device(threads);
    std::atomic<bool> stop{false};
    LoopEvents events;
    events.step = [&](const StepInfo& i) {
      stop = i.step == stop_at;
      steps.push_back(i.metrics);
      collections.push_back(task->state().values["collections"].get<int64_t>());
    };
    std::vector<TrainedModel> models = {{policy.model.get()}};
    if (ppo) models.push_back({value.model.get(), "value"});
    return run_loop({TrainedModels(models), *task, settings, device, events, &stop, Json::object()});
  }
};

TEST(Policy, TheRewardRisesAndSamplerAndTrainerAgree) {
  for (const bool ppo : {false, true}) {
    ScratchFolder folder;
    PolicyCase run(folder / "run", ppo ? 96 : 48, ppo, 1, ppo ? 2 : 1);
    const auto result = run.go();
    ASSERT_TRUE(result.ok()) << result.error().text();
    double first = 0, last = 0;
    for (size_t i = 0; i < 6; ++i)
      first += run.steps[i].at("reward") / 6, last += run.steps[run.steps.size() - 1 - i].at("reward") / 6;
    EXPECT_GT(last, first + 0.3) << (ppo ? "ppo" : "grpo") << " " << first << " " << last;
    for (const Metrics& m : run.steps) EXPECT_EQ(m.at("logp diff"), 0.0);
    EXPECT_GT(run.steps.back().at("kl"), 0.01);
    EXPECT_EQ(run.steps.front().at("clip"), 0.0) << "nothing is clipped before the first update";
    EXPECT_NEAR(run.steps.front().at("kl"), 0, 1e-9) << "the policy starts as its reference";
    EXPECT_GT(result->validation.at("reward"), 0.3);
  }
}

// Stopped inside and between rollouts, and continued by new objects with another number of threads.
TEST(Policy, ResumesExactlyInTheMiddleOfABuffer) {
  for (const bool ppo : {false, true}) {
    ScratchFolder folder;
    PolicyCase uninterrupted(folder / "whole", 10, ppo, 2, 2);
    ASSERT_TRUE(uninterrupted.go().ok());
    for (const int64_t stop_at : {1, 4, 6, 7}) {
      const std::string path = folder / fmt::format("stopped-{}", stop_at);
      PolicyCase before(path, 10, ppo, 2, 2), after(path, 10, ppo, 2, 2);
      ASSERT_TRUE(before.go(1, stop_at)->interrupted);
      const auto resumed = after.go(2);
      ASSERT_TRUE(resumed.ok()) << resumed.error().text();
      EXPECT_EQ(weights(*after.policy.model), weights(*uninterrupted.policy.model)) << stop_at;
      EXPECT_EQ(weights(*after.value.model), weights(*uninterrupted.value.model)) << stop_at;
      EXPECT_EQ(after.steps.back(), uninterrupted.steps.back()) << stop_at;
    }
  }
}

// --target-kl: a rollout is replaced once the policy has moved too far from the one that sampled it, also
// when the run was stopped between the step that exceeds the limit and the next one.
TEST(Policy, StopsUsingARolloutAtTheTargetKlAndResumesExactly) {
  PpoOptions limited;
  limited.stop_kl = 1e-4;
  ScratchFolder folder;
  PolicyCase unlimited(folder / "unlimited", 12, true, 2, 3),
      whole(folder / "whole", 12, true, 2, 3, limited);
  ASSERT_TRUE(unlimited.go().ok());
  EXPECT_EQ(unlimited.collections.back(), 2);
  ASSERT_TRUE(whole.go().ok());
  EXPECT_GT(whole.collections.back(), 2);
  size_t stopped = 0;
  for (size_t i = 0; i + 1 < whole.steps.size(); ++i) {
    const bool exceeded = whole.steps[i].at("step kl") > limited.stop_kl;
    stopped += exceeded;
    const bool served = i + 1 >= 6 && whole.collections[i] == whole.collections[i - 5];
    EXPECT_EQ(whole.collections[i + 1] > whole.collections[i], exceeded || served) << i;
  }
  EXPECT_GT(stopped, 2u);
  for (int64_t stop_at = 1; stop_at < 9; ++stop_at) {
    const std::string path = folder / fmt::format("stopped-{}", stop_at);
    PolicyCase before(path, 12, true, 2, 3, limited), after(path, 12, true, 2, 3, limited);
    ASSERT_TRUE(before.go(1, stop_at)->interrupted);
    const auto resumed = after.go(2);
    ASSERT_TRUE(resumed.ok()) << resumed.error().text();
    EXPECT_EQ(weights(*after.policy.model), weights(*whole.policy.model)) << stop_at;
    EXPECT_EQ(weights(*after.value.model), weights(*whole.value.model)) << stop_at;
    for (size_t i = 0; i < after.steps.size(); ++i)
      EXPECT_EQ(after.steps[i], whole.steps[i + static_cast<size_t>(stop_at)]) << stop_at << " " << i;
  }
}

// The report has curves of the rewards, not of the loss only.
TEST(Policy, TheReportPlotsRewardDivergenceAndLength) {
  ScratchFolder folder;
  PolicyCase run(folder / "run", 4, false, 1, 1);
  ASSERT_TRUE(run.go().ok());
  ASSERT_TRUE(write_report(folder / "run", {"title", {}, "", "command"}).ok());
  const auto report = read_file(folder / "run/report.md");
  ASSERT_TRUE(report.ok());
  for (const char* name : {"reward", "kl", "length"}) {
    EXPECT_NE(report->find(fmt::format("![{0}]({0}.svg)", name)), std::string::npos) << *report;
    const auto chart = read_file(folder / fmt::format("run/{}.svg", name));
    ASSERT_TRUE(chart.ok());
    EXPECT_NE(chart->find(fmt::format(">training {}</text>", name)), std::string::npos);
  }
  EXPECT_EQ(report->find("clip.svg"), std::string::npos);
}

// The difference of sampler and trainer is measured once per rollout; a resumed run logs that value.
TEST(Policy, TheMeasuredDifferenceIsPartOfTheState) {
  ScratchFolder folder;
  PolicyCase run(folder / "run", 1, false, 2, 1);
  ASSERT_TRUE(run.go().ok());
  TaskState state = run.task->state();
  EXPECT_EQ(state.values["difference"], 0.0);
  state.values["difference"] = 0.5;
  ASSERT_TRUE(run.task->restore(state).ok());
  EXPECT_EQ(run.task->step_metrics().at("logp diff"), 0.5);
  state.values.erase("difference");
  EXPECT_FALSE(run.task->restore(state).ok());
}

TEST(Policy, DamagedStateIsRejected) {
  ScratchFolder folder;
  PolicyCase run(folder / "run", 2, false, 2, 1);
  ASSERT_TRUE(run.go().ok());
  const TaskState good = run.task->state();
  EXPECT_TRUE(run.task->restore(good).ok());
  const auto rejects = [&](const std::function<void(TaskState&)>& damage) {
    TaskState bad = good;
    damage(bad);
    return !run.task->restore(bad).ok();
  };
  EXPECT_TRUE(rejects([](TaskState& s) { s.values = nullptr; }));
  EXPECT_TRUE(rejects([](TaskState& s) { s.values["left"] = 99; }));
  EXPECT_TRUE(rejects([](TaskState& s) { s.values["rewards"].push_back(1); }));
  EXPECT_TRUE(rejects([](TaskState& s) { s.values["rollouts"][0]["tokens"][0] = 999; }));
  EXPECT_TRUE(rejects([](TaskState& s) { s.values["rollouts"][0]["prompt_tokens"] = 0; }));
  EXPECT_TRUE(rejects([](TaskState& s) { s.values["rollouts"][1] = "x"; }));
  EXPECT_TRUE(rejects([](TaskState& s) { s.tensors.erase("sampled"); }));
  EXPECT_TRUE(rejects([](TaskState& s) { s.tensors["advantages"] = Tensor::zeros({1}); }));
}

}  // namespace
}  // namespace makar
