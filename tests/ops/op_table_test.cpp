// Runs every row of the op table in all modes (op_table.h).
#include "ops/op_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "kernels/fence_device.h"
#include "ops/bf16.h"
#include "ops/shape.h"

namespace makar::test {
namespace {

// Draw i of a block. Blocks do not overlap, so that different inputs never share a draw.
double normal(int64_t block, int64_t i) {
  return Rng(11, Purpose::kSynthetic).normal(static_cast<uint64_t>(block << 24 | i));
}

Tensors make_inputs(const OpRow& row) {
  Tensors inputs;
  for (size_t k = 0; k < row.inputs.size(); ++k) {
    const OpInput& in = row.inputs[k];
    Tensor t = Tensor::empty(in.shape);
    for (int64_t i = 0; i < t.count(); ++i) {
      const double z = normal(static_cast<int64_t>(k), i) * in.spread + in.centre;
      t.f32()[i] = static_cast<float>(in.positive ? std::fabs(z) + 0.5 : z);
    }
    inputs.push_back(t.to(in.type));
  }
  return inputs;
}

Array to_array(const Tensor& t) {
  const Tensor f = t.to(DType::kF32);
  Array a(t.shape());
  for (int64_t i = 0; i < a.count(); ++i) a[i] = f.f32()[i];
  return a;
}

struct Outcome {
  Tensors outputs, gradients;  // gradients: one per input, undefined where none was requested
};

// The weight of output i in the scalar that is differentiated.
double weight_of(int64_t i) { return normal(500, i); }

// Runs the op; gradients of sum(weight * output) are added to `into` where given.
Outcome run(const OpRow& row, const Tensors& inputs, Device& device, bool backward, const Tensors& into = {},
            DType activations = DType::kF32) {
  Tape tape(device);
  Context ctx{device, backward ? &tape : nullptr, row.training, kSeed, kStep};
  ctx.activations = activations;
  if (backward)
    for (size_t k = 0; k < inputs.size(); ++k)
      if (row.inputs[k].differentiable) tape.watch(inputs[k], into.empty() ? Tensor() : into[k]);
  Outcome outcome{row.run(ctx, inputs), {}};
  if (!backward) return outcome;
  Tensors flat;
  for (const Tensor& y : outcome.outputs)
    flat.push_back(ops::cast_to_f32(ctx, ops::reshape(ctx, y, {y.count()})));
  const Tensor all = flat.size() == 1 ? flat[0] : ops::concat(ctx, flat, 0);
  Tensor weights = Tensor::empty(all.shape());
  for (int64_t i = 0; i < all.count(); ++i) weights.f32()[i] = static_cast<float>(weight_of(i));
  tape.backward(all, weights.to(device.memory()));
  for (size_t k = 0; k < inputs.size(); ++k)
    outcome.gradients.push_back(row.inputs[k].differentiable ? tape.gradient(inputs[k]) : Tensor());
  return outcome;
}

Outcome run(const OpRow& row, const Tensors& inputs, int threads, bool backward, const Tensors& into = {}) {
  CpuDevice device(threads);
  return run(row, inputs, device, backward, into);
}

double reference_loss(const OpRow& row, const Arrays& inputs) {
  double loss = 0;
  int64_t at = 0;
  for (const Array& y : row.reference(inputs))
    for (int64_t i = 0; i < y.count(); ++i) loss += static_cast<float>(weight_of(at++)) * y[i];
  return loss;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.defined() == b.defined() &&
         (!a.defined() || (a.shape() == b.shape() && !std::memcmp(a.raw(), b.raw(), a.bytes())));
}

void report(const OpRow& row, const char* what, double error) {
  if (std::getenv("MAKAR_OP_REPORT")) std::printf("%-9s %.2e  %s\n", what, error, row.name.c_str());
}

class OpTable : public testing::TestWithParam<const OpRow*> {};

TEST_P(OpTable, EqualsReference) {
  const OpRow& row = *GetParam();
  const Tensors inputs = make_inputs(row);
  Arrays arrays;
  for (const Tensor& t : inputs) arrays.push_back(to_array(t));
  const Arrays expected = row.reference(arrays);
  const Outcome got = run(row, inputs, 1, false);
  ASSERT_EQ(got.outputs.size(), expected.size());
  for (size_t k = 0; k < expected.size(); ++k) {
    ASSERT_TRUE(got.outputs[k].shape() == expected[k].shape)
        << got.outputs[k].shape().text() << " instead of " << expected[k].shape.text();
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < expected[k].count(); ++i) {
      const double d = got.outputs[k].f32()[i] - expected[k][i];
      difference += d * d, norm += expected[k][i] * expected[k][i];
    }
    const double error = std::sqrt(difference / std::max(norm, 1e-30));
    report(row, "forward", error);
    EXPECT_LE(error, row.forward_limit) << "output " << k;
  }
}

// For a random direction d of unit variance, the mean of ((g - g') . d)^2 is |g - g'|^2: a few directions
// measure the error of the whole gradient.
TEST_P(OpTable, GradientEqualsFiniteDifferences) {
  const OpRow& row = *GetParam();
  const Tensors inputs = make_inputs(row);
  Arrays arrays;
  for (const Tensor& t : inputs) arrays.push_back(to_array(t));
  const Outcome got = run(row, inputs, 1, true);
  constexpr double kStepSize = 1e-6;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!row.inputs[k].differentiable) continue;
    ASSERT_TRUE(got.gradients[k].defined()) << "no gradient reached input " << k;
    ASSERT_TRUE(got.gradients[k].shape() == inputs[k].shape());
    const Array g = to_array(got.gradients[k]);
    double norm = 0, difference = 0;
    for (const double x : g.v) norm += x * x;
    const auto slope = [&](const std::vector<double>& direction) {
      Arrays moved = arrays;
      for (int64_t i = 0; i < g.count(); ++i)
        moved[k][i] = arrays[k][i] + kStepSize * direction[static_cast<size_t>(i)];
      const double up = reference_loss(row, moved);
      for (int64_t i = 0; i < g.count(); ++i)
        moved[k][i] = arrays[k][i] - kStepSize * direction[static_cast<size_t>(i)];
      return (up - reference_loss(row, moved)) / (2 * kStepSize);
    };
    const bool small = g.count() <= 24;
    const int64_t directions = small ? g.count() : 8;
    for (int64_t n = 0; n < directions; ++n) {
      std::vector<double> direction(static_cast<size_t>(g.count()), 0.0);
      if (small)
        direction[static_cast<size_t>(n)] = 1.0;
      else
        for (int64_t i = 0; i < g.count(); ++i) direction[static_cast<size_t>(i)] = normal(600 + n, i);
      double along = 0;
      for (int64_t i = 0; i < g.count(); ++i) along += g[i] * direction[static_cast<size_t>(i)];
      const double d = along - slope(direction);
      difference += d * d / (small ? 1.0 : static_cast<double>(directions));
    }
    const double error = std::sqrt(difference / std::max(norm, 1e-30));
    report(row, "gradient", error);
    EXPECT_LE(error, row.gradient_limit) << "input " << k << ", gradient of norm " << std::sqrt(norm);
  }
}

