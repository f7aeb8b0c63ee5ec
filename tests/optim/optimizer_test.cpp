// Optimisers against scalar double-precision versions of PyTorch's rules, groups, state, threads.
#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/json.h"
#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "optim/gradient_norm.h"
#include "optim/rules.h"

namespace makar {
namespace {

Tensor random(const Shape& shape, uint64_t salt) {
  Tensor t = Tensor::empty(shape);
  const Rng rng(salt, Purpose::kSynthetic);
  for (int64_t i = 0; i < t.count(); ++i) t.f32()[i] = rng.normal(static_cast<uint64_t>(i));
  return t;
}

// Parameters like those of a small model; gradients are a function of the step only.
struct Model {
  ParameterSet parameters;
  Model() {
    for (const auto& [name, shape] : std::vector<std::pair<std::string, Shape>>{{"embed.weight", {50, 24}},
                                                                                {"layer.0.weight", {40, 24}},
                                                                                {"layer.0.bias", {40}},
                                                                                {"layer.1.weight", {24, 400}},
                                                                                {"norm.weight", {24}}}) {
      Parameter* p = parameters.add(name, shape);
      p->value = random(shape, std::hash<std::string>{}(name));
    }
  }
  void set_gradients(uint64_t step) {
    uint64_t salt = step * 100;
    for (const auto& p : parameters.all()) p->grad = random(p->shape, ++salt);
  }
  bool same_bits(const Model& other) const {
    for (size_t i = 0; i < parameters.all().size(); ++i) {
      const Tensor &a = parameters.all()[i]->value, &b = other.parameters.all()[i]->value;
      if (std::memcmp(a.raw(), b.raw(), a.bytes())) return false;
    }
    return true;
  }
};

Optimizer make(const Model& model, const std::string& name, double decay = 0.1) {
  OptimizerOptions o;
  o.name = name, o.weight_decay = decay;
  return Optimizer::make(model.parameters, o).value();
}

TEST(Optimizer, SameBitsForAnyThreadCount) {
  for (const Rule& rule : rules()) {
    Model one, many;
    Optimizer a = make(one, rule.names[0]), b = make(many, rule.names[0]);
    CpuDevice single(1), device(5);
    for (uint64_t step = 1; step <= 3; ++step) {
      one.set_gradients(step), many.set_gradients(step);
      a.step(single, 0.01, 0.5), b.step(device, 0.01, 0.5);
    }
    EXPECT_TRUE(one.same_bits(many)) << rule.names[0];
  }
}

TEST(Optimizer, StateRoundTripsBitForBit) {
  CpuDevice device(2);
  for (const Rule& rule : rules()) {
    Model uninterrupted, resumed;
    Optimizer full_run = make(uninterrupted, rule.names[0]), before = make(resumed, rule.names[0]);
    for (uint64_t step = 1; step <= 6; ++step) {
      uninterrupted.set_gradients(step);
      full_run.step(device, 0.01);
    }
    for (uint64_t step = 1; step <= 3; ++step) {
      resumed.set_gradients(step);
      before.step(device, 0.01);
    }
    std::map<std::string, Tensor> saved;
    for (const auto& [name, tensor] : before.state()) saved[name] = tensor.clone();
    Optimizer after = make(resumed, rule.names[0]);
    const Status status = after.restore(saved);
    ASSERT_TRUE(status.ok()) << rule.names[0] << ": " << status.error().text();
    for (uint64_t step = 4; step <= 6; ++step) {
      resumed.set_gradients(step);
      after.step(device, 0.01);
    }
    EXPECT_TRUE(uninterrupted.same_bits(resumed)) << rule.names[0];
  }
}

TEST(Optimizer, StateOfAnotherOptimizerOrModelIsAnError) {
  CpuDevice device(1);
  Model model;
  Optimizer adam = make(model, "adamw");
  model.set_gradients(1);
  adam.step(device, 0.01);
  std::map<std::string, Tensor> saved;
  for (const auto& [name, tensor] : adam.state()) saved[name] = tensor;
  Optimizer adafactor = make(model, "adafactor");
  const Status status = adafactor.restore(saved);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().text().find("embed.weight.row_var"), std::string::npos) << status.error().text();
  auto wrong = saved;
  wrong["norm.weight.exp_avg"] = Tensor::zeros({25});
  EXPECT_FALSE(make(model, "adamw").restore(wrong).ok());
  wrong = saved;
  wrong["unknown.exp_avg"] = Tensor::zeros({25});
  EXPECT_FALSE(make(model, "adamw").restore(wrong).ok());
}

TEST(Optimizer, UnknownNamesGetSuggestions) {
  Model model;
  OptimizerOptions o;
  o.name = "adamw_troch";
  const auto result = Optimizer::make(model.parameters, o);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().text().find("did you mean 'adamw_torch'"), std::string::npos)
      << result.error().text();
  for (const std::string& name : optimizer_names()) {
    o.name = name;
    EXPECT_TRUE(Optimizer::make(model.parameters, o).ok()) << name;
  }
}

