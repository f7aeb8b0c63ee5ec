// The tape: accumulation into a given buffer, shared gradients of residual paths, unused outputs; checkpoints
// that change no bit. Also properties of losses, dropout and batch norm that the op table does not check.
#include "ops/tape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "ops/checkpoint.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {
namespace {

void expect_all(const Tensor& t, float value) {
  for (const float v : t.span()) EXPECT_EQ(v, value);
}

Tensor random(const Shape& shape, uint64_t salt) {
  Tensor t = Tensor::empty(shape);
  const Rng rng(salt, Purpose::kSynthetic);
  for (int64_t i = 0; i < t.count(); ++i) t.f32()[i] = 0.5f * rng.normal(static_cast<uint64_t>(i));
  return t;
}
bool same_bits(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.shape() == b.shape() && !std::memcmp(a.raw(), b.raw(), a.bytes());
}

class TapeTest : public testing::Test {
 protected:
  CpuDevice device_{2};
};

TEST_F(TapeTest, AddsToTheGivenBufferOverSeveralRuns) {
  const Tensor w = random({3, 4}, 1), sum = Tensor::zeros({3, 4});
  for (int run = 0; run < 3; ++run) {
    Tape tape(device_);
    Context ctx{device_, &tape};
    tape.watch(w, sum);
    tape.backward(ops::sum(ctx, ops::scale(ctx, w, 2.0f)));
    EXPECT_EQ(tape.gradient(w).raw(), sum.raw());
  }
  for (const float g : sum.span()) EXPECT_EQ(g, 6.0f);
}

// The context ends, and its memory is overwritten, before the backward pass.
TEST_F(TapeTest, RecordsOutliveTheContext) {
  const Tensor x = random({4, 6}, 1), w = random({6, 6}, 2), g = random({6}, 3);
  const auto gradient = [&](bool destroy_context) {
    Tape tape(device_);
    tape.watch(x), tape.watch(w), tape.watch(g);
    alignas(Context) std::byte storage[sizeof(Context)];
    auto* ctx = new (storage) Context{device_, &tape, true, 5};
    const auto body = [&](Context& c, const std::vector<Tensor>& t) {
      return ops::dropout(c, ops::linear(c, ops::rms_norm(c, t[0], g, 1e-5f), w), 0.2f);
    };
    const Tensor y = ops::checkpoint(*ctx, {body(*ctx, {x})}, body);
    const Tensor loss = ops::mean(*ctx, ops::multiply(*ctx, y, ops::log_softmax(*ctx, y)));
    if (destroy_context) {
      ctx->~Context();
      std::memset(storage, 0xff, sizeof(storage));
    }
    tape.backward(loss);
    return tape.gradient(w);
  };
  EXPECT_TRUE(same_bits(gradient(true), gradient(false)));
}

// The gradient of sum(x + other + 3 x + x) is one tensor that several ops receive; none may write into it.
TEST_F(TapeTest, GradientsOfResidualsStaySeparate) {
  const Tensor x = random({2, 3}, 1), other = random({2, 3}, 2);
  Tape tape(device_);
  Context ctx{device_, &tape};
  tape.watch(x), tape.watch(other);
  const Tensor inner = ops::scale(ctx, x, 1.0f), other_inner = ops::scale(ctx, other, 1.0f);
  const Tensor y = ops::add(ctx, ops::add(ctx, inner, other_inner), ops::scale(ctx, inner, 3.0f));
  tape.backward(ops::sum(ctx, ops::add(ctx, y, inner)));
  expect_all(tape.gradient(x), 5.0f);
  expect_all(tape.gradient(other), 1.0f);
}

TEST_F(TapeTest, GradientsOfReshapesStaySeparate) {
  const Tensor x = random({2, 3}, 1);
  Tape tape(device_);
  Context ctx{device_, &tape};
  tape.watch(x);
  const Tensor a = ops::scale(ctx, x, 1.0f), flat = ops::reshape(ctx, a, {6}),
               back = ops::reshape(ctx, flat, {3, 2});
  const Tensor y = ops::add(ctx, ops::reshape(ctx, flat, {2, 3}), ops::scale(ctx, a, 2.0f));
  tape.backward(ops::add(ctx, ops::sum(ctx, y), ops::sum(ctx, ops::scale(ctx, back, 4.0f))));
  expect_all(tape.gradient(x), 7.0f);
}

TEST_F(TapeTest, UnusedTensorsGetNoGradient) {
  const Tensor x = random({2, 3}, 1), unused = random({2}, 2), off_path = random({2, 3}, 3);
  Tape tape(device_);
  Context ctx{device_, &tape};
  for (const Tensor& t : {x, unused, off_path}) tape.watch(t);
  ops::scale(ctx, off_path, 2.0f);  // recorded, not part of the loss
  tape.backward(ops::sum(ctx, x));
  EXPECT_TRUE(tape.gradient(x).defined());
  EXPECT_FALSE(tape.gradient(unused).defined());
  EXPECT_FALSE(tape.gradient(off_path).defined());
}

TEST_F(TapeTest, ALeafCanBeTheLoss) {
  const Tensor x = Tensor::full({}, 3.0f);
  Tape tape(device_);
  tape.watch(x);
  tape.backward(x);
  EXPECT_EQ(tape.gradient(x).f32()[0], 1.0f);
}

TEST_F(TapeTest, BackwardFromAVectorNeedsAGradient) {
  const Tensor x = random({3}, 1);
  Tape tape(device_);
  Context ctx{device_, &tape};
  tape.watch(x);
  const Tensor y = ops::scale(ctx, x, 2.0f);
  EXPECT_THROW(tape.backward(y), ContractError);
}

TEST_F(TapeTest, WithoutATapeNothingIsKept) {
  Context ctx{device_};
  const Tensor x = random({4, 4}, 1);
  const Tensor y = ops::activate(ctx, x, ops::Activation::kTanh);
  EXPECT_TRUE(x.exclusive());
  EXPECT_TRUE(y.exclusive());
}

// A small network: blocks of norm, linear, dropout and residual, parameters inside, one tensor used by all
// blocks.
struct Network {
  Tensor x = random({9, 16}, 1), memory = random({9, 16}, 2);
  std::vector<Tensor> weights;
  static constexpr int kBlocks = 3;
  Network() {
    for (uint64_t b = 0; b < kBlocks; ++b) {
      weights.push_back(random({16}, 10 + b));
      weights.push_back(random({16, 16}, 20 + b));
      weights.push_back(random({16, 16}, 30 + b));
    }
  }
  Tensor block(Context& ctx, const Tensor& h, const Tensor& mem, size_t b) const {
    const Tensor n = ops::rms_norm(ctx, h, weights[3 * b], 1e-6f, 1.0f);
    const Tensor up = ops::gated(ctx, ops::linear(ctx, n, weights[3 * b + 1]), ops::add(ctx, n, mem),
                                 ops::Activation::kSilu);
    return ops::add(
        ctx, h, ops::dropout(ctx, ops::linear(ctx, ops::dropout(ctx, up, 0.2f), weights[3 * b + 2]), 0.2f));
  }
  // Loss and all gradients. `depth` nests checkpoints: 0 none, 1 around each block, 2 another around them
  // all.
  std::vector<Tensor> run(Device& device, int depth) const {
    Tape tape(device);
    Context ctx{device, &tape, true, 3, 4};
    tape.watch(x), tape.watch(memory);
    for (const Tensor& w : weights) tape.watch(w);
    const auto all = [&](Context& c, const std::vector<Tensor>& in) {
      // The inputs of the blocks' checkpoints are not leaves.
      Tensor h = ops::scale(c, in[0], 1.5f);
      const Tensor mem = ops::scale(c, in[1], 0.5f);
      for (size_t b = 0; b < kBlocks; ++b)
        h = depth == 0
                ? block(c, h, mem, b)
                : ops::checkpoint(c, {h, mem}, [this, b](Context& inner, const std::vector<Tensor>& t) {
                    return block(inner, t[0], t[1], b);
                  });
      return h;
    };
    const Tensor h = depth == 2 ? ops::checkpoint(ctx, {x, memory}, all) : all(ctx, {x, memory});
    const Tensor loss = ops::sum(ctx, ops::activate(ctx, h, ops::Activation::kSquare));
    tape.backward(loss);
    std::vector<Tensor> out = {loss, tape.gradient(x), tape.gradient(memory)};
    for (const Tensor& w : weights) out.push_back(tape.gradient(w));
    return out;
  }
};

TEST_F(TapeTest, CheckpointsChangeNoBit) {
  const Network net;
  const auto plain = net.run(device_, 0);
  for (const int depth : {1, 2}) {
    const auto again = net.run(device_, depth);
    for (size_t i = 0; i < plain.size(); ++i)
      EXPECT_TRUE(same_bits(plain[i], again[i])) << "depth " << depth << ", tensor " << i;
  }
}

TEST_F(TapeTest, ACheckpointMayReturnItsInput) {
  const Tensor x = random({3}, 1);
  Tape tape(device_);
  Context ctx{device_, &tape};
  tape.watch(x);
  const Tensor h = ops::scale(ctx, x, 2.0f);
  const Tensor y =
      ops::checkpoint(ctx, {h, h, Tensor()}, [](Context&, const std::vector<Tensor>& in) { return in[1]; });
  tape.backward(ops::sum(ctx, y));
  expect_all(tape.gradient(x), 2.0f);
}

TEST_F(TapeTest, LinearCrossEntropyInBlocksEqualsSeparateOps) {
  const Tensor x = random({37, 24}, 1), w = random({50, 24}, 2), b = random({50}, 3);
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < 37; ++i) targets.push_back(i % 4 == 1 ? ops::kIgnore : i * 3 % 50);
  const auto run = [&](int64_t block_logits, float cap) {
    Tape tape(device_);
    Context ctx{device_, &tape};
    for (const Tensor& t : {x, w, b}) tape.watch(t);
    ops::CrossEntropyOptions o{0.1f, ops::Reduction::kMean, cap};
    Tensor loss;
    if (block_logits) {
      o.max_logits = block_logits;
      loss = ops::linear_cross_entropy(ctx, x, w, b, targets, o);
    } else {
      Tensor logits = ops::linear(ctx, x, w, b);
      if (cap > 0) logits = ops::soft_cap(ctx, logits, cap);
      loss = ops::cross_entropy(ctx, logits, targets, o);
    }
    tape.backward(ops::scale(ctx, loss, 0.5f));
    return std::vector<Tensor>{loss, tape.gradient(x), tape.gradient(w), tape.gradient(b)};
  };
  const auto one_block = run(1 << 20, 0), capped = run(1 << 20, 3.0f);
  for (const int64_t block_logits : {int64_t{1}, int64_t{7 * 50}, int64_t{36 * 50}})
    for (size_t i = 0; i < one_block.size(); ++i) {
      EXPECT_TRUE(same_bits(one_block[i], run(block_logits, 0)[i]))
          << "blocks of " << block_logits << " logits, tensor " << i;
      EXPECT_TRUE(same_bits(capped[i], run(block_logits, 3.0f)[i]))
          << "capped, blocks of " << block_logits << " logits, tensor " << i;
    }
  const auto parts = run(0, 0), capped_parts = run(0, 3.0f);
  EXPECT_TRUE(same_bits(one_block[0], parts[0]));
  for (size_t i = 0; i < one_block.size(); ++i)
    for (int64_t j = 0; j < one_block[i].count(); ++j) {
      EXPECT_NEAR(one_block[i].f32()[j], parts[i].f32()[j], 1e-6);
      EXPECT_NEAR(capped[i].f32()[j], capped_parts[i].f32()[j], 1e-6);
    }
}

