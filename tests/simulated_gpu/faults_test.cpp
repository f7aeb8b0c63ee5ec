// The simulated GPU finds the faults that it is for: each kernel here is right but for one mistake.
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_map.cuh"
#include "kernels/device.h"

namespace makar::kernels::cuda {
namespace {

using simulated_gpu::KernelFault;

template <class F>
__global__ void run_kernel(F body) {
  body();
}
// Runs `body` in one block.
template <class F>
void run(unsigned threads, size_t shared, F body) {
  static const cudaError_t ready =
      cudaFuncSetAttribute(run_kernel<F>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(simulated_gpu::kMaxShared));
  cuda_check(ready, "test");
  launch(nullptr, 1, threads, shared, run_kernel<F>, body);
  cuda_check(cudaStreamSynchronize(nullptr), "test");
}
template <class F>
std::string fault_of(unsigned threads, size_t shared, F body) {
  try {
    run(threads, shared, body);
  } catch (const KernelFault& fault) {
    return fault.what();
  }
  return "none";
}
bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

class SimulatedGpu : public testing::Test {
 protected:
  void SetUp() override { set({true, false}); }
  void TearDown() override { set(before_); }
  static void set(simulated_gpu::Settings settings) {
    simulated_gpu::settings() = settings;
    cudaStreamSynchronize(nullptr);  // the order begins anew
  }

