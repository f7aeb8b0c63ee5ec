// Weights of block types on every device: products, decoding and embedding have the CPU's bits, and the fused
// products of a decoding step those of separate kernels.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cpu_device.h"
#include "kernels/quant_blocks.h"
#include "on_each_device.h"
#include "real_gpu.h"
#include "tensor/tensor.h"

namespace makar {
namespace {

using kernels::test::random_blocks;
using kernels::test::random_floats;

class QuantDevice : public test::OnEachDevice {
 protected:
  bool gpu() const { return test::is_real_gpu(*device_); }
  // The types whose products have the CPU's bits. f16 of GGUF files is one of them only where the CPU
  // multiplies it as integers.
  static std::vector<DType> types() {
    std::vector<DType> all = kernels::test::block_types();
    std::erase(all, DType::kF16_64);
    return all;
  }
  static Tensor floats(const Shape& shape, uint64_t seed, Memory& memory) {
    return Tensor::from(shape, std::span<const float>(random_floats(shape.count(), seed))).to(memory);
  }
  static Tensor blocks(DType type, int64_t n, int64_t k, uint64_t seed, Memory& memory) {
    const auto bytes = random_blocks(type, n * k, seed);
    const Tensor t = Tensor::empty({n, k}, type);
    std::memcpy(t.raw(), bytes.data(), bytes.size());
    return t.to(memory);
  }
  static int64_t differences(const Tensor& a, const Tensor& b) {
    const Tensor x = a.host(), y = b.host();
    int64_t count = x.bytes() == y.bytes() ? 0 : 1;
    for (size_t i = 0; i < std::min(x.bytes(), y.bytes()); i += 4)
      count += std::memcmp(x.raw() + i, y.raw() + i, 4) != 0;
    return count;
  }

