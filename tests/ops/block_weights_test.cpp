// Weights of GGUF's block types in ops: look-up dequantizes rows, losses use the logits of the plain product.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cpu_device.h"
#include "kernels/decode_blocks.h"
#include "kernels/quant_blocks.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/softmax.h"

namespace makar {
namespace {

using kernels::test::block_types;

Tensor block_weight(DType type, int64_t rows, int64_t cols) {
  const auto bytes = kernels::test::random_blocks(type, rows * cols, 21);
  Tensor w = Tensor::empty({rows, cols}, type);
  std::memcpy(w.raw(), bytes.data(), bytes.size());
  return w;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

TEST(BlockWeights, EmbeddingDecodesRows) {
  CpuDevice device(2);
  Context ctx{device};
  const std::vector<int64_t> ids = {3, 0, 6, 3};
  for (const DType type : block_types()) {
    const Tensor w = block_weight(type, 7, 512), y = ops::embedding(ctx, w, ids);
    std::vector<float> row(512);
    for (size_t i = 0; i < ids.size(); ++i) {
      kernels::decode_blocks(type, w.slice(ids[i], ids[i] + 1).raw(), 512, row.data());
      EXPECT_EQ(0, std::memcmp(row.data(), y.f32() + i * 512, 512 * sizeof(float))) << name(type);
    }
  }
}

TEST(BlockWeights, DecodedIsDecodeBlocks) {
  CpuDevice device(2);
  for (const DType type : block_types()) {
    const Tensor w = block_weight(type, 70, 256), decoded = ops::decode_to_f32(device, w);
    Tensor want = Tensor::empty(w.shape());
    kernels::decode_blocks(type, w.raw(), w.count(), want.f32());
    EXPECT_TRUE(same_bits(decoded, want)) << name(type);
  }
}

// The training loss uses the sampler's logits, and x gets the gradient of the dequantized head.
TEST(BlockWeights, FusedLossUsesTheLogitsOfTheProduct) {
  CpuDevice device(2);
  for (const DType type : {DType::kQ8_0, DType::kQ4_K}) {
    const Tensor w = block_weight(type, 50, 256);
    const auto values = kernels::test::random_floats(9 * 256, 2);
    const Tensor x = Tensor::from({9, 256}, values);
    std::vector<int64_t> targets;
    for (int64_t i = 0; i < 9; ++i) targets.push_back(i * 5);
    const auto gradient = [&](bool fused, Tensor& loss) {
      Tape tape(device);
      Context ctx{device, &tape};
      tape.watch(x, Tensor());
      loss = fused ? ops::linear_cross_entropy(ctx, x, w, {}, targets, {})
                   : ops::cross_entropy(ctx, ops::linear(ctx, x, w), targets, {});
      tape.backward(loss, Tensor::full({}, 1.0f));
      return tape.gradient(x);
    };
    Tensor fused, plain;
    const Tensor a = gradient(true, fused), b = gradient(false, plain);
    EXPECT_TRUE(same_bits(fused, plain)) << name(type);
    EXPECT_TRUE(same_bits(a, b)) << name(type);
  }
}

}  // namespace
}  // namespace makar
