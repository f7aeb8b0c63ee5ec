// Decoding methods, each compared with a plain loop of full forward passes without a cache.
#include "infer/decoding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "infer/contrastive_job.h"
#include "infer/generate.h"
#include "kernels/cpu_device.h"
#include "models/subjects.h"

namespace makar {
namespace {

using Ids = std::vector<int64_t>;

class DecodingTest : public testing::Test {
 protected:
  // The last hidden states of a text, from one forward pass.
  Tensor states(const Ids& ids) const {
    Inputs in;
    in.source.add(ids);
    Context ctx{device_};
    ForwardContext f{ctx};
    return model_.hidden(f, in);
  }
  std::vector<float> logits_after(const Ids& ids) const {
    Context ctx{device_};
    const Tensor hidden = states(ids);
    const Tensor out = model_.lm_logits(ctx, hidden.slice(hidden.dim(0) - 1, hidden.dim(0)));
    return {out.span().begin(), out.span().end()};
  }
  std::vector<double> log_softmax(const Ids& ids) const {
    const auto logits = logits_after(ids);
    const double maximum = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float x : logits) sum += std::exp(x - maximum);
    std::vector<double> out;
    for (const float x : logits) out.push_back(x - maximum - std::log(sum));
    return out;
  }
  static int64_t argmax(const auto& values) {
    return std::max_element(values.begin(), values.end()) - values.begin();
  }

  std::vector<Answer> run(const std::shared_ptr<DecodingJob>& job, EngineOptions o = {}) {
    Engine engine(model_, device_, o);
    engine.submit(job);
    engine.run();
    check(!job->error, job->error ? job->error->text() : "");
    return job->answers();
  }
  BeamRequest beams(int64_t beams, int64_t groups, double penalty) const {
    BeamRequest r;
    r.prompt = prompt_, r.max_new_tokens = 9, r.beams = beams, r.groups = groups, r.answers = beams;
    r.diversity_penalty = penalty, r.stop = {5, 7};
    return r;
  }

  LoadedModel loaded_ = subject("small/llama");
  const Model& model_ = *loaded_.model;
  mutable CpuDevice device_{2};
  const Ids prompt_ = random_ids(model_.spec(), 12, 4);
};

// Groups of one beam are greedy searches that avoid the tokens that earlier groups chose at the same step.
TEST_F(DecodingTest, GroupsOfOneBeamAvoidEachOther) {
  constexpr size_t kGroups = 3, kTokens = 7;
  constexpr double kPenalty = 1.5;
  std::vector<Ids> texts(kGroups, prompt_);
  std::vector<double> scores(kGroups);
  for (size_t t = 0; t < kTokens; ++t) {
    std::map<int64_t, int> chosen;
    for (size_t g = 0; g < kGroups; ++g) {
      auto row = log_softmax(texts[g]);
      for (const auto& [token, times] : chosen) row[static_cast<size_t>(token)] -= kPenalty * times;
      const int64_t best = argmax(row);
      ++chosen[best];
      scores[g] += row[static_cast<size_t>(best)];
      texts[g].push_back(best);
    }
  }
  BeamRequest r = beams(kGroups, kGroups, kPenalty);
  r.max_new_tokens = kTokens, r.stop = {};
  const auto answers = run(std::make_shared<BeamJob>(r));
  ASSERT_EQ(answers.size(), kGroups);
  std::vector<std::pair<double, Ids>> expected, got;
  for (size_t g = 0; g < kGroups; ++g)
    expected.push_back({-scores[g] / kTokens, {texts[g].begin() + 12, texts[g].end()}});
  for (const Answer& a : answers) got.push_back({-a.score, a.ids()});
  std::sort(expected.begin(), expected.end());
  for (size_t g = 0; g < kGroups; ++g) {
    EXPECT_EQ(got[g].second, expected[g].second);
    EXPECT_NEAR(got[g].first, expected[g].first, 1e-4);
  }
}

// Without a penalty groups are independent: each equals a beam search of its width.
TEST_F(DecodingTest, GroupsWithoutPenaltyEqualSeparateSearches) {
  const auto one_group = run(std::make_shared<BeamJob>(beams(2, 1, 0)));
  const auto groups = run(std::make_shared<BeamJob>(beams(6, 3, 0)));
  ASSERT_EQ(one_group.size(), 2u);
  ASSERT_EQ(groups.size(), 6u);
  for (size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(groups[i].ids(), one_group[i / 3].ids());
    EXPECT_EQ(groups[i].score, one_group[i / 3].score);
  }
}

TEST_F(DecodingTest, LargePenaltyMakesFirstTokensDiffer) {
  std::map<int64_t, int> first;
  BeamRequest r = beams(4, 4, 1e5);
  r.stop = {};
  for (const Answer& a : run(std::make_shared<BeamJob>(r))) ++first[a.tokens[0].id];
  EXPECT_EQ(first.size(), 4u);
}

TEST_F(DecodingTest, ContrastiveSearchEqualsItsDefinition) {
  constexpr double kAlpha = 0.6;
  constexpr size_t kTop = 4, kTokens = 10;
  const auto unit = [](const Tensor& states, int64_t row) {
    std::vector<double> x(states.f32() + row * states.dim(1), states.f32() + (row + 1) * states.dim(1));
    double square = 0;
    for (const double v : x) square += v * v;
    for (double& v : x) v /= std::sqrt(square);
    return x;
  };
  Ids text = prompt_;
  for (size_t t = 0; t < kTokens; ++t) {
    const auto row = log_softmax(text);
    std::vector<int64_t> order(row.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
    });
    double best_score = -1e9;
    int64_t best = -1;
    for (size_t i = 0; i < kTop; ++i) {
      Ids extended = text;
      extended.push_back(order[i]);
      const Tensor hidden = states(extended);
      const auto candidate = unit(hidden, hidden.dim(0) - 1);
      double similarity = -1;
      for (int64_t j = 0; j + 1 < hidden.dim(0); ++j) {
        const auto other = unit(hidden, j);
        double cosine = 0;
        for (size_t c = 0; c < candidate.size(); ++c) cosine += candidate[c] * other[c];
        similarity = std::max(similarity, cosine);
      }
      const double score = (1 - kAlpha) * std::exp(row[static_cast<size_t>(order[i])]) - kAlpha * similarity;
      if (score > best_score) best_score = score, best = order[i];
    }
    text.push_back(best);
  }
  GenerateOptions o;
  o.max_new_tokens = kTokens, o.penalty_alpha = kAlpha, o.sampler.top_k = kTop, o.stop = {-1};
  const auto got = generate(model_, device_, prompt_, o);
  ASSERT_TRUE(got.ok()) << got.error().text();
  EXPECT_EQ(*got, text);
  o.penalty_alpha = 0, o.sampler.top_k = 0;
  EXPECT_NE(*generate(model_, device_, prompt_, o), text) << "the penalty has no effect";
}