// The same rule in double, element by element, over five steps with decay and a gradient factor.
TEST(Optimizer, AdamWAdamAndLionFollowTheirDefinitions) {
  CpuDevice device(2);
  const double lr = 0.01, decay = 0.1, factor = 0.7;
  for (const std::string& name : {"adamw", "adam", "lion"}) {
    Model model;
    Optimizer optimizer = make(model, name, decay);
    Parameter* p = model.parameters.find("layer.1.weight");
    const Tensor start = p->value.clone();
    std::vector<double> value(start.f32(), start.f32() + start.count()), m(value.size()), v(value.size());
    for (uint64_t step = 1; step <= 5; ++step) {
      model.set_gradients(step);
      for (size_t i = 0; i < value.size(); ++i) {
        double g = p->grad.f32()[i] * factor;
        if (name == "lion") {
          const double blend = 0.9 * m[i] + 0.1 * g;
          value[i] = value[i] * (1 - lr * decay) - lr * (blend > 0 ? 1 : -1);
          m[i] = 0.99 * m[i] + 0.01 * g;
          continue;
        }
        if (name == "adam") g += decay * value[i];
        if (name == "adamw") value[i] *= 1 - lr * decay;
        m[i] = 0.9 * m[i] + 0.1 * g, v[i] = 0.999 * v[i] + 0.001 * g * g;
        const double t = static_cast<double>(step);
        value[i] -=
            lr * (m[i] / (1 - std::pow(0.9, t))) / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8);
      }
      optimizer.step(device, lr, factor);
    }
    double worst = 0;
    for (size_t i = 0; i < value.size(); ++i)
      worst = std::max(worst, std::fabs(value[i] - p->value.f32()[i]));
    EXPECT_LT(worst, 2e-6) << name;
  }
}

TEST(Optimizer, AdafactorFactorsMatrices) {
  // One step from zero state: the estimate of a matrix is row mean x column mean / mean of row means.
  CpuDevice device(1);
  ParameterSet set;
  Parameter* p = set.add("w", {3, 4});
  p->value = random({3, 4}, 1), p->grad = random({3, 4}, 2);
  const Tensor before = p->value.clone();
  OptimizerOptions o;
  o.name = "adafactor";
  Optimizer optimizer = Optimizer::make(set, o).value();
  optimizer.step(device, 0.05);
  double row[3] = {}, col[4] = {}, mean = 0, rms = 0, size = 0, update[12];
  for (int i = 0; i < 12; ++i) {
    const double g = p->grad.f32()[i], x = before.f32()[i];
    row[i / 4] += g * g / 4, col[i % 4] += g * g / 3, mean += g * g / 12, rms += x * x / 12;
  }
  for (int i = 0; i < 12; ++i)
    update[i] = p->grad.f32()[i] / std::sqrt(row[i / 4] * col[i % 4] / mean),
    size += update[i] * update[i] / 12;
  for (int i = 0; i < 12; ++i)
    EXPECT_NEAR(p->value.f32()[i],
                before.f32()[i] - 0.05 * std::sqrt(rms) * update[i] / std::max(1.0, std::sqrt(size)), 1e-6);
}

// Newton-Schulz brings every singular value near 1 (0.7 to 1.2 by its construction): X X^T is near the
// identity.
TEST(Optimizer, MuonStepsAreNearlyOrthogonal) {
  CpuDevice device(2);
  for (const Shape& shape : {Shape{12, 40}, Shape{40, 12}, Shape{16, 16}}) {
    ParameterSet set;
    Parameter* p = set.add("w", shape);
    p->value = Tensor::zeros(shape), p->grad = random(shape, 3);
    OptimizerOptions o;
    o.name = "muon";
    Optimizer::make(set, o).value().step(device, 1.0);
    const int64_t rows = shape[0], cols = shape[1], n = std::min(rows, cols);
    const double ratio = std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(cols)));
    const auto at = [&](int64_t i, int64_t k) {
      return -p->value.f32()[rows <= cols ? i * cols + k : k * cols + i] / ratio;
    };
    double trace = 0, off = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double dot = 0;
        for (int64_t k = 0; k < std::max(rows, cols); ++k) dot += at(i, k) * at(j, k);
        (i == j ? trace : off) += i == j ? dot : dot * dot;
      }
    EXPECT_NEAR(trace / static_cast<double>(n), 0.85, 0.35) << shape.text();
    EXPECT_LT(std::sqrt(off / static_cast<double>(n)), 0.4) << shape.text();
  }
}

