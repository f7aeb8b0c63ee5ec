// Recurrent layers: gradients by differences, state carried between calls, threads. Values against PyTorch
// are in the golden components.
#include "nn/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "ops/shape.h"

namespace makar {
namespace {

Tensor random(const Shape& shape, uint64_t salt, float by = 0.5f) {
  Tensor t = Tensor::empty(shape);
  const Rng rng(salt, Purpose::kSynthetic);
  for (int64_t i = 0; i < t.count(); ++i) t.f32()[i] = by * rng.normal(static_cast<uint64_t>(i));
  return t;
}

struct Layer {
  ParameterSet parameters;
  Recurrent recurrent;
  explicit Layer(const RecurrentOptions& o) : recurrent(parameters, "rnn.", o) {
    uint64_t salt = 100;
    for (const auto& p : parameters.all()) p->value = random(p->shape, ++salt);
  }
};

constexpr CellKind kKinds[] = {CellKind::kRnn, CellKind::kLstm, CellKind::kGru};

TEST(Recurrent, NamesAndShapesAreTorchs) {
  Layer layer({CellKind::kLstm, 5, 3, 2, true});
  EXPECT_EQ(layer.parameters.all().size(), 16u);
  EXPECT_TRUE((layer.parameters.find("rnn.weight_ih_l1_reverse")->shape == Shape{12, 6}));
  EXPECT_TRUE((layer.parameters.find("rnn.weight_hh_l0")->shape == Shape{12, 3}));
}

// The whole gradient along random directions, by central differences in f32 with a large step.
TEST(Recurrent, GradientsEqualDifferences) {
  for (const CellKind kind : kKinds) {
    Layer layer({kind, 4, 3, 2, true});
    const Tensor x = random({2, 5, 4}, 1);
    CpuDevice device(1);
    const Tensor weights = random({2, 5, 6}, 2, 1.0f);
    const auto loss = [&](Context& ctx) {
      const Tensor y = layer.recurrent.forward(ctx, x).sequence;
      double total = 0;
      for (int64_t i = 0; i < y.count(); ++i) total += static_cast<double>(y.f32()[i]) * weights.f32()[i];
      return std::pair<Tensor, double>(y, total);
    };
    Tape tape(device);
    Context ctx{device, &tape};
    layer.parameters.watch(tape), tape.watch(x);
    tape.backward(loss(ctx).first, weights);
    layer.parameters.collect(tape);
    const auto compare = [&](const Tensor& value, const Tensor& grad, const std::string& name) {
      ASSERT_TRUE(grad.defined()) << name;
      double norm = 0, difference = 0;
      for (const float g : grad.span()) norm += static_cast<double>(g) * g;
      const Tensor kept = value.clone();
      Context plain{device};
      for (uint64_t n = 0; n < 6; ++n) {
        const Tensor d = random(value.shape(), 1000 + n, 1.0f);
        double along = 0, ends[2];
        for (int64_t i = 0; i < d.count(); ++i) along += static_cast<double>(d.f32()[i]) * grad.f32()[i];
        for (const int side : {0, 1}) {
          for (int64_t i = 0; i < d.count(); ++i)
            value.f32()[i] = kept.f32()[i] + (side ? 2e-3f : -2e-3f) * d.f32()[i];
          ends[side] = loss(plain).second;
        }
        difference += std::pow(along - (ends[1] - ends[0]) / 4e-3, 2) / 6;
      }
      std::copy_n(kept.f32(), kept.count(), value.f32());
      EXPECT_LT(std::sqrt(difference / norm), 1e-3) << name;
    };
    compare(x, tape.gradient(x), "x");
    for (const auto& p : layer.parameters.all()) compare(p->value, p->grad, p->name);
  }
}

TEST(Recurrent, TwoHalvesWithTheStateBetweenEqualTheWhole) {
  CpuDevice device(2);
  Context ctx{device};
  for (const CellKind kind : kKinds) {
    Layer layer({kind, 4, 3, 2, false});
    const Tensor x = random({1, 9, 4}, 1);
    const auto whole = layer.recurrent.forward(ctx, x);
    const Tensor rows = x.reshape({9, 4});
    const auto first = layer.recurrent.forward(ctx, rows.slice(0, 4).reshape({1, 4, 4}));
    const auto second = layer.recurrent.forward(ctx, rows.slice(4, 9).reshape({1, 5, 4}), first.last);
    const float* at = whole.sequence.f32();
    EXPECT_EQ(std::memcmp(at, first.sequence.raw(), first.sequence.bytes()), 0);
    EXPECT_EQ(std::memcmp(at + 12, second.sequence.raw(), second.sequence.bytes()), 0);
    EXPECT_EQ(std::memcmp(whole.last[1].h.raw(), second.last[1].h.raw(), whole.last[1].h.bytes()), 0);
  }
}

TEST(Recurrent, ASequenceIsTheSameAloneAndInABatch) {
  CpuDevice device(2);
  Context ctx{device};
  for (const CellKind kind : kKinds) {
    Layer layer({kind, 4, 3, 2, true});
    const Tensor x = random({7, 6, 4}, 1);
    const Tensor all = layer.recurrent.forward(ctx, x).sequence,
                 alone = layer.recurrent.forward(ctx, x.slice(3, 4)).sequence;
    EXPECT_EQ(std::memcmp(all.slice(3, 4).raw(), alone.raw(), alone.bytes()), 0);
  }
}

}  // namespace
}  // namespace makar