  struct Case {
    int64_t m, k;
    std::vector<int64_t> n;
    std::vector<DType> types;  // of the weights
  };
  // C = start + A B^T + bias of several products with one A.
  static std::vector<Tensor> products(Device& device, const Case& c) {
    Memory& memory = device.memory();
    std::vector<Tensor> weights, biases, out;
    std::vector<std::shared_ptr<const kernels::PackedWeight>> packed;
    std::vector<kernels::PackedProduct> list;
    const Tensor a = floats({c.m, c.k}, 7, memory);
    for (size_t i = 0; i < c.n.size(); ++i) {
      weights.push_back(blocks(c.types[i], c.n[i], c.k, i, memory));
      packed.push_back(device.pack({weights[i].address(), c.types[i], c.k, 1}, c.n[i], c.k));
      biases.push_back(floats({c.n[i]}, 20 + i, memory));
      out.push_back(floats({c.m, c.n[i]}, 30 + i, memory));
      list.push_back({packed[i].get(), {out[i].f32_address(), c.n[i], i % 2 == 1, biases[i].f32_address()}});
    }
    device.gemm_packed(
        {c.m, {a.address(), DType::kF32, c.k, 1}, list.data(), static_cast<int64_t>(list.size())});
    return out;
  }
  void expect_bits_of_the_cpu(const Case& c) {
    SCOPED_TRACE(fmt::format("{} m {} k {} n {}", name(c.types[0]), c.m, c.k, fmt::join(c.n, ",")));
    CpuDevice cpu(2);
    const auto want = products(cpu, c), got = products(*device_, c);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(differences(want[i], got[i]), 0) << "product " << i;
  }
  void expect_fused_bits(DType type, int64_t m, int64_t k, std::vector<int64_t> n, bool norm, bool gated,
                         bool added);
};
INSTANTIATE_TEST_SUITE_P(Devices, QuantDevice, testing::Values("fence", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(QuantDevice, ProductsHaveTheBitsOfTheCpu) {
  for (const DType type : types()) {
    const int64_t unit = layout_of(type).elements;
    for (const int64_t m : {1, 2, 3, 7, 8, 9, 17, 64, 65, 130})
      for (const int64_t k : {unit, unit * 3, int64_t{512}}) expect_bits_of_the_cpu({m, k, {37}, {type}});
  }
}

TEST_P(QuantDevice, SeveralProductsHaveTheBitsOfTheCpu) {
  for (const int64_t m : {1, 8, 40, 150}) {
    expect_bits_of_the_cpu({m, 768, {64, 16, 33}, {DType::kQ4_0, DType::kQ4_0, DType::kQ4_0}});
    expect_bits_of_the_cpu({m,
                            768,
                            {64, 16, 33, 5, 20},
                            {DType::kQ4_K, DType::kQ4_K, DType::kQ6_K, DType::kQ8_0, DType::kQ5_0}});
  }
}

TEST_P(QuantDevice, ProductsOfALargeModelHaveTheBitsOfTheCpu) {
  if (!gpu()) GTEST_SKIP() << "the same kernels as those of small products";
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K})
    for (const int64_t m : {1, 5, 8, 16, 64, 200, 512}) {
      expect_bits_of_the_cpu({m, 2048, {2048, 256, 256}, {type, type, type}});
      expect_bits_of_the_cpu({m, 5632, {2048}, {type}});
      expect_bits_of_the_cpu({m, 2048, {5632, 5632}, {type, type}});
    }
  expect_bits_of_the_cpu({8, 28672, {512}, {DType::kQ4_K}});
  expect_bits_of_the_cpu({1, 4096, {32000}, {DType::kQ6_K}});
}

TEST_P(QuantDevice, HostileActivationsHaveTheBitsOfTheCpu) {
  constexpr int64_t kRows = 6, kK = 256, kN = 20;
  for (const DType type : {DType::kQ8_0, DType::kQ4_1, DType::kQ2_K}) {
    Tensor a = Tensor::zeros({kRows, kK});
    a.f32()[0] = 0x1p-120f;                                                       // below the smallest scale
    a.f32()[kK + 3] = 0x1p-100f;                                                  // the smallest scale
    a.f32()[2 * kK + 70] = 3e38f, a.f32()[2 * kK + 71] = -3e38f;                  // large
    for (int64_t i = 0; i < kK; ++i) a.f32()[3 * kK + i] = i % 2 ? 0.5f : -0.5f;  // ties
    a.f32()[4 * kK + 9] = std::numeric_limits<float>::infinity();
    a.f32()[5 * kK + 200] = std::numeric_limits<float>::quiet_NaN();
    const auto run = [&](Device& device) {
      const Tensor x = a.to(device.memory()), w = blocks(type, kN, kK, 3, device.memory()),
                   y = Tensor::empty({kRows, kN}, DType::kF32, device.memory());
      const auto packed = device.pack({w.address(), type, kK, 1}, kN, kK);
      const kernels::PackedProduct product{packed.get(), {y.f32_address(), kN, false, nullptr}};
      device.gemm_packed({kRows, {x.address(), DType::kF32, kK, 1}, &product, 1});
      return y.host();
    };
    CpuDevice cpu(1);
    const Tensor want = run(cpu), got = run(*device_);
    EXPECT_EQ(differences(want.slice(0, 4).clone(), got.slice(0, 4).clone()), 0);
    for (int64_t i = 4 * kN; i < 6 * kN; ++i)
      EXPECT_TRUE(std::isnan(got.f32()[i]) && std::isnan(want.f32()[i]));
  }
}

TEST_P(QuantDevice, DecodingAndEmbeddingHaveTheBitsOfTheCpu) {
  CpuDevice cpu(1);
  constexpr int64_t kRows = 40, kWidth = 512;
  const std::vector<int64_t> ids = {3, 0, 39, 3, 17};
  for (const DType type : kernels::test::block_types()) {
    const auto run = [&](Device& device) {
      const Tensor x = blocks(type, kRows, kWidth, 11, device.memory()),
                   index = Tensor::from({5}, std::span<const int64_t>(ids)).to(device.memory()),
                   all = Tensor::empty({kRows, kWidth}, DType::kF32, device.memory()),
                   some = Tensor::empty({5, kWidth}, DType::kF32, device.memory());
      device.decode({x.address(), type, all.f32_address(), kRows, kWidth});
      device.embed({x.address(), type, index.i64_address(), some.f32_address(), 5, kWidth});
      return std::pair(all.host(), some.host());
    };
    const auto want = run(cpu), got = run(*device_);
    EXPECT_EQ(differences(want.first, got.first), 0) << name(type);
    EXPECT_EQ(differences(want.second, got.second), 0) << name(type);
  }
}

void QuantDevice::expect_fused_bits(DType type, int64_t m, int64_t k, std::vector<int64_t> n, bool norm,
                                    bool gated, bool added) {
  SCOPED_TRACE(fmt::format("{} m {} k {} n {} norm {} gated {} added {}", name(type), m, k, fmt::join(n, ","),
                           norm, gated, added));
  Memory& memory = device_->memory();
  const Tensor x = floats({m, k}, 1, memory), w = floats({k}, 2, memory),
               stats = Tensor::zeros({m}, DType::kF32, memory),
               normed = floats({m, k}, 3, memory).host().to(DType::kBF16).to(memory),
               bias = floats({n[0]}, 4, memory), residual = floats({m, n[0]}, 5, memory);
  const kernels::NormBf16 norm_args{true,
                                    x.f32_address(),
                                    w.f32_address(),
                                    nullptr,
                                    reinterpret_cast<kernels::Bf16*>(normed.address()),
                                    stats.f32_address(),
                                    m,
                                    k,
                                    1e-5f,
                                    0.5f};
  std::vector<Tensor> weights;
  std::vector<std::shared_ptr<const kernels::PackedWeight>> packed;
  for (const int64_t rows : n) {
    weights.push_back(blocks(type, rows, k, static_cast<uint64_t>(rows), memory));
    packed.push_back(device_->pack({weights.back().address(), type, k, 1}, rows, k));
  }
  const auto run = [&](bool fused) {
    std::vector<Tensor> out;
    std::vector<kernels::PackedProduct> products;
    for (size_t i = 0; i < n.size(); ++i) {
      out.push_back(Tensor::zeros({m, n[i]}, DType::kF32, memory));
      products.push_back(
          {packed[i].get(), {out[i].f32_address(), n[i], false, i == 0 ? bias.f32_address() : nullptr}});
    }
    const Tensor sum = Tensor::zeros({m, n[0]}, DType::kF32, memory), gate = sum.clone();
    kernels::FusedProducts args{
        {m, {normed.address(), DType::kBF16, k, 1}, products.data(), static_cast<int64_t>(products.size())}};
    if (norm) args.norm = &norm_args;
    if (gated) args.gated = gate.f32_address(), args.kind = kernels::Activation::kSilu;
    if (added) args.residual = residual.f32_address(), args.sum = sum.f32_address();
    fused ? device_->fused_products(args) : run_separately(*device_, args);
    if (gated) out = {gate};
    if (added) out = {sum};
    return out;
  };
  const auto want = run(false), got = run(true);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(differences(want[i], got[i]), 0) << "output " << i;
}

TEST_P(QuantDevice, FusedProductsHaveTheBitsOfSeparateKernels) {
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K, DType::kQ2_K})
    for (const int64_t m : {1, 8, 9, 40}) {
      expect_fused_bits(type, m, 512, {48, 16, 16}, true, false, false);
      expect_fused_bits(type, m, 512, {70, 70}, true, true, false);
      expect_fused_bits(type, m, 768, {50}, false, false, true);
    }
}

}  // namespace
}  // namespace makar
