#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tensor/block_pool.h"

namespace makar {
namespace {

Tensor iota_tensor(const Shape& shape) {
  Tensor t = Tensor::empty(shape);
  std::iota(t.f32(), t.f32() + t.count(), 0.0f);
  return t;
}

TEST(Shape, CountsIndexesAndPrints) {
  const Shape s{2, 17, 64};
  EXPECT_EQ(s.count(), 2 * 17 * 64);
  EXPECT_EQ(s[-1], 64);
  EXPECT_EQ(s.text(), "[2, 17, 64]");
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_EQ((Shape{3, 0}).count(), 0);
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_THROW((void)s[3], ContractError);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), ContractError);
}

TEST(Tensor, ViewsShareStorageAndHaveTheirOwnIdentity) {
  const Tensor t = iota_tensor({4, 3});
  const Tensor rows = t.slice(1, 3), flat = t.reshape({12}), copy = t;
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(rows.f32()[0], 3.0f);
  rows.f32()[0] = 99;
  EXPECT_EQ(flat.f32()[3], 99.0f);
  EXPECT_EQ(copy.id(), t.id());
  EXPECT_NE(flat.id(), t.id());
  EXPECT_FALSE(t.exclusive());
  const Tensor clone = t.clone();
  clone.f32()[0] = 7;
  EXPECT_EQ(t.f32()[0], 0.0f);
  EXPECT_TRUE(clone.exclusive());
  EXPECT_EQ(t.slice(4, 4).count(), 0);
}

TEST(Tensor, BrokenContractsThrow) {
  const Tensor t = iota_tensor({4, 3});
  EXPECT_THROW(t.slice(2, 5), ContractError);
  EXPECT_THROW(t.slice(-1, 2), ContractError);
  EXPECT_THROW(t.slice(3, 2), ContractError);
  EXPECT_THROW(t.reshape({5}), ContractError);
  EXPECT_THROW((void)t.i64(), ContractError);
  EXPECT_THROW((void)t.data<double>(), ContractError);
  EXPECT_THROW(Tensor::empty({2, -1}), ContractError);
  EXPECT_THROW(Tensor::empty({2, 33}, DType::kQ8_0), ContractError);
  const float two[] = {1, 2};
  EXPECT_THROW(Tensor::from({3}, std::span<const float>(two)), ContractError);
}

TEST(Tensor, BlockTypesCountWholeBlocks) {
  const Tensor q = Tensor::zeros({3, 64}, DType::kQ8_0);
  EXPECT_EQ(q.bytes(), 3u * 2 * 34);
  EXPECT_EQ(q.slice(1, 2).address() - q.address(), 2 * 34);
  EXPECT_THROW(q.reshape({6, 16, 2}), ContractError);
}

TEST(Tensor, AViewKeepsItsBytesAlive) {
  auto bytes = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const std::weak_ptr<std::vector<float>> watch = bytes;
  Tensor view = Tensor::view_of(reinterpret_cast<const std::byte*>(bytes->data()), {3}, DType::kF32, bytes);
  bytes.reset();
  const Tensor part = view.slice(2, 3);
  view = {};
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(part.f32()[0], 3.0f);
}

