// The sampling chain against plain definitions.
#include "infer/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/rng.h"
#include "infer/logprobs.h"
#include "infer/sampler_options.h"
#include "kernels/cpu/table.h"

namespace makar {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(size_t n, uint64_t seed, float scale = 3) {
  const Rng rng(seed, Purpose::kSynthetic);
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = rng.normal(i) * scale;
  return x;
}

SamplerOptions sampling(double temperature = 1) {
  SamplerOptions o;
  o.temperature = temperature;
  return o;
}

std::vector<float> apply_options(const SamplerOptions& o, std::vector<float> logits,
                                 const std::vector<int64_t>& tokens = {}, uint64_t index = 0) {
  EXPECT_TRUE(Sampler(o).apply(logits, tokens, index).ok());
  return logits;
}

TEST(Sampler, GreedyTakesTheFirstMaximum) {
  EXPECT_EQ(sample(std::vector<float>{1, 5, 5, 2}, {}, 0), 1);
  EXPECT_EQ(sample(std::vector<float>{-kInf, -kInf, -9}, {}, 0), 2);
  auto o = sampling();
  o.top_k = 1;
  EXPECT_EQ(sample(std::vector<float>{1, 5, 5, 2}, o, 7), 1);
}

TEST(Sampler, InvalidLogitsAreAnError) {
  for (auto o : {SamplerOptions{}, sampling(), sampling(0.01)})
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
      const auto next = Sampler(o).next(std::vector<float>{1, bad, 2}, {}, 0);
      ASSERT_FALSE(next.ok());
      EXPECT_NE(next.error().text().find("token 1"), std::string::npos);
      EXPECT_EQ(sample(std::vector<float>{1, bad, 2}, o, 0), -1);
    }
  EXPECT_FALSE(Sampler().next(std::vector<float>{-kInf, -kInf}, {}, 0).ok());
  EXPECT_FALSE(Sampler().next({}, {}, 0).ok());
  SamplerOptions o;  // every token was seen, so nothing is left
  o.no_repeat_ngram_size = 1;
  const auto none = Sampler(o).next(std::vector<float>{1, 2}, std::vector<int64_t>{0, 1}, 0);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().text().find("exclude every token"), std::string::npos);
}

TEST(Sampler, SamplesFollowTheProbabilities) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(4.0f), -kInf, std::log(1.0f)};
  std::map<int64_t, int> counts;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) ++counts[sample(logits, sampling(), static_cast<uint64_t>(i))];
  EXPECT_EQ(counts.count(3), 0u);
  for (const auto& [id, share] : std::map<int64_t, double>{{0, .125}, {1, .25}, {2, .5}, {4, .125}})
    EXPECT_NEAR(counts[id] / static_cast<double>(kDraws), share, 0.015);
}

TEST(Sampler, ExtremeTemperaturesAreFinite) {
  const auto logits = random_logits(1000, 1, 1e4f);
  const int64_t best = sample(logits, {}, 0);
  EXPECT_EQ(sample(logits, sampling(1e-30), 5), best);
  const int64_t any = sample(logits, sampling(1e6), 5);
  EXPECT_TRUE(any >= 0 && any < 1000);
  EXPECT_EQ(sample(std::vector<float>{3e38f, -3e38f}, sampling(0.1), 0), 0);
}

// Every truncation at large vocabularies, compared with its definition on a full sort.
TEST(Sampler, TruncationsEqualTheirDefinitions) {
  const size_t n = 5000;
  const auto logits = random_logits(n, 9);
  std::vector<std::pair<double, size_t>> p;
  double total = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x));
  for (size_t i = 0; i < n; ++i) p.push_back({std::exp(static_cast<double>(logits[i])) / total, i});
  std::sort(p.begin(), p.end(), std::greater<>());
  const auto kept_count = [&](const SamplerOptions& o) {
    const auto got = apply_options(o, logits);
    return static_cast<size_t>(std::count_if(got.begin(), got.end(), [](float x) { return x > -kInf; }));
  };
  auto o = sampling();
  o.top_k = 137;
  EXPECT_EQ(kept_count(o), 137u);
  o = sampling();
  o.top_p = 0.7;
  double mass = 0;
  size_t head = 0;
  while (mass < 0.7) mass += p[head++].first;
  EXPECT_EQ(kept_count(o), head);
  o = sampling();
  o.min_p = 0.05;
  EXPECT_EQ(kept_count(o), static_cast<size_t>(std::count_if(p.begin(), p.end(), [&](const auto& q) {
              return q.first >= 0.05 * p[0].first;
            })));
  o = sampling();
  o.xtc_probability = 1, o.xtc_threshold = 0.002;
  const auto above =
      static_cast<size_t>(std::count_if(p.begin(), p.end(), [](const auto& q) { return q.first >= 0.002; }));
  EXPECT_EQ(kept_count(o), n - above + 1);
  EXPECT_GT(apply_options(o, logits)[p[above - 1].second], -kInf);
  EXPECT_EQ(apply_options(o, logits)[p[above - 2].second], -kInf);
}