 private:
  const simulated_gpu::Settings before_ = simulated_gpu::settings();
};

// All four orders of work.
template <class F>
void in_all_orders(F body) {
  for (const bool late : {false, true})
    for (const bool reverse : {false, true}) {
      simulated_gpu::settings() = {late, reverse};
      cudaStreamSynchronize(nullptr);  // the order begins anew
      body(late, reverse);
    }
  simulated_gpu::settings() = {};
  cudaStreamSynchronize(nullptr);
}

TEST_F(SimulatedGpu, AMissingBarrierOfThreadsChangesTheResult) {
  const auto sums = [](bool with_barrier) {
    std::vector<int> wrong;
    in_all_orders([&](bool, bool) {
      int out[64];
      run(64, 64 * sizeof(int), [&out, with_barrier] {
        auto* values = reinterpret_cast<int*>(dynamic_shared());
        values[threadIdx.x] = static_cast<int>(threadIdx.x);
        if (with_barrier) __syncthreads();
        out[threadIdx.x] = values[63 - threadIdx.x];
      });
      int bad = 0;
      for (int i = 0; i < 64; ++i) bad += out[i] != 63 - i;
      wrong.push_back(bad);
    });
    return wrong;
  };
  EXPECT_EQ(sums(true), (std::vector<int>{0, 0, 0, 0}));
  for (const int bad : sums(false)) EXPECT_GT(bad, 0);
}

TEST_F(SimulatedGpu, AMissingWaitForCopiesChangesTheResult) {
  alignas(16) int from[4] = {1, 2, 3, 4};
  const auto seen = [&from](int waits) {
    int out = 0;
    run(32, 64, [&, waits] {
      if (threadIdx.x == 0) {
        copy16(shared_address(dynamic_shared()), from, true);
        copies_commit();
        copy16(shared_address(dynamic_shared() + 16), from, false);
        copies_commit();
        if (waits == 1) copies_wait<1>();  // the first group only
        if (waits == 2) copies_wait<0>();
        out = reinterpret_cast<int*>(dynamic_shared())[2] +
              100 * (reinterpret_cast<int*>(dynamic_shared())[4] == 0);
      }
      __syncthreads();
    });
    return out;
  };
  EXPECT_EQ(seen(2), 103);
  EXPECT_EQ(seen(1), 3);
  EXPECT_NE(seen(0) % 100, 3);
}

TEST_F(SimulatedGpu, ACopyWithoutAWaitAtItsBarrierChangesTheResult) {
  alignas(16) Bf16 matrix[16 * 64];
  for (int i = 0; i < 16 * 64; ++i) matrix[i] = {static_cast<uint16_t>(i)};
  const CUtensorMap map = tensor_map(matrix, 16, 64, 8);
  const auto row_and_column = [&map](bool wait) {
    uint16_t out = 0;
    run(32, 4096, [&, wait] {
      const uint32_t box = (shared_address(dynamic_shared()) + 1023) / 1024 * 1024, barrier = box + 1024;
      if (threadIdx.x == 0) {
        barrier_init(barrier, 1);
        barriers_ready();
      }
      __syncwarp();
      if (threadIdx.x == 0) {
        barrier_expect(barrier, 8 * 128);
        copy_box(box, &map, barrier, 0, 8);
      }
      if (wait) barrier_wait(barrier, 0);
      // Row 10 of the matrix, column 24: row 2 of the box, 16 bytes number 3, at 3 ^ 2.
      if (threadIdx.x == 5)
        out = *reinterpret_cast<uint16_t*>(Block::current().at(box + 2 * 128 + (3 ^ 2) * 16, 2));
    });
    return out;
  };
  EXPECT_EQ(row_and_column(true), 10 * 64 + 24);
  EXPECT_EQ(row_and_column(false), 0xFFFF);  // as the block's memory begins
}

TEST_F(SimulatedGpu, AMissingWaitAtABarrierOfOwnCopiesChangesTheResult) {
  alignas(16) const int from[4] = {5, 6, 7, 8};
  const auto seen = [&from](bool wait) {
    int out = 0;
    run(32, 64, [&, wait] {
      const uint32_t barrier = shared_address(dynamic_shared() + 16);
      if (threadIdx.x == 0) barrier_init(barrier, 1);
      __syncwarp();
      if (threadIdx.x == 3)
        copy16(shared_address(dynamic_shared()), from, true), barrier_arrive_after_copies(barrier);
      if (wait) barrier_wait(barrier, 0);
      if (threadIdx.x == 9) out = reinterpret_cast<int*>(dynamic_shared())[1];
    });
    return out;
  };
  EXPECT_EQ(seen(true), 6);
  EXPECT_NE(seen(false), 6);
}

TEST_F(SimulatedGpu, AMissingWaitForAProductChangesTheResult) {
  const auto sum = [](int waits) {
    float out = 0;
    run(128, 40960, [&out, waits] {
      const uint32_t a = (shared_address(dynamic_shared()) + 1023) / 1024 * 1024, b = a + 8192;
      auto* at = reinterpret_cast<Bf16*>(Block::current().at(a, 16));
      for (int i = static_cast<int>(threadIdx.x); i < 8192; i += 128) at[i] = {0x3F80};  // 1 everywhere
      __syncthreads();
      float d[32] = {};
      wgmma_fence();
      wgmma<64>(d, box_descriptor(a), box_descriptor(b));
      wgmma_commit();
      wgmma<64>(d, box_descriptor(a) + 2, box_descriptor(b) + 2);
      wgmma_commit();
      if (waits == 1) wgmma_wait<1>();  // the first of two
      if (waits == 2) wgmma_wait<0>();
      if (threadIdx.x == 77) out = d[21];
    });
    return out;
  };
  EXPECT_EQ(sum(2), 32.0f);
  EXPECT_EQ(sum(1), 16.0f);
  EXPECT_EQ(sum(0), 0.0f);
}

TEST_F(SimulatedGpu, CopiesToTheHostArriveWhenItWaits) {
  int on_device = 5, on_host = 0;
  cudaMemcpyAsync(&on_host, &on_device, sizeof on_host, cudaMemcpyDeviceToHost, nullptr);
  EXPECT_EQ(on_host, -1);
  cudaStreamSynchronize(nullptr);
  EXPECT_EQ(on_host, 5);
}

TEST_F(SimulatedGpu, TheDeviceOfThisProgramIsTheSimulatedOne) { EXPECT_TRUE(open_device("cuda").ok()); }

TEST_F(SimulatedGpu, ThreadsThatWaitForEverAreAFault) {
  in_all_orders([](bool, bool) {
    EXPECT_TRUE(contains(fault_of(64, 64,
                                  [] {
                                    const uint32_t barrier = shared_address(dynamic_shared());
                                    if (threadIdx.x == 0) barrier_init(barrier, 2);
                                    __syncthreads();
                                    if (threadIdx.x == 1) barrier_arrive(barrier);
                                    barrier_wait(barrier, 0);
                                  }),
                         "wait for a barrier in shared memory at byte 0, phase 0"));
    EXPECT_TRUE(contains(fault_of(64, 0,
                                  [] {
                                    if (threadIdx.x >= 32) return;
                                    if (threadIdx.x != 7) __syncwarp();
                                  }),
                         "wait for the other lanes of its warp"));
    EXPECT_TRUE(
        contains(fault_of(64, 0, [] { threadIdx.x < 32 ? sync_threads<1, 64>() : sync_threads<2, 64>(); }),
                 "wait for ever"));
  });
}

TEST_F(SimulatedGpu, ThreadsThatEndDoNotHoldUpTheOthers) {
  int sum = 0;
  run(96, 0, [&sum] {
    if (threadIdx.x >= 40) return;
    __syncthreads();
    if (__syncthreads_or(threadIdx.x == 39)) ++sum;
  });
  EXPECT_EQ(sum, 40);
}

TEST_F(SimulatedGpu, WrongAddressesAreFaults) {
  EXPECT_TRUE(contains(fault_of(32, 64, [] { store_shared(shared_address(dynamic_shared()) + 64, 1u); }),
                       "shared memory, of which there are 64"));
  EXPECT_TRUE(contains(fault_of(32, 64, [] { store_shared(shared_address(dynamic_shared()) + 2, 1u); }),
                       "not a multiple of 4"));
  EXPECT_TRUE(contains(fault_of(32, 64, [] { barrier_wait(shared_address(dynamic_shared()), 0); }),
                       "before it is initialised"));
  EXPECT_TRUE(contains(fault_of(32, 64, [] { store_shared(shared_address(dynamic_shared()) - 4, 1u); }),
                       "address -4 of shared memory"));
  EXPECT_TRUE(contains(
      fault_of(32, 0, [] { threadIdx.x == 4 ? __syncwarp() : (void)__shfl_sync(0xFFFFFFFFu, 1, 0); }),
      "of the same warp"));
  EXPECT_TRUE(contains(fault_of(32, 0,
                                [] {
                                  if (threadIdx.x == 9) __syncwarp(0xFFu);
                                }),
                       "lacks the thread itself"));
  EXPECT_TRUE(
      contains(fault_of(64, 0, [] { threadIdx.x < 32 ? sync_threads<1, 64>() : sync_threads<1, 32>(); }),
               "two counts"));
  alignas(16) static std::byte bytes[32];
  EXPECT_TRUE(contains(fault_of(32, 64, [] { copy16(shared_address(dynamic_shared()), bytes + 8, true); }),
                       "not a multiple of 16"));
  EXPECT_TRUE(contains(fault_of(32, 0,
                                [] {
                                  if (threadIdx.x < 16) __shfl_sync(0x0000FFFFu, 1, 20);
                                }),
                       "not in its mask"));
  EXPECT_TRUE(contains(fault_of(32, 64,
                                [] {
                                  const uint32_t barrier = shared_address(dynamic_shared());
                                  if (threadIdx.x > 0) return;
                                  barrier_init(barrier, 1);
                                  barrier_expect(barrier, 16);
                                  barrier_arrive(barrier);
                                }),
                       "more threads arrive"));
}

template <bool kWaits>
__global__ void add_one_kernel(int* values) {
  if constexpr (kWaits) wait_for_previous_kernel();
  values[1 + blockIdx.x] = values[0] + 1;
}
__global__ void set_kernel(int* values) {
  wait_for_previous_kernel();
  values[0] = 7;
}
TEST_F(SimulatedGpu, AMissingWaitForThePreviousKernelChangesTheResult) {
  const auto after = [](auto kernel) {
    std::vector<std::vector<int>> seen;
    in_all_orders([&](bool, bool) {
      std::vector<int> values(3);
      launch_early(nullptr, 1, 1, 0, set_kernel, values.data());
      launch_early(nullptr, 2, 1, 0, kernel, values.data());
      launch_early(nullptr, 1, 1, 0, set_kernel, values.data());
      cudaStreamSynchronize(nullptr);
      seen.push_back(values);
    });
    return seen;
  };
  for (const auto& values : after(add_one_kernel<true>)) EXPECT_EQ(values, (std::vector<int>{7, 8, 8}));
  EXPECT_EQ(after(add_one_kernel<false>)[2],
            (std::vector<int>{7, 1, 8}));  // `late`: the first block has not waited
}

TEST_F(SimulatedGpu, LaunchesThatAGpuRefusesFail) {
  const auto body = [] {};
  EXPECT_THROW(launch(nullptr, 1, 1025, 0, run_kernel<decltype(body)>, body), DeviceFailure);
  EXPECT_THROW(launch(nullptr, 0, 32, 0, run_kernel<decltype(body)>, body), DeviceFailure);
  EXPECT_THROW(launch(nullptr, 1, 32, 49 << 10, run_kernel<decltype(body)>, body),
               DeviceFailure);  // not asked for before
}

// The sum of 16 products is cut off 25 bits below the largest exponent and rounded towards zero (decision
// 0010).
TEST_F(SimulatedGpu, TensorCoresTruncate) {
  const auto one_output = [](float start, std::vector<float> left, std::vector<float> right) {
    float out = 0;
    left.resize(16), right.resize(16);
    run(32, 0, [&] {
      float d[4] = {start, start, start, start};
      uint32_t a[4], b[2];
      const int k = static_cast<int>(threadIdx.x % 4) * 2;
      for (int i = 0; i < 4; ++i)
        a[i] =
            pack_pair(left[static_cast<size_t>(k + i / 2 * 8)], left[static_cast<size_t>(k + i / 2 * 8 + 1)]);
      for (int i = 0; i < 2; ++i)
        b[i] = pack_pair(right[static_cast<size_t>(k + i * 8)], right[static_cast<size_t>(k + i * 8 + 1)]);
      mma(d, a, b[0], b[1]);
      for (const float value : d) EXPECT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(d[0]));
      if (threadIdx.x == 0) out = d[0];
    });
    return out;
  };
  EXPECT_EQ(one_output(0.5f, {1, 2, 3}, {4, 5, 6}), 32.5f);
  EXPECT_EQ(one_output(1.0f, {0x1p-25f}, {1}), 1.0f);  // the 25th bit is kept, and lost by rounding
  EXPECT_EQ(one_output(1.0f, {0x1p-25f, 0x1p-25f}, {1, 1}), 1.0f);  // 2^-24 of 1: towards zero
  EXPECT_EQ(one_output(1.0f, {0x1p-25f, 0x1p-25f, 0x1p-24f}, {1, 1, 1}), 1.0f + 0x1p-23f);
  EXPECT_EQ(one_output(1.0f, {0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-26f},
                       {1, 1, 1, 1, 1, 1, 1, 1}),
            1.0f);                                                  // each is cut off
  EXPECT_EQ(one_output(-1.0f, {0x1p-25f}, {1}), -1.0f + 0x1p-24f);  // towards zero
  EXPECT_EQ(one_output(0, {0x1p-120f}, {0x1p-20f}), 0x1p-140f);     // subnormal
  EXPECT_TRUE(std::isinf(one_output(0, {INFINITY}, {1})));
  EXPECT_TRUE(std::isnan(one_output(0, {NAN, 1}, {0, 1})));
  EXPECT_TRUE(std::isnan(one_output(0, {1, 0}, {1, INFINITY})));
  EXPECT_TRUE(std::isnan(one_output(0, {INFINITY, 1}, {1, -INFINITY})));
}

}  // namespace
}  // namespace makar::kernels::cuda