// Every f16 and bf16 value round-trips through f32 and f64; f32 is rounded to the nearest, ties to even.
TEST(Tensor, ConvertsBetweenFloatTypes) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    Tensor all = Tensor::empty({65536}, type);
    std::iota(all.data<uint16_t>(), all.data<uint16_t>() + 65536, uint16_t{0});
    for (const DType through : {DType::kF32, DType::kF64}) {
      const Tensor back = all.to(through).to(type);
      for (int i = 0; i < 65536; ++i) {
        const auto bits = static_cast<uint16_t>(i);
        if (std::isnan(type == DType::kF16 ? from_f16(bits) : from_bf16(bits))) continue;
        ASSERT_EQ(back.data<uint16_t>()[i], bits) << name(type) << " " << i;
      }
    }
  }
  EXPECT_EQ(to_f16(1.0f + 0x1p-11f), to_f16(1.0f)) << "a tie goes to even";
  EXPECT_EQ(from_f16(to_f16(1.0f + 3 * 0x1p-11f)), 1.0f + 0x1p-9f);
  EXPECT_EQ(from_f16(to_f16(65520.0f)), INFINITY);
  EXPECT_EQ(from_f16(to_f16(65519.0f)), 65504.0f);
  EXPECT_EQ(from_f16(to_f16(0x1p-24f)), 0x1p-24f) << "subnormal";
  EXPECT_EQ(from_f16(to_f16(0x1p-26f)), 0.0f);
  EXPECT_TRUE(std::isnan(from_f16(to_f16(NAN))) && std::isnan(from_bf16(to_bf16(NAN))));
  EXPECT_EQ(from_bf16(to_bf16(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(from_bf16(to_bf16(std::numeric_limits<float>::max())), INFINITY);
  const int64_t integers[] = {-3, 0, 1 << 20};
  const Tensor ints = Tensor::from({3}, std::span<const int64_t>(integers));
  EXPECT_EQ(ints.to(DType::kF32).f32()[2], 1048576.0f);
  EXPECT_EQ(ints.to(DType::kF64).to(DType::kI64).i64()[0], -3);
  EXPECT_THROW(ints.to(DType::kQ8_0), ContractError);
}

TEST(Tensor, BytesMayBeViewedAsATypeOfTheSameSize) {
  const Tensor half = Tensor::zeros({2, 64}, DType::kF16);
  EXPECT_EQ(half.viewed_as(DType::kBF16).raw(), half.raw());
  EXPECT_THROW(half.viewed_as(DType::kF32), ContractError);
}

// A memory that the host may not address: only Tensor::to() and host() copy between it and others.
class OtherMemory : public Memory {
 public:
  OtherMemory() : Memory(false) {}
  std::byte* allocate(size_t bytes) override { return ++blocks, host_memory().allocate(bytes); }
  void deallocate(std::byte* block, size_t bytes) override {
    --blocks, host_memory().deallocate(block, bytes);
  }
  void copy_in(std::byte* to, const std::byte* host, size_t bytes) override {
    ++in, std::memcpy(to, host, bytes);
  }
  void copy_out(std::byte* host, const std::byte* from, size_t bytes) override {
    ++out, std::memcpy(host, from, bytes);
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void zero(std::byte* block, size_t bytes) override { std::memset(block, 0, bytes); }
  int blocks = 0, in = 0, out = 0;
};

TEST(Tensor, OnlyToAndHostCopyBetweenMemories) {
  OtherMemory device, second_device;
  {
    const Tensor host_tensor = iota_tensor({5}), device_tensor = host_tensor.to(device);
    EXPECT_EQ(device.in, 1);
    EXPECT_THROW((void)device_tensor.f32(), ContractError);
    EXPECT_THROW((void)device_tensor.raw(), ContractError);
    EXPECT_EQ(device_tensor.to(device).id(), device_tensor.id()) << "already in that memory: the same handle";
    EXPECT_EQ(host_tensor.host().id(), host_tensor.id());
    EXPECT_EQ(device_tensor.host().f32()[4], 4.0f);
    const Tensor second_tensor = device_tensor.clone().to(second_device);
    EXPECT_EQ(&second_tensor.memory(), &second_device);
    EXPECT_EQ(second_tensor.host().f32()[3], 3.0f);
  }
  EXPECT_EQ(device.blocks, 0);
  EXPECT_EQ(second_device.blocks, 0);
}

TEST(BlockPool, RecyclesBlocksAndCountsBytes) {
  BlockPool pool;
  std::byte* first = pool.allocate(1 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_GE(pool.used(), size_t{1} << 20);
  pool.deallocate(first, 1 << 20);
  EXPECT_EQ(pool.used(), 0u);
  std::byte* second = pool.allocate(1 << 20);
  EXPECT_EQ(second, first);
  std::byte* third = pool.allocate(1 << 20);
  EXPECT_NE(third, second);
  EXPECT_GE(pool.peak(), size_t{2} << 20);
  pool.deallocate(second, 1 << 20), pool.deallocate(third, 1 << 20);
  pool.trim();
}

}  // namespace
}  // namespace makar
