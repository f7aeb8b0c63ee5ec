// ELMo against its formulas in double precision: both directions, skip connections, the mix of layers, the
// loss of both directions; and the gradients of the mix against finite differences.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/cpu_device.h"
#include "models/load.h"
#include "ops/softmax.h"
#include "train/causal.h"
#include "train/classify.h"

namespace makar {
namespace {

using Rows = std::vector<std::vector<double>>;

constexpr int64_t kWidth = 8, kHalf = kWidth / 2, kVocab = 11;

Json config(const std::string& head) {
  return {{"architectures", {"Elmo" + head}},
          {"model_type", "elmo"},
          {"vocab_size", kVocab},
          {"hidden_size", kWidth},
          {"num_hidden_layers", 2},
          {"dropout", 0.0},
          {"num_labels", 3}};
}

LoadedModel elmo_model(const std::string& head) {
  auto m = make_model(Config(config(head), "config.json"));
  check(m.ok(), "invalid config in the test");
  initialize(*m->model, 7);
  return std::move(*m);
}

Batch texts(const std::vector<std::vector<int64_t>>& all) {
  Batch batch;
  for (const auto& t : all) batch.add(t);
  return batch;
}

double at(const Model& m, const std::string& name, int64_t row, int64_t column = 0) {
  const Tensor& t = m.parameters().find(name)->value;
  return t.f32()[row * (t.rank() == 2 ? t.dim(1) : 1) + column];
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// One direction of a layer with PyTorch's gates: input, forget, cell, output.
Rows lstm(const Model& m, const std::string& name, const Rows& x, bool reverse) {
  Rows out(x.size());
  std::vector<double> h(kHalf), c(kHalf);
  for (size_t step = 0; step < x.size(); ++step) {
    const size_t t = reverse ? x.size() - 1 - step : step;
    std::vector<double> gates(4 * kHalf);
    for (int64_t g = 0; g < 4 * kHalf; ++g) {
      double sum = at(m, name + ".ih.bias", g) + at(m, name + ".hh.bias", g);
      for (int64_t i = 0; i < kHalf; ++i) {
        const auto k = static_cast<size_t>(i);
        sum += at(m, name + ".ih.weight", g, i) * x[t][k] + at(m, name + ".hh.weight", g, i) * h[k];
      }
      gates[static_cast<size_t>(g)] = sum;
    }
    for (size_t i = 0; i < kHalf; ++i) {
      c[i] = sigmoid(gates[kHalf + i]) * c[i] + sigmoid(gates[i]) * std::tanh(gates[2 * kHalf + i]);
      h[i] = sigmoid(gates[3 * kHalf + i]) * std::tanh(c[i]);
    }
    out[t] = h;
  }
  return out;
}

// The embedding and the layers of a text, [layer][token][width].
std::vector<Rows> layers_of(const Model& m, const std::vector<int64_t>& tokens) {
  Rows x;
  for (const int64_t token : tokens) {
    auto& row = x.emplace_back();
    for (int64_t i = 0; i < kWidth; ++i)
      row.push_back(at(m, "encoder.embed.tokens.weight", token, i % kHalf));
  }
  std::vector<Rows> out = {x};
  for (int layer = 0; layer < 2; ++layer) {
    Rows halves[2], next = out.back();
    for (const bool back : {false, true}) {
      for (const auto& row : out.back()) {
        const auto from = row.begin() + (back ? kHalf : 0);
        halves[back].emplace_back(from, from + kHalf);
      }
      const Rows y = lstm(m, fmt::format("encoder.layers.{}.{}", layer, back ? "backward" : "forward"),
                          halves[back], back);
      for (size_t t = 0; t < y.size(); ++t)
        for (size_t i = 0; i < kHalf; ++i) {
          double& to = next[t][i + (back ? kHalf : 0)];
          to = y[t][i] + (layer > 0 ? to : 0);  // the second layer has a skip connection
        }
    }
    out.push_back(next);
  }
  return out;
}

TEST(Elmo, EmbeddingsMixAllLayersAsInThePaper) {
  CpuDevice device(1);
  Context ctx{device};
  ForwardContext f{ctx};
  for (const bool learned : {false, true}) {
    const LoadedModel m = elmo_model(learned ? "ForTokenClassification" : "ForBidirectionalLM");
    std::vector<double> shares(3, 1.0 / 3);
    if (learned) {
      Parameter& s = *m.model->parameters().find("encoder.mix.weight");
      s.value.f32()[0] = 0.3f, s.value.f32()[1] = -0.7f, s.value.f32()[2] = 1.1f;
      m.model->parameters().find("encoder.mix.scale")->value.f32()[0] = 1.7f;
      const double total = std::exp(0.3) + std::exp(-0.7) + std::exp(1.1);
      shares = {1.7 * std::exp(0.3) / total, 1.7 * std::exp(-0.7) / total, 1.7 * std::exp(1.1) / total};
    }
    const std::vector<std::vector<int64_t>> all = {{1, 2, 3, 4, 5}, {7}, {6, 6, 10}};
    const Tensor got = m.model->encode(f, texts(all));
    int64_t row = 0;
    for (const auto& text : all) {
      const auto states = layers_of(*m.model, text);
      for (size_t t = 0; t < text.size(); ++t, ++row)
        for (size_t i = 0; i < kWidth; ++i) {
          double expected = 0;
          for (size_t j = 0; j < 3; ++j) expected += shares[j] * states[j][t][i];
          EXPECT_NEAR(got.f32()[row * kWidth + static_cast<int64_t>(i)], expected, 2e-6);
        }
    }
  }
}

TEST(Elmo, TheLossIsTheMeanOfBothDirections) {
  CpuDevice device(1);
  Context ctx{device};
  ForwardContext f{ctx};
  const LoadedModel m = elmo_model("ForBidirectionalLM");
  const std::vector<std::vector<int64_t>> all = {{1, 2, 3, 4}, {9, 8}};
  double sum = 0, count = 0;
  for (const auto& text : all) {
    const Rows top = layers_of(*m.model, text)[2];
    for (size_t t = 0; t < text.size(); ++t)
      for (const bool back : {false, true}) {
        if (back ? t == 0 : t + 1 == text.size()) continue;
        std::vector<double> logits;
        double total = 0;
        for (int64_t v = 0; v < kVocab; ++v) {
          double x = at(*m.model, "head.lm.bias", v);
          for (size_t i = 0; i < kHalf; ++i)
            x += at(*m.model, "encoder.embed.tokens.weight", v, static_cast<int64_t>(i)) *
                 top[t][i + (back ? kHalf : 0)];
          logits.push_back(x), total += std::exp(x);
        }
        sum += std::log(total) - logits[static_cast<size_t>(text[back ? t - 1 : t + 1])], ++count;
      }
  }
  std::vector<int64_t> next = {2, 3, 4, ops::kIgnore, 8, ops::kIgnore};
  const auto batch = next_token_batch(*m.model, texts(all), next, 0);
  EXPECT_EQ(batch.weight, count);
  const auto loss = batch.loss(f);
  ASSERT_TRUE(loss.ok());
  EXPECT_NEAR(loss->f32()[0], sum / count, 1e-6);
}

// A direction must not see the token that it predicts.
TEST(Elmo, LogitsDependOnOneSideOnly) {
  CpuDevice device(1);
  Context ctx{device};
  ForwardContext f{ctx};
  const LoadedModel m = elmo_model("ForBidirectionalLM");
  const auto logits = [&](const std::vector<int64_t>& text, const char* logits_name) {
    Inputs in;
    in.source = texts({text});
    return m.model->outputs(ctx, m.model->hidden(f, in), in.source).at(logits_name);
  };
  for (const char* logits_name : {"forward_logits", "backward_logits"}) {
    const Tensor a = logits({1, 2, 3, 4, 5}, logits_name), b = logits({1, 2, 9, 4, 5}, logits_name);
    for (int64_t t = 0; t < 5; ++t) {
      const bool changed =
          std::memcmp(a.f32() + t * kVocab, b.f32() + t * kVocab, kVocab * sizeof(float)) != 0;
      EXPECT_EQ(changed, logits_name[0] == 'f' ? t >= 2 : t <= 2) << logits_name << " " << t;
    }
  }
}

TEST(Elmo, AHeadKeepsTheLanguageModelAndLearnsTheMix) {
  CpuDevice device(1);
  const LoadedModel lm = elmo_model("ForBidirectionalLM");
  auto m = with_head(*lm.model, lm.model->spec().config, "", "ForSequenceClassification", {"a", "b", "c"},
                     false, 3);
  ASSERT_TRUE(m.ok()) << m.error().text();
  Model& model = *m->model;
  freeze_body(model, -1);
  for (const auto& p : model.parameters().all()) {
    const bool is_new = p->name.starts_with("head.") || p->name.find(".mix.") != std::string::npos;
    EXPECT_EQ(p->trainable, is_new) << p->name;
    if (is_new) continue;
    const Tensor& before = lm.model->parameters().find(p->name)->value;
    EXPECT_EQ(std::memcmp(p->value.raw(), before.raw(), before.bytes()), 0) << p->name;
  }
  const std::vector<std::vector<int64_t>> all = {{1, 2, 3}, {4, 5}, {6, 7, 8, 9}};
  const auto loss = [&](Context& ctx) {
    ForwardContext f{ctx};
    Inputs in;
    in.source = texts(all);
    const Tensor y = model.outputs(ctx, model.hidden(f, in), in.source).at("logits");
    return ops::cross_entropy(ctx, y, std::vector<int64_t>{0, 1, 2});
  };
  // Large enough that the loss depends on the mix.
  Tensor weight = model.parameters().find("head.classifier.weight")->value;
  for (int64_t i = 0; i < weight.count(); ++i) weight.f32()[i] *= 10.0f;
  for (const char* name : {"encoder.mix.weight", "encoder.mix.scale"}) {
    Tensor value = model.parameters().find(name)->value;
    for (int64_t i = 0; i < value.count(); ++i) value.f32()[i] += 0.2f * static_cast<float>(i);
  }
  Tape tape(device);
  Context ctx{device, &tape};
  for (const auto& p : model.parameters().all()) tape.watch(p->value);
  const Tensor y = loss(ctx);
  tape.backward(y, Tensor::from(y.shape(), std::vector<float>{1.0f}));
  for (const char* name : {"encoder.mix.weight", "encoder.mix.scale"}) {
    Tensor value = model.parameters().find(name)->value;
    const Tensor gradient = tape.gradient(value);
    for (int64_t i = 0; i < value.count(); ++i) {
      const float original = value.f32()[i];
      double losses[2];
      for (const int side : {0, 1}) {
        value.f32()[i] = original + (side ? 0.02f : -0.02f);
        Context plain{device};
        losses[side] = static_cast<double>(loss(plain).f32()[0]);
      }
      value.f32()[i] = original;
      EXPECT_NEAR(gradient.f32()[i], (losses[1] - losses[0]) / 0.04, 2e-4) << name << " " << i;
      EXPECT_GT(std::abs(gradient.f32()[i]), 1e-3) << name << " " << i;
    }
  }
}

TEST(Elmo, BadConfigsAreErrors) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{
           {"hidden_size", 7}, {"num_hidden_layers", 0}, {"architectures", {"ElmoForQuestionAnswering"}}}) {
    Json c = config("ForBidirectionalLM");
    c[key] = value;
    const auto m = make_model(Config(c, "config.json"));
    ASSERT_FALSE(m.ok()) << key;
    EXPECT_NE(m.error().text().find(key), std::string::npos) << m.error().text();
  }
}

}  // namespace
}  // namespace makar