TEST_F(DecodingTest, BestOfKeepsTheMostProbableAnswer) {
  GenerateOptions o;
  o.max_new_tokens = 8, o.sampler.temperature = 1.2, o.answers = 2, o.best_of = 6;
  const auto got = generate_all(model_, device_, prompt_, o);
  ASSERT_TRUE(got.ok());
  std::vector<std::pair<double, Ids>> all;
  for (uint64_t i = 0; i < 6; ++i) {
    GenerateOptions one;
    one.max_new_tokens = 8, one.sampler = o.sampler, one.sampler.seed = i;
    const Ids ids = *generate(model_, device_, prompt_, one);
    double sum = 0;
    for (size_t t = prompt_.size(); t < ids.size(); ++t)
      sum += log_softmax({ids.begin(), ids.begin() + static_cast<int64_t>(t)})[static_cast<size_t>(ids[t])];
    all.push_back({-sum / static_cast<double>(ids.size() - prompt_.size()), ids});
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(got->size(), 2u);
  EXPECT_EQ((*got)[0], all[0].second);
  EXPECT_EQ((*got)[1], all[1].second);
}

TEST_F(DecodingTest, LowProbabilityTokenEndsTheAnswer) {
  Decoding o;
  o.max_new_tokens = 40, o.sampler.temperature = 1;
  const auto full = run(make_job(model_, {}, prompt_, o, {-1}))[0].ids();
  size_t expected = 0;
  Ids text = prompt_;
  constexpr double kThreshold = 0.05;
  for (; expected < full.size(); ++expected) {
    const double p = std::exp(log_softmax(text)[static_cast<size_t>(full[expected])]);
    text.push_back(full[expected]);
    if (p < kThreshold) break;
  }
  ASSERT_LT(expected + 1, full.size()) << "no token is below the threshold";
  o.stop_below = kThreshold;
  const auto got = run(make_job(model_, {}, prompt_, o, {-1}))[0];
  EXPECT_EQ(got.ids(), Ids(full.begin(), full.begin() + static_cast<int64_t>(expected) + 1));
  EXPECT_EQ(got.finish, Finish::kLowProbability);
}

TEST_F(DecodingTest, MinTokensAndIgnoreEosDelayTheEnd) {
  Decoding o;
  o.max_new_tokens = 24, o.sampler.temperature = 1;
  const auto full = run(make_job(model_, {}, prompt_, o, {-1}))[0].ids();
  const std::vector<int64_t> stop_ids = {full[1], full[9]};
  ASSERT_EQ(run(make_job(model_, {}, prompt_, o, stop_ids))[0].finish, Finish::kStop);
  // With ignore_eos it continues after the stop id, with the same tokens.
  Decoding ignoring_eos = o;
  ignoring_eos.ignore_eos = true;
  EXPECT_EQ(run(make_job(model_, {}, prompt_, ignoring_eos, stop_ids))[0].ids(), full);
  ignoring_eos.min_new_tokens = 8;  // nothing is masked without end tokens
  EXPECT_EQ(run(make_job(model_, {}, prompt_, ignoring_eos, stop_ids))[0].ids(), full);
  const auto expect_min_tokens = [&](Decoding decoding, int64_t min_tokens) {
    decoding.min_new_tokens = min_tokens;
    for (const Answer& a : run(make_job(model_, {}, prompt_, decoding, stop_ids))) {
      const Ids ids = a.ids();
      ASSERT_GE(static_cast<int64_t>(ids.size()), min_tokens);
      for (size_t i = 0; i < ids.size(); ++i) {
        const bool end = std::find(stop_ids.begin(), stop_ids.end(), ids[i]) != stop_ids.end();
        EXPECT_EQ(end, i + 1 == ids.size() && a.finish == Finish::kStop) << i;
        if (end) EXPECT_GE(static_cast<int64_t>(i), min_tokens);
      }
    }
  };
  for (const int64_t min_tokens : {1, 2, 8, 24}) {
    expect_min_tokens(o, min_tokens);
    Decoding variant = o;
    variant.answers = 3, expect_min_tokens(variant, min_tokens);
    variant = o, variant.sampler.temperature = 0, variant.beams = 3, expect_min_tokens(variant, min_tokens);
    variant = o, variant.sampler.top_k = 4, variant.penalty_alpha = 0.5,
    expect_min_tokens(variant, min_tokens);
  }
}

TEST_F(DecodingTest, DeadlineEndsAnswersEarly) {
  DecodingRequest shared;
  shared.prompt = prompt_, shared.max_new_tokens = 30;
  shared.deadline = DecodingRequest::Clock::now() - std::chrono::seconds(1);
  const auto expect_deadline = [&](const std::shared_ptr<DecodingJob>& job) {
    for (const Answer& a : run(job)) {
      EXPECT_EQ(a.finish, Finish::kTime);
      EXPECT_EQ(a.tokens.size(), 1u);
    }
    EXPECT_FALSE(job->answers().empty());
  };
  expect_deadline(std::make_shared<SampleJob>(SampleRequest{shared}));
  expect_deadline(std::make_shared<BeamJob>(BeamRequest{shared}));
  expect_deadline(std::make_shared<ContrastiveJob>(ContrastiveRequest{shared}));
}

TEST_F(DecodingTest, ConflictingOptionsAreErrors) {
  const auto option_error = [](auto&& change) {
    Decoding o;
    change(o);
    const Status status = check_decoding(o);
    return status.ok() ? std::string() : status.error().text();
  };
  EXPECT_EQ(option_error([](Decoding&) {}), "");
  EXPECT_NE(option_error([](Decoding& o) { o.beams = 4, o.beam_groups = 3; }), "");
  EXPECT_NE(option_error([](Decoding& o) { o.beams = 4, o.diversity_penalty = 1; }), "");
  EXPECT_NE(option_error([](Decoding& o) { o.penalty_alpha = 0.6; }), "");  // without top-k
  EXPECT_NE(option_error([](Decoding& o) { o.penalty_alpha = 0.6, o.sampler.top_k = 4, o.beams = 2; }), "");
  EXPECT_NE(option_error([](Decoding& o) { o.best_of = 2, o.answers = 3; }), "");
  EXPECT_NE(option_error([](Decoding& o) { o.max_time = -1; }), "");
  EXPECT_NE(option_error([](Decoding& o) { o.stop_below = NAN; }), "");
  EXPECT_NE(option_error([](Decoding& o) { o.min_new_tokens = 65; }), "");
  EXPECT_NE(option_error([](Decoding& o) { o.min_new_tokens = -1; }), "");
}

}  // namespace
}  // namespace makar
