// Recurrent layers and attention to a source: gradients by finite differences, ragged batches, closed forms.
// The golden components compare values with PyTorch; tests/models/bits_test.cpp tests caches.
#include "nn/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "ops/shape.h"

namespace makar {
namespace {

Tensor random(const Shape& shape, uint64_t salt, float scale = 0.5f) {
  Tensor t = Tensor::empty(shape);
  const Rng rng(salt, Purpose::kSynthetic);
  for (int64_t i = 0; i < t.count(); ++i) t.f32()[i] = scale * rng.normal(static_cast<uint64_t>(i));
  return t;
}

void fill(ParameterSet& parameters, float scale = 0.5f) {
  uint64_t salt = 100;
  for (const auto& p : parameters.all()) p->value = random(p->shape, ++salt, scale);
}

AttentionInputs sequences(const std::vector<int64_t>& lengths) {
  AttentionInputs in;
  int64_t at = 0;
  for (const int64_t n : lengths) in.self.rows.push_back({at, n, at, n, 0, 0}), at += n;
  return in;
}

// The derivative of sum(weights * run()) along random directions, by differences of four points: their error
// is of the fourth order, so that steps can be large enough for the rounding of f32 not to matter.
void expect_gradients(Device& device, const std::vector<std::pair<std::string, Tensor>>& leaves,
                      const std::function<Tensor(Context&)>& run) {
  constexpr float kStep = 1e-2f;
  constexpr double kMaxError = 1e-3;
  Tape tape(device);
  Context ctx{device, &tape};
  for (const auto& [name, leaf] : leaves) tape.watch(leaf);
  const Tensor y = run(ctx);
  const Tensor weights = random(y.shape(), 2, 1.0f);
  const auto value = [&] {
    Context plain{device};
    const Tensor output = run(plain);
    double total = 0;
    for (int64_t i = 0; i < output.count(); ++i)
      total += static_cast<double>(output.f32()[i]) * weights.f32()[i];
    return total;
  };
  tape.backward(y, weights);
  for (const auto& [name, leaf] : leaves) {
    const Tensor grad = tape.gradient(leaf);
    ASSERT_TRUE(grad.defined()) << name;
    double norm = 0, difference = 0;
    for (const float g : grad.span()) norm += static_cast<double>(g) * g;
    const Tensor original = leaf.clone();
    Tensor changed = leaf;
    for (uint64_t n = 0; n < 6; ++n) {
      const Tensor d = random(leaf.shape(), 1000 + n, 1.0f);
      double along = 0, slope = 0;
      for (int64_t i = 0; i < d.count(); ++i) along += static_cast<double>(d.f32()[i]) * grad.f32()[i];
      for (const auto& [steps, weight] : {std::pair(-2, 1.0), {-1, -8.0}, {1, 8.0}, {2, -1.0}}) {
        for (int64_t i = 0; i < d.count(); ++i)
          changed.f32()[i] = original.f32()[i] + kStep * static_cast<float>(steps) * d.f32()[i];
        slope += weight * value() / (12.0 * static_cast<double>(kStep));
      }
      difference += std::pow(along - slope, 2) / 6;
    }
    std::copy_n(original.f32(), original.count(), changed.f32());
    EXPECT_LT(std::sqrt(difference / norm), kMaxError) << name;
  }
}

constexpr CellKind kKinds[] = {CellKind::kRnn, CellKind::kLstm, CellKind::kGru};

BlockSpec layer_spec(CellKind kind, int64_t hidden, bool bidirectional, bool separate = false) {
  BlockSpec b;
  b.recurrent = RecurrentSpec{kind, hidden, bidirectional, separate};
  return b;
}

TEST(Recurrent, GradientsEqualFiniteDifferences) {
  CpuDevice device(1);
  for (const CellKind kind : kKinds)
    for (const bool separate : {false, true}) {
      ParameterSet set;
      const RecurrentLayer layer(set, "l", 4, layer_spec(kind, 3, true, separate));
      fill(set);
      const Tensor x = random({9, 4}, 1);
      const AttentionInputs in = sequences({2, 4, 3});
      std::vector<std::pair<std::string, Tensor>> leaves = {{"x", x}};
      for (const auto& p : set.all()) leaves.emplace_back(p->name, p->value);
      expect_gradients(device, leaves, [&](Context& ctx) {
        ForwardContext f{ctx};
        return layer(f, x, in, 0);
      });
    }
}

TEST(Recurrent, ASequenceIsTheSameAloneAndInARaggedBatch) {
  CpuDevice device(2);
  Context ctx{device};
  ForwardContext f{ctx};
  for (const CellKind kind : kKinds) {
    ParameterSet set;
    const RecurrentLayer layer(set, "l", 4, layer_spec(kind, 3, true));
    fill(set);
    const Tensor x = random({12, 4}, 1);
    const Tensor all = layer(f, x, sequences({3, 7, 2}), 0),
                 alone = layer(f, x.slice(3, 10), sequences({7}), 0);
    EXPECT_EQ(std::memcmp(all.slice(3, 10).raw(), alone.raw(), alone.bytes()), 0);
  }
}

// With separate directions, the first half of a row depends on earlier rows only and the second half on later
// ones.
TEST(Recurrent, SeparateDirectionsAreIndependent) {
  CpuDevice device(1);
  Context ctx{device};
  ForwardContext f{ctx};
  ParameterSet set;
  const RecurrentLayer one(set, "a", 6, layer_spec(CellKind::kLstm, 3, true, true)),
      two(set, "b", 6, layer_spec(CellKind::kLstm, 3, true, true));
  fill(set);
  const AttentionInputs in = sequences({5});
  const auto run = [&](const Tensor& x) { return two(f, one(f, x, in, 0), in, 1); };
  Tensor x = random({5, 6}, 1);
  const Tensor before = run(x).clone();
  for (int64_t i = 0; i < 6; ++i) x.f32()[2 * 6 + i] += 1.0f;  // row 2
  const Tensor after = run(x);
  for (int64_t row = 0; row < 5; ++row)
    for (int64_t i = 0; i < 6; ++i) {
      const bool affected = i < 3 ? row >= 2 : row <= 2;
      EXPECT_EQ(before.f32()[row * 6 + i] != after.f32()[row * 6 + i], affected) << row << " " << i;
    }
}

struct AttentionCase {
  ParameterSet set;
  SourceAttention attention;
  Tensor x = random({5, 4}, 1), encoded = random({7, 4}, 3);
  AttentionInputs in = sequences({2, 3});
  AttentionCase(AlignmentSpec::Score score, AlignmentSpec::Range range, int64_t half_window = 2) {
    BlockSpec b;
    b.cross.emplace();
    b.alignment = AlignmentSpec{score, range, half_window, 8};
    attention = SourceAttention(set, "a", 4, b);
    fill(set);
    in.encoded = encoded;
    in.cross.rows = {{0, 2, 0, 3, 0, 0}, {2, 3, 3, 4, 0, 0}};
  }
  Tensor run(Context& ctx, Record* record = nullptr) const {
    ForwardContext f{ctx, nullptr, record};
    if (record) record->attention = true, record->cross_attentions.emplace_back();
    return attention(f, x, in, 0);
  }
};

using Score = AlignmentSpec::Score;
using Range = AlignmentSpec::Range;
constexpr Score kScores[] = {Score::kDot, Score::kGeneral, Score::kConcat, Score::kLocation,
                             Score::kAdditive};

TEST(SourceAttention, GradientsEqualFiniteDifferences) {
  CpuDevice device(1);
  for (const Score score : kScores)
    for (const Range range : {Range::kGlobal, Range::kMonotonic, Range::kPredictive}) {
      // The border of a window is not differentiable, so a predicted window covers the whole source here.
      const AttentionCase a(score, range, range == Range::kPredictive ? 4 : 2);
      std::vector<std::pair<std::string, Tensor>> leaves = {{"x", a.x}, {"encoded", a.encoded}};
      for (const auto& p : a.set.all()) leaves.emplace_back(p->name, p->value);
      expect_gradients(device, leaves, [&](Context& ctx) { return a.run(ctx); });
    }
}

// The weights of the second sequence from the formulas of the papers, in double precision.
TEST(SourceAttention, WeightsFollowTheFormulasOfThePapers) {
  CpuDevice device(1);
  for (const Score score : kScores)
    for (const Range range : {Range::kGlobal, Range::kMonotonic, Range::kPredictive}) {
      const AttentionCase a(score, range);
      Context ctx{device};
      Record record;
      a.run(ctx, &record);
      const Tensor got = record.cross_attentions.at(0).at(1);
      ASSERT_TRUE((got.shape() == Shape{1, 3, 4}));
      const auto weight = [&](const char* name, int64_t row, int64_t column, int64_t columns) {
        return static_cast<double>(
            a.set.find(std::string("a.") + name + ".weight")->value.f32()[row * columns + column]);
      };
      const auto product = [&](const char* name, const float* v, int64_t row) {
        double sum = 0;
        for (int64_t i = 0; i < 4; ++i) sum += weight(name, row, i, 4) * v[i];
        return sum;
      };
      for (int64_t t = 0; t < 3; ++t) {
        const float* h = a.x.f32() + (2 + t) * 4;
        double scores[4], total = 0, centre = static_cast<double>(t);
        if (range == Range::kPredictive) {
          double inner = 0;
          for (int64_t i = 0; i < 4; ++i)
            inner += weight("centre_score", 0, i, 4) * std::tanh(product("centre", h, i));
          centre = 3.0 / (1.0 + std::exp(-inner));
        }
        for (int64_t s = 0; s < 4; ++s) {
          const float* e = a.encoded.f32() + (3 + s) * 4;
          scores[s] = 0;
          for (int64_t i = 0; i < 4; ++i) {
            if (score == Score::kDot) scores[s] += static_cast<double>(h[i]) * e[i];
            if (score == Score::kGeneral) scores[s] += product("query", h, i) * e[i];
            if (score == Score::kConcat || score == Score::kAdditive)
              scores[s] +=
                  weight("score", 0, i, 4) * std::tanh(product("query", h, i) + product("key", e, i));
          }
          if (score == Score::kLocation) scores[s] = product("query", h, s);
          const bool in_window = range == Range::kGlobal || std::fabs(static_cast<double>(s) - centre) <= 2;
          scores[s] = in_window ? std::exp(scores[s]) : 0;
          total += scores[s];
        }
        for (int64_t s = 0; s < 4; ++s) {
          const double distance = static_cast<double>(s) - centre;
          const double curve =
              range == Range::kPredictive ? std::exp(-distance * distance / 2) : 1;  // deviation 2 / 2
          EXPECT_NEAR(got.f32()[t * 4 + s], scores[s] / total * curve, 1e-5);
        }
      }
    }
}

// Additive attention as an input of the cell, and the first state from the encoder.
TEST(Recurrent, DecoderGradientsEqualFiniteDifferences) {
  CpuDevice device(1);
  for (const CellKind kind : kKinds) {
    BlockSpec b = layer_spec(kind, 4, false);
    b.recurrent->reads_source = true;
    b.alignment = AlignmentSpec{Score::kAdditive};
    b.cross.emplace();
    ParameterSet set;
    const RecurrentLayer layer(set, "l", 4, b);
    fill(set);
    const Tensor x = random({5, 4}, 1), encoded = random({7, 4}, 3);
    AttentionInputs in = sequences({2, 3});
    in.cross.rows = {{0, 2, 0, 3, 0, 0}, {2, 3, 3, 4, 0, 0}};
    in.encoded = encoded;
    std::vector<std::pair<std::string, Tensor>> leaves = {{"x", x}, {"encoded", encoded}};
    for (const auto& p : set.all()) leaves.emplace_back(p->name, p->value);
    expect_gradients(device, leaves, [&](Context& ctx) {
      ForwardContext f{ctx};
      return layer(f, x, in, 0);
    });
  }
}

}  // namespace
}  // namespace makar