TEST_F(TapeTest, DropoutKeepsItsRateAndDrawsByCall) {
  Context ctx{device_, nullptr, true, 5, 1};
  const Tensor ones = Tensor::full({400, 100}, 1.0f);
  const Tensor a = ops::dropout(ctx, ones, 0.3f), b = ops::dropout(ctx, ones, 0.3f);
  int64_t dropped = 0, both = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    dropped += a.f32()[i] == 0.0f;
    both += a.f32()[i] == 0.0f && b.f32()[i] == 0.0f;
    if (a.f32()[i] != 0.0f) ASSERT_FLOAT_EQ(a.f32()[i], 1.0f / 0.7f);
  }
  EXPECT_NEAR(static_cast<double>(dropped) / 40000, 0.3, 0.01);
  EXPECT_NEAR(static_cast<double>(both) / 40000, 0.09, 0.01) << "two calls draw different values";
  ctx.stream = 0;
  EXPECT_TRUE(same_bits(a, ops::dropout(ctx, ones, 0.3f)));
  ctx.training = false;
  EXPECT_EQ(ops::dropout(ctx, ones, 0.3f).id(), ones.id());
}

TEST_F(TapeTest, BatchNormKeepsRunningStatistics) {
  Context ctx{device_, nullptr, true};
  const Tensor x = random({11, 3}, 1), w = Tensor::full({3}, 1.0f), b = Tensor::zeros({3});
  ops::BatchNormState state{Tensor::full({3}, 0.5f), Tensor::full({3}, 2.0f), 0.1f};
  ops::batch_norm(ctx, x, w, b, 1e-5f, state);
  for (int64_t j = 0; j < 3; ++j) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < 11; ++i) mean += x.f32()[i * 3 + j] / 11;
    for (int64_t i = 0; i < 11; ++i)
      var += std::pow(x.f32()[i * 3 + j] - mean, 2) / 10;  // unbiased, as in PyTorch
    EXPECT_NEAR(state.running_mean.f32()[j], 0.45 + 0.1 * mean, 1e-6);
    EXPECT_NEAR(state.running_var.f32()[j], 1.8 + 0.1 * var, 1e-6);
  }
}

}  // namespace
}  // namespace makar