std::vector<double> softmax_of(const std::vector<float>& logits) {
  double total = 0;
  std::vector<double> out;
  for (const float x : logits) out.push_back(std::exp(static_cast<double>(x))), total += out.back();
  for (double& p : out) p /= total;
  return out;
}

// Examples from the literature.
TEST(Sampler, TemperatureAndTopPMatchWorkedExamples) {
  const std::vector<float> two_logits = {std::log(0.4f), std::log(0.6f)};
  EXPECT_NEAR(softmax_of(apply_options(sampling(0.5), two_logits))[0], 0.31, 0.005);
  EXPECT_NEAR(softmax_of(apply_options(sampling(0.2), two_logits))[1], 0.88, 0.005);
  EXPECT_EQ(sample(two_logits, sampling(0), 0), 1);
  std::vector<float> logits;
  for (const float p : {0.30f, 0.25f, 0.20f, 0.15f, 0.05f, 0.03f, 0.02f}) logits.push_back(std::log(p));
  auto o = sampling();
  o.top_p = 0.7;
  const auto probabilities = softmax_of(apply_options(o, logits));
  const double expected[] = {0.40, 0.33, 0.27, 0, 0, 0, 0};
  for (size_t i = 0; i < 7; ++i) EXPECT_NEAR(probabilities[i], expected[i], 0.005) << i;
}

TEST(Sampler, XtcAppliesWithItsProbability) {
  auto o = sampling();
  o.xtc_probability = 0.3, o.xtc_threshold = 0.1;
  int excluded = 0;
  for (uint64_t i = 0; i < 2000; ++i) excluded += apply_options(o, {3, 3.1f, 0}, {}, i)[1] == -kInf;
  EXPECT_NEAR(excluded / 2000.0, 0.3, 0.05);
}

TEST(Sampler, PenaltiesCountOccurrences) {
  SamplerOptions o;
  o.presence_penalty = 0.5, o.frequency_penalty = 0.25;
  const std::vector<int64_t> tokens = {3, 0, 1, 1, 1, 0, 99, -4};  // ids outside the vocabulary are ignored
  const std::vector<float> logits = {1, 1, 1, 1};
  EXPECT_EQ(apply_options(o, logits, tokens), (std::vector<float>{0, -0.25f, 1, 0.25f}));
  o.prompt_tokens = 3;
  EXPECT_EQ(apply_options(o, logits, tokens), (std::vector<float>{0.25f, 0, 1, 1}));
  o = {};
  o.repetition_penalty = 2;
  EXPECT_EQ(apply_options(o, {4, -4, 4, 4}, tokens), (std::vector<float>{2, -8, 4, 2}));
  o.repeat_last_n = 3;
  EXPECT_EQ(apply_options(o, {4, -4, 4, 4}, tokens), (std::vector<float>{2, -4, 4, 4}));
  o = {};
  o.logit_bias = {{2, -100}, {0, 1}, {77, 5}};
  EXPECT_EQ(apply_options(o, {1, 2, 3}), (std::vector<float>{2, 2, -97}));
}