// Five steps of torch.optim.Muon (2.11) on |p - target|^2, stored in muon.json. PyTorch orthogonalises in
// bf16, makar in f32: each step may differ by the bf16 rounding error.
TEST(Optimizer, MuonFollowsPyTorch) {
  CpuDevice device(2);
  const auto cases = read_json(std::string(MAKAR_TEST_GOLDEN) + "/../optim/muon.json");
  ASSERT_TRUE(cases.ok()) << cases.error().text();
  for (const auto& [name, c] : cases->items()) {
    const Shape shape{c["shape"][0].get<int64_t>(), c["shape"][1].get<int64_t>()};
    const auto target = c["target"].get<std::vector<float>>();
    ParameterSet set;
    Parameter* p = set.add("w", shape);
    p->value = Tensor::from(shape, c["p0"].get<std::vector<float>>());
    OptimizerOptions o;
    o.name = "muon", o.weight_decay = 0.1, o.momentum = 0.95,
    o.muon_match_adamw = c["adjust"] == "match_rms_adamw";
    Optimizer optimizer = Optimizer::make(set, o).value();
    double step_squares = 0, error_squares = 0;
    for (const Json& step : c["steps"]) {
      const Tensor before = p->value.clone();
      p->grad = Tensor::empty(shape);
      for (int64_t i = 0; i < p->value.count(); ++i)
        p->grad.f32()[i] = 2 * (p->value.f32()[i] - target[static_cast<size_t>(i)]);
      optimizer.step(device, 0.05);
      for (int64_t i = 0; i < p->value.count(); ++i) {
        const float expected = step[static_cast<size_t>(i)].get<float>();
        step_squares += std::pow(expected - before.f32()[i], 2),
            error_squares += std::pow(expected - p->value.f32()[i], 2);
        p->value.f32()[i] = expected;  // each step starts from PyTorch's values
      }
    }
    EXPECT_LT(std::sqrt(error_squares / step_squares), 0.02) << name;
  }
}

TEST(Optimizer, MuonUsesAdamWForTablesAndVectors) {
  CpuDevice device(1);
  Model model;
  OptimizerOptions o;
  o.name = "muon";
  o.muon_predicate = [&](const Parameter& p) { return &p != model.parameters.find("embed.weight"); };
  Optimizer optimizer = Optimizer::make(model.parameters, o).value();
  model.set_gradients(1);
  optimizer.step(device, 0.01);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : optimizer.state()) names.push_back(name);
  const auto has = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  EXPECT_TRUE(has("embed.weight.exp_avg") && has("norm.weight.exp_avg_sq") && has("layer.0.bias.exp_avg"));
  EXPECT_TRUE(has("layer.0.weight.momentum_buffer") && !has("layer.0.weight.exp_avg"));
}

TEST(Optimizer, GroupsScaleAndDecay) {
  CpuDevice device(1);
  Model model;
  std::map<std::string, Tensor> before;
  for (const auto& p : model.parameters.all()) {
    before[p->name] = p->value.clone();
    p->grad = Tensor::full(p->shape, 1.0f);
  }
  model.parameters.find("layer.1.weight")->grad = Tensor();  // as if no gradient reached it
  model.parameters.find("norm.weight")->trainable = false;
  OptimizerOptions o;
  o.name = "sgd", o.weight_decay = 0.5;
  o.groups = {{"embed.*", {}, 2.0, 0.0},
              {"", [](const Parameter& p) { return p.shape.rank() == 1; }, 0.5, {}}};
  Optimizer::make(model.parameters, o).value().step(device, 0.1);
  const auto change = [&](const std::string& name) {
    return model.parameters.find(name)->value.f32()[0] - before[name].f32()[0];
  };
  EXPECT_NEAR(change("embed.weight"), -0.2, 1e-6);
  EXPECT_NEAR(change("layer.0.weight"), -0.1 * (1 + 0.5 * before["layer.0.weight"].f32()[0]), 1e-6);
  EXPECT_NEAR(change("layer.0.bias"), -0.05, 1e-6);
  EXPECT_EQ(change("layer.1.weight"), 0.0f);
  EXPECT_EQ(change("norm.weight"), 0.0f);
}

TEST(Optimizer, PatternsMatchNames) {
  EXPECT_TRUE(matches("*", "") && matches("*", "a.b") && matches("a.*.w", "a.b.c.w") &&
              matches("*embed*", "model.embed_tokens.weight"));
  EXPECT_TRUE(matches("a*b*c", "aXbYbZc") && matches("abc", "abc") && matches("abc*", "abc"));
  EXPECT_FALSE(matches("abc", "abcd") || matches("*x", "abc") || matches("a*b", "abc") || matches("", "a"));
}

TEST(GradientNorm, MatchesDoubleWithTheSameBitsForAnyThreadCount) {
  Model model;
  model.set_gradients(1);
  double expected = 0;
  for (const auto& p : model.parameters.all())
    for (const float g : p->grad.span()) expected += static_cast<double>(g) * g;
  CpuDevice one(1), five(5);
  const double norm = gradient_norm(one, model.parameters);
  EXPECT_NEAR(norm / std::sqrt(expected), 1.0, 1e-7);
  EXPECT_EQ(norm, gradient_norm(five, model.parameters));
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_NEAR(clip_factor(4.0, 1.0), 0.25, 1e-6);
  EXPECT_EQ(clip_factor(4.0, 0.0), 1.0);
}

}  // namespace
}  // namespace makar