// Gradients are added to a buffer that already holds values, as for a tensor that several ops use.
TEST_P(OpTable, GradientsAccumulate) {
  const OpRow& row = *GetParam();
  const Tensors inputs = make_inputs(row);
  const Outcome plain = run(row, inputs, 1, true);
  Tensors into;
  for (const Tensor& t : inputs) into.push_back(Tensor::full(t.shape(), 0.25f));
  const Outcome accumulated = run(row, inputs, 1, true, into);
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!row.inputs[k].differentiable) continue;
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < inputs[k].count(); ++i) {
      const double want = plain.gradients[k].f32()[i] + 0.25, d = into[k].f32()[i] - want;
      difference += d * d, norm += want * want;
    }
    EXPECT_LE(std::sqrt(difference / norm), 1e-6) << "input " << k;
    EXPECT_EQ(accumulated.gradients[k].raw(), into[k].raw()) << "input " << k;
  }
}

TEST_P(OpTable, SameBitsForAnyThreadCount) {
  const OpRow& row = *GetParam();
  const Tensors inputs = make_inputs(row);
  const Outcome one = run(row, inputs, 1, true);
  for (const int threads : {2, 5}) {
    const Outcome many = run(row, inputs, threads, true);
    for (size_t k = 0; k < one.outputs.size(); ++k)
      EXPECT_TRUE(same_bits(one.outputs[k], many.outputs[k]))
          << "output " << k << " on " << threads << " threads";
    for (size_t k = 0; k < inputs.size(); ++k)
      EXPECT_TRUE(same_bits(one.gradients[k], many.gradients[k]))
          << "gradient " << k << " on " << threads << " threads";
  }
}