// The definition of DRY, position by position.
std::vector<float> plain_dry(std::vector<float> logits, const std::vector<int64_t>& t,
                             const SamplerOptions& o) {
  const auto breaks = [&](int64_t id) {
    return std::count(o.dry_breakers.begin(), o.dry_breakers.end(), id) > 0;
  };
  std::map<int64_t, int64_t> lengths;
  const int64_t n = static_cast<int64_t>(t.size());
  if (n == 0 || breaks(t.back())) return logits;
  for (int64_t i = 0; i + 1 < n; ++i) {
    int64_t length = 0;
    while (i - length >= 0 && t[static_cast<size_t>(i - length)] == t[static_cast<size_t>(n - 1 - length)] &&
           !breaks(t[static_cast<size_t>(i - length)]))
      ++length;
    const int64_t next = t[static_cast<size_t>(i + 1)];
    if (length >= o.dry_allowed_length && !breaks(next)) lengths[next] = std::max(lengths[next], length);
  }
  for (const auto& [id, length] : lengths)
    logits[static_cast<size_t>(id)] -= static_cast<float>(
        o.dry_multiplier * std::pow(o.dry_base, static_cast<double>(length - o.dry_allowed_length)));
  return logits;
}

TEST(Sampler, DryEqualsItsDefinitionAndIsLinear) {
  SamplerOptions o;
  o.dry_multiplier = 0.8, o.dry_breakers = {2};
  const Rng rng(5, Purpose::kSynthetic);
  for (uint64_t trial = 0; trial < 300; ++trial) {
    std::vector<int64_t> tokens(rng.bits(trial)[0] % 40);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = rng.bits(trial * 64 + i)[1] % 4;
    EXPECT_EQ(apply_options(o, {0, 0, 0, 0}, tokens), plain_dry({0, 0, 0, 0}, tokens, o));
  }
  // Quadratic time would take minutes here.
  const auto long_run = apply_options(o, {0, 0}, std::vector<int64_t>(200000, 1));
  EXPECT_TRUE(std::isfinite(long_run[1]) && long_run[1] < -1e20f);
}

TEST(Sampler, MirostatKeepsTheSurpriseNearTau) {
  for (const int64_t version : {1, 2}) {
    auto o = sampling();
    o.mirostat = version, o.mirostat_tau = 4;
    Sampler sampler(o);
    double bits = 0;
    constexpr uint64_t kSteps = 600;
    for (uint64_t i = 0; i < kSteps; ++i) {
      const auto logits = random_logits(2000, 100 + i % 7, 2);
      const double before = sampler.mirostat_mu();
      const auto next = sampler.next(logits, {}, i);
      ASSERT_TRUE(next.ok());
      const double mu = sampler.mirostat_mu();
      EXPECT_TRUE(std::isfinite(mu));
      bits += (before - mu) / o.mirostat_eta + o.mirostat_tau;  // the surprise that the update saw
    }
    EXPECT_NEAR(bits / kSteps, 4, 0.4) << version;
  }
  auto o = sampling();  // equal logits have no exponent to estimate
  o.mirostat = 1;
  EXPECT_TRUE(Sampler(o).next(std::vector<float>(50, 1.0f), {}, 0).ok());
}

TEST(Sampler, CopiesGiveTheSameTokens) {
  auto o = sampling();
  o.mirostat = 2;
  Sampler a(o);
  const auto logits = random_logits(500, 4);
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(a.next(logits, {}, i).ok());
  Sampler b = a;
  for (uint64_t i = 10; i < 20; ++i) EXPECT_EQ(*a.next(logits, {}, i), *b.next(logits, {}, i));
}

// Each sampled token must be one that apply() kept.
TEST(Sampler, NextChoosesAmongTheTokensThatApplyKeeps) {
  const Rng rng(11, Purpose::kSynthetic);
  for (uint64_t trial = 0; trial < 200; ++trial) {
    const auto r = rng.bits(trial);
    auto o = sampling(0.5 + (r[0] & 3) * 0.4);
    o.seed = trial;
    if (r[0] & 4) o.top_k = 1 + r[1] % 300;
    if (r[0] & 8) o.top_p = 0.3 + 0.1 * (r[1] % 7);
    if (r[0] & 16) o.min_p = 0.05;
    if (r[0] & 32) o.typical_p = 0.6;
    if (r[0] & 64) o.eta_cutoff = 0.01;
    if (r[0] & 128) o.epsilon_cutoff = 0.001;
    if (r[0] & 256) o.xtc_probability = 0.5;
    if (r[0] & 512) o.repetition_penalty = 1.2;
    if (r[0] & 1024) o.mirostat = 1 + (r[1] & 1);
    auto logits = random_logits(777, trial);
    for (size_t i = 0; i < 100; ++i) logits[i * 3] = -kInf;
    const std::vector<int64_t> tokens = {1, 2, 3, 1, 2, 3};
    const auto next = Sampler(o).next(logits, tokens, trial);
    ASSERT_TRUE(next.ok());
    EXPECT_GT(apply_options(o, logits, tokens, trial)[static_cast<size_t>(*next)], -kInf);
    EXPECT_EQ(*next, *Sampler(o).next(logits, tokens, trial));
  }
}

