// Devices: opening them, memory, and the fence that keeps the host out of device memory.
#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <numeric>
#include <vector>

#include "kernels/cpu_device.h"
#include "kernels/fence_device.h"
#include "tensor/tensor.h"

namespace makar {
namespace {

TEST(Device, OpensByName) {
  for (const char* name : {"cpu", "fence"}) {
    const auto device = open_device(name, 1);
    ASSERT_TRUE(device.ok()) << device.error().text();
    EXPECT_EQ((*device)->name(), name);
    EXPECT_EQ((*device)->threads(), 1);
  }
}

TEST(Device, WithoutAGpuTheErrorNamesTheCpu) {
  const auto cuda = open_device("cuda");
  if (cuda.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(cuda.error().kind, Error::Kind::kUnsupported);
  EXPECT_NE(cuda.error().text().find("use the device 'cpu'"), std::string::npos) << cuda.error().text();
}

TEST(CudaMemory, RunningOutStatesWhatWasRequestedAndWhatIsFree) {
  const auto cuda = open_device("cuda");
  if (!cuda.ok()) GTEST_SKIP() << cuda.error().text();
  Memory& memory = (*cuda)->memory();
  try {
    memory.allocate(size_t{1} << 50);
    FAIL() << "a petabyte was allocated";
  } catch (const std::bad_alloc& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("1073741824 MB were requested"), std::string::npos) << text;
    EXPECT_NE(text.find("are free; use a smaller batch"), std::string::npos) << text;
  }
  std::byte* block = memory.allocate(1 << 20);  // the device still works
  memory.zero(block, 1 << 20);
  std::byte first{1};
  memory.copy_out(&first, block, 1);
  EXPECT_EQ(first, std::byte{0});
  memory.deallocate(block, 1 << 20);
}

// 50 tensors whose sizes are and are not multiples of a block, one of them at an odd address: the GPU has the
// CPU's bits.
TEST(AdamW, TheGpuHasTheBitsOfTheCpu_cuda) {
  const auto cuda = open_device("cuda");
  if (!cuda.ok()) GTEST_SKIP() << cuda.error().text();
  CpuDevice cpu(2);
  const auto run = [](Device& device) {
    std::vector<Tensor> tensors;
    std::vector<kernels::AdamW> list;
    for (int64_t t = 0; t < 50; ++t) {
      const int64_t n = t % 7 == 0   ? 1 + t
                        : t % 7 == 1 ? 4096 * (t + 1)
                                     : 4096 * t + 3 * t + 5,
                    skip = t % 3 == 0;
      kernels::AdamW one{};
      for (float** slot : {&one.p, const_cast<float**>(&one.g), &one.m, &one.v}) {
        std::vector<float> values(static_cast<size_t>(n + skip));
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<float>(
                          (i * 2654435761u + static_cast<size_t>(t) * 40503u + tensors.size()) % 1000) /
                          500.0f -
                      (slot == &one.v ? 0.0f : 1.0f);
        tensors.push_back(Tensor::from({n + skip}, values).to(device.memory()));
        *slot = tensors.back().f32_address() + skip;
      }
      one.n = n;
      one.step = {0.95f, 0.1f, 0.05f, 1e-8f, 3e-4f, 1.25f, 0.9999f, t % 2 ? 0.01f : 0.0f, 0.7f};
      list.push_back(one);
    }
    device.adamw({list.data(), static_cast<int64_t>(list.size())});
    for (Tensor& t : tensors) t = t.host();
    return tensors;
  };
  const auto want = run(cpu), got = run(**cuda);
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_FALSE(std::memcmp(want[i].raw(), got[i].raw(), want[i].bytes()))
        << "tensor " << i / 4 << ", array " << i % 4;
}

// Rows of 16 threads and rows of a block, with and without a part of a tile at the end.
TEST(Rows, SoftmaxAndLossesHaveTheBitsOfTheCpu_cuda) {
  const auto cuda = open_device("cuda");
  if (!cuda.ok()) GTEST_SKIP() << cuda.error().text();
  CpuDevice cpu(2);
  for (const int64_t cols : {7, 1023, 1024, 2048, 2049, 5000, 32000}) {
    const int64_t rows = 5, n = rows * cols;
    const auto values = [&](uint64_t seed) {
      std::vector<float> out(static_cast<size_t>(n));
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<float>((i * 2654435761u + seed * 40503u) % 10007) / 500.0f - 10.0f;
      return Tensor::from({n}, out);
    };
    const auto run = [&](Device& device) {
      std::vector<Tensor> out;
      const auto on_device = [&](const Tensor& t) { return t.to(device.memory()); };
      const auto result = [&](int64_t count) {
        out.push_back(on_device(Tensor::from({count}, std::vector<float>(static_cast<size_t>(count), 0.5f))));
        return out.back().f32_address();
      };
      const Tensor x = on_device(values(1)), dy = on_device(values(2));
      for (const bool log : {false, true}) {
        float* y = result(n);
        device.softmax({log, x.f32_address(), y, rows, cols});
        device.softmax_backward({log, y, dy.f32_address(), result(n), rows, cols, log});
      }
      const Tensor targets = on_device(
          Tensor::from({rows}, std::vector<int64_t>{3, kernels::kIgnoredTarget, cols - 1, 0, cols / 2}));
      for (const float smoothing : {0.0f, 0.1f}) {
        const Tensor capped = on_device(values(3));
        float* losses = result(rows);
        device.cross_entropy({capped.f32_address(), result(n), targets.i64_address(), losses, rows, cols,
                              smoothing, 0.25f, smoothing > 0 ? 9.0f : 0.0f});
        device.total_loss({losses, result(1), rows, 3.0});
      }
      device.kl_target({out[2].f32_address(), result(n), result(1), n, static_cast<float>(rows)});
      device.sum({x.f32_address(), result(1), n, 0.125});
      for (Tensor& t : out) t = t.host();
      return out;
    };
    const auto want = run(cpu), got = run(**cuda);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_FALSE(std::memcmp(want[i].raw(), got[i].raw(), want[i].bytes()))
          << cols << " columns, result " << i;
  }
}

TEST(Device, UnknownNamesSuggestTheNearestName) {
  const auto device = open_device("fense");
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().text().find("did you mean 'fence'"), std::string::npos) << device.error().text();
}

TEST(Device, HostOfHostMemoryIsTheSameHandle) {
  const Tensor t = Tensor::full({3}, 2.0f);
  EXPECT_EQ(t.host().id(), t.id());
  CpuDevice cpu(1);
  EXPECT_EQ(t.to(cpu.memory()).id(), t.id());
}

std::vector<float> ascending(int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 1.0f);
  return out;
}

