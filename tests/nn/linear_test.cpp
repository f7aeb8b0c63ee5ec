// Linear with a weight of a block type: packed and not, with an adapter.
#include "nn/linear.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cpu_device.h"
#include "kernels/quant_blocks.h"
#include "ops/elementwise.h"

namespace makar {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

struct Layer {
  ParameterSet set;
  Linear linear;
  explicit Layer(DType type) : linear(set, "l", 256, 40, true) {
    const auto bytes = kernels::test::random_blocks(type, 40 * 256, 7);
    Tensor w = Tensor::empty({40, 256}, type);
    std::memcpy(w.raw(), bytes.data(), bytes.size());
    linear.weight()->value = w, linear.weight()->trainable = false;
    linear.bias()->value = Tensor::full({40}, 0.5f);
  }
};

TEST(LinearOfBlocks, PackingChangesNoBit) {
  CpuDevice device(2);
  Context ctx{device};
  for (const DType type : kernels::test::block_types()) {
    Layer layer(type);
    const Tensor x = Tensor::from({5, 256}, kernels::test::random_floats(5 * 256, 1));
    const Tensor plain = layer.linear(ctx, x);
    layer.linear.pack(device);
    EXPECT_TRUE(same_bits(plain, layer.linear(ctx, x))) << name(type);
    layer.linear.unpack();
    EXPECT_TRUE(same_bits(plain, layer.linear(ctx, x))) << name(type);
  }
}

// The adapter and the input get gradients, the weight gets none.
TEST(LinearOfBlocks, AnAdapterTrainsOnAFrozenBlockWeight) {
  CpuDevice device(2);
  Layer layer(DType::kQ4_K);
  layer.linear.pack(device);
  auto adapter = std::make_shared<Adapter>();
  adapter->a = layer.set.add("a", {4, 256}), adapter->b = layer.set.add("b", {40, 4});
  adapter->a->value = Tensor::from({4, 256}, kernels::test::random_floats(4 * 256, 2));
  adapter->b->value = Tensor::from({40, 4}, kernels::test::random_floats(40 * 4, 3));
  const Tensor x = Tensor::from({5, 256}, kernels::test::random_floats(5 * 256, 1));
  Context plain{device};
  const Tensor without = layer.linear(plain, x);
  layer.linear.attach(adapter);
  Tape tape(device);
  Context ctx{device, &tape};
  tape.watch(x, Tensor());
  layer.set.watch(tape);
  const Tensor y = layer.linear(ctx, x);
  EXPECT_FALSE(same_bits(y, without));
  tape.backward(y, Tensor::full(y.shape(), 1.0f));
  layer.set.collect(tape);
  EXPECT_TRUE(tape.gradient(x).defined() && adapter->a->grad.defined() && adapter->b->grad.defined());
  EXPECT_FALSE(layer.linear.weight()->grad.defined());
  // The adapter is merged into the decoded weight.
  EXPECT_EQ(layer.linear.merged(plain).dtype(), DType::kF32);
}

}  // namespace
}  // namespace makar