TEST(SamplerOptions, AreReadFromJsonAndBounded) {
  SamplerOptions o;
  EXPECT_TRUE(*read_sampler_option(o, "temp", 0.7));
  EXPECT_TRUE(*read_sampler_option(o, "top_k", 40.0));
  EXPECT_TRUE(*read_sampler_option(o, "seed", -1));
  EXPECT_TRUE(*read_sampler_option(o, "logit_bias", Json{{"7", -100}}));
  EXPECT_FALSE(*read_sampler_option(o, "no_such", 1));
  EXPECT_EQ(o.temperature, 0.7);
  EXPECT_EQ(o.top_k, 40);
  EXPECT_EQ(o.logit_bias.at(0).first, 7);
  EXPECT_TRUE(check_sampler(o).ok());
  EXPECT_FALSE(read_sampler_option(o, "top_k", 1.5).ok());
  EXPECT_FALSE(read_sampler_option(o, "top_k", "40").ok());
  EXPECT_FALSE(read_sampler_option(o, "top_k", 1e300).ok());
  EXPECT_FALSE(read_sampler_option(o, "logit_bias", Json{{"x", 1}}).ok());
  o.top_p = std::nan("");
  const auto status = check_sampler(o);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().text().find("top_p"), std::string::npos);
}

TEST(Logprobs, EqualLogSoftmaxBitForBit) {
  auto logits = random_logits(3000, 21);
  logits[17] = logits[3];
  logits[5] = -kInf;
  std::vector<float> expected(logits.size());
  kernels::cpu().log_softmax(logits.data(), expected.data(), 3000);
  const auto got = logprobs(logits, 17, 5);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->chosen, expected[17]);
  EXPECT_EQ(got->rank, logprobs(logits, 3, 0)->rank + 1);
  ASSERT_EQ(got->top.size(), 5u);
  for (const auto& alternative : got->top)
    EXPECT_EQ(alternative.logprob, expected[static_cast<size_t>(alternative.id)]);
  EXPECT_TRUE(std::is_sorted(got->top.begin(), got->top.end(),
                             [](const auto& a, const auto& b) { return a.logprob > b.logprob; }));
  EXPECT_EQ(logprobs(logits, got->top[2].id, 0)->rank, 2);
  EXPECT_FALSE(logprobs(logits, 3000, 0).ok());
  EXPECT_FALSE(logprobs(std::vector<float>{std::nanf("")}, 0, 1).ok());
  EXPECT_NEAR(*entropy(std::vector<float>(8, 2.0f)), std::log(8.0), 1e-6);
}

// XTC removes the best token: the weights of the others become those of the best that remains.
TEST(Sampler, MirostatStaysFiniteWhenTheBestTokenIsRemoved) {
  SamplerOptions o;
  o.temperature = 0.1, o.xtc_probability = 1, o.xtc_threshold = 0, o.mirostat = 2, o.seed = 3;
  const std::vector<float> logits = {0, -1, -2, -3.5f, -3.6f, -4};
  Sampler sampler(o);
  for (uint64_t i = 0; i < 20; ++i) {
    const auto token = sampler.next(logits, {}, i);
    ASSERT_TRUE(token.ok());
    EXPECT_EQ(*token, 5) << "the least probable of the top choices stays";
    EXPECT_TRUE(std::isfinite(sampler.mirostat_mu()));
  }
}

}  // namespace
}  // namespace makar