TEST(Fence, TensorsRoundTrip) {
  FenceDevice fence(1);
  const auto values = ascending(5000);
  const Tensor device_tensor = Tensor::from({50, 100}, values).to(fence.memory());
  EXPECT_FALSE(device_tensor.memory().is_host());
  EXPECT_EQ(&device_tensor.clone().memory(), &fence.memory());
  const Tensor row = device_tensor.slice(3, 5).clone().host();
  EXPECT_EQ(row.f32()[0], values[300]);
  const Tensor back = device_tensor.host();
  EXPECT_TRUE(std::equal(values.begin(), values.end(), back.f32()));
  const Tensor zeros = Tensor::zeros({7}, DType::kF32, fence.memory()).host();
  for (const float v : zeros.span()) EXPECT_EQ(v, 0.0f);
}

TEST(Fence, TensorsGoFromDeviceToDevice) {
  FenceDevice a(1), b(1);
  const Tensor t = Tensor::full({9}, 4.0f).to(a.memory()).to(b.memory());
  EXPECT_EQ(&t.memory(), &b.memory());
  EXPECT_EQ(t.host().f32()[8], 4.0f);
}

TEST(Fence, HostPointersOfDeviceTensorsAreRefused) {
  FenceDevice fence(1);
  const Tensor t = Tensor::full({3}, 1.0f).to(fence.memory());
  EXPECT_THROW(t.f32(), ContractError);
  EXPECT_THROW(t.raw(), ContractError);
  EXPECT_THROW(t.span(), ContractError);
  EXPECT_THROW(t.data<float>(), ContractError);
}

TEST(Fence, KernelsReadAndWriteItsMemory) {
  FenceDevice fence(2);
  const auto values = ascending(40000);  // enough for several threads
  const Tensor x = Tensor::from({40000}, values).to(fence.memory());
  const Tensor y = Tensor::empty({40000}, DType::kF32, fence.memory());
  fence.scale({x.f32_address(), y.f32_address(), 40000, 3.0f, false});
  const Tensor back = y.host();
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(back.f32()[i], 3.0f * values[i]);
}

TEST(FenceDeathTest, AddressesCannotBeDereferencedOutsideOfKernels) {
  FenceDevice fence(1);
  const Tensor t = Tensor::full({3}, 1.0f).to(fence.memory());
  fence.scale({t.f32_address(), t.f32_address(), 3, 2.0f, false});
  volatile float* p = t.f32_address();
  // Sanitizers report the fault in their own way, so only the end of the process is checked.
  EXPECT_DEATH(static_cast<void>(p[0]), "");
  EXPECT_DEATH(p[0] = 1.0f, "");
}

TEST(Fence, BlocksAreReusedAndTheArenaRestarts) {
  FenceDevice fence(1);
  std::byte* first = nullptr;
  {
    const Tensor a = Tensor::empty({100}, DType::kF32, fence.memory());
    first = a.address();
    const Tensor b = Tensor::empty({100}, DType::kF32, fence.memory());
    EXPECT_NE(b.address(), first);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b.address()) % 64, 0u);
  }
  const Tensor again = Tensor::full({100}, 5.0f).to(fence.memory());
  EXPECT_EQ(again.address(), first);
  EXPECT_EQ(again.host().f32()[99], 5.0f);
}

}  // namespace
}  // namespace makar