// Expects the bits of one CPU thread on a device whose memory the host cannot access.
void expect_same_bits_on(Device& device, const OpRow& row) {
  const Tensors inputs = make_inputs(row);
  const Outcome want = run(row, inputs, 1, true);
  Tensors device_inputs;
  for (const Tensor& t : inputs) device_inputs.push_back(t.to(device.memory()));
  const Outcome got = run(row, device_inputs, device, true);
  for (size_t k = 0; k < want.outputs.size(); ++k)
    EXPECT_TRUE(same_bits(want.outputs[k], got.outputs[k].host())) << "output " << k;
  for (size_t k = 0; k < inputs.size(); ++k)
    EXPECT_TRUE(same_bits(want.gradients[k], got.gradients[k].defined() ? got.gradients[k].host() : Tensor()))
        << "gradient " << k;
}

TEST_P(OpTable, SameBitsOnTheFenceDevice) {
  FenceDevice fence(2);
  expect_same_bits_on(fence, *GetParam());
}

TEST_P(OpTable, SameBitsOnCuda) {
  static const auto cuda = open_device("cuda");
  if (!cuda.ok()) GTEST_SKIP() << cuda.error().text();
  if (GetParam()->decoded_on_gpu) GTEST_SKIP() << "the GPU decodes weights of this type";
  expect_same_bits_on(**cuda, *GetParam());
}

// Mixed precision: expects results close to f32, the same bits in a second run and, if `want` is given, its
// bits.
Outcome expect_close_in_bf16(Device& device, const OpRow& row, const Outcome* want = nullptr) {
  const Tensors inputs = make_inputs(row);
  const Outcome exact = run(row, inputs, 1, true);
  Tensors device_inputs;
  for (const Tensor& t : inputs) device_inputs.push_back(t.to(device.memory()));
  Outcome got = run(row, device_inputs, device, true, {}, DType::kBF16),
          again = run(row, device_inputs, device, true, {}, DType::kBF16);
  const auto compare = [&](const char* what, size_t k, const Tensor& f32, Tensor& value, const Tensor& second,
                           const Tensor* bits) {
    ASSERT_EQ(f32.defined(), value.defined()) << what << ' ' << k;
    if (!f32.defined()) return;
    value = value.host();
    EXPECT_TRUE(same_bits(value, second.host())) << what << ' ' << k << " differs when run again";
    if (bits) EXPECT_TRUE(same_bits(value, *bits)) << what << ' ' << k << " differs from the CPU";
    const Array a = to_array(f32), b = to_array(value);
    ASSERT_EQ(a.count(), b.count());
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < a.count(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), norm += a[i] * a[i];
    const double error = std::sqrt(difference / std::max(norm, 1e-12));
    report(row, "bf16", error);
    EXPECT_LE(error, 2e-2) << what << ' ' << k;
  };
  for (size_t k = 0; k < exact.outputs.size(); ++k)
    compare("output", k, exact.outputs[k], got.outputs[k], again.outputs[k],
            want ? &want->outputs[k] : nullptr);
  for (size_t k = 0; k < inputs.size(); ++k)
    compare("gradient", k, exact.gradients[k], got.gradients[k], again.gradients[k],
            want ? &want->gradients[k] : nullptr);
  return got;
}

TEST_P(OpTable, CloseInBf16) {
  CpuDevice one(1), many(3);
  const Outcome got = expect_close_in_bf16(one, *GetParam());
  expect_close_in_bf16(many, *GetParam(), &got);
  FenceDevice fence(2);
  expect_close_in_bf16(fence, *GetParam(), &got);
}

TEST_P(OpTable, CloseInBf16OnCuda) {
  static const auto cuda = open_device("cuda");
  if (!cuda.ok()) GTEST_SKIP() << cuda.error().text();
  if (GetParam()->integers) GTEST_SKIP() << "int8 activations differ from bf16 ones";
  expect_close_in_bf16(**cuda, *GetParam());
}

std::vector<const OpRow*> all_rows() {
  std::vector<const OpRow*> rows;
  for (const OpRow& row : op_table()) rows.push_back(&row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Rows, OpTable, testing::ValuesIn(all_rows()),
                         [](const auto& info) { return info.param->name; });

}  // namespace
}  // namespace makar::test
