// The fused kernels of a decoding step have the bits of the separate ones, and products those of any number
// of rows: on the CPU, the fence device and a GPU if there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/rng.h"
#include "kernels/device.h"
#include "on_each_device.h"
#include "real_gpu.h"
#include "tensor/tensor.h"

namespace makar {
namespace {

using kernels::Bf16;

class DecodeKernels : public test::OnEachDevice {
 protected:
  bool gpu() const { return test::is_real_gpu(*device_); }

  Tensor random(const Shape& shape, float scale, DType type) {
    Tensor t = Tensor::empty(shape);
    const Rng rng(++seed_, Purpose::kSynthetic);
    const int64_t distinct = std::min<int64_t>(t.count(), 65521);  // a prime, so that rows differ
    for (int64_t i = 0; i < distinct; ++i)
      t.f32()[i] = scale * (2 * rng.uniform(static_cast<uint64_t>(i)) - 1);
    for (int64_t i = distinct; i < t.count(); ++i) t.f32()[i] = t.f32()[i - distinct];
    return t.to(type).to(device_->memory());
  }
  Tensor empty(const Shape& shape, DType type) { return Tensor::empty(shape, type, device_->memory()); }
  static Bf16* bf16(const Tensor& t) { return reinterpret_cast<Bf16*>(t.address()); }
  static float* f32(const Tensor& t) { return t.f32_address(); }
  // The number of bytes that differ.
  static int64_t differences(const Tensor& a, const Tensor& b) {
    const Tensor x = a.host(), y = b.host();
    int64_t count = 0;
    for (size_t i = 0; i < x.bytes(); ++i) count += x.raw()[i] != y.raw()[i];
    return count;
  }

  // norm, products with `n` weight rows each, ending.
  void check_products(int64_t m, int64_t k, std::vector<int64_t> n, bool norm, bool gated, bool added,
                      bool bias);

  uint64_t seed_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Devices, DecodeKernels, testing::Values("cpu", "fence", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

void DecodeKernels::check_products(int64_t m, int64_t k, std::vector<int64_t> n, bool norm, bool gated,
                                   bool added, bool bias) {
  SCOPED_TRACE(fmt::format("m {} k {} n {} norm {} gated {} added {} bias {}", m, k, fmt::join(n, ","), norm,
                           gated, added, bias));
  const Tensor x = random({m, k}, 1.0f, DType::kF32), w = random({k}, 1.0f, DType::kF32),
               stats = empty({m}, DType::kF32);
  const Tensor a = norm ? empty({m, k}, DType::kBF16) : random({m, k}, 1.0f, DType::kBF16);
  const kernels::NormBf16 norm_args{true, f32(x), f32(w), nullptr, bf16(a), f32(stats), m, k, 1e-5f, 0.5f};
  std::vector<Tensor> weights, biases, rounded_biases, out, expected;
  std::vector<std::shared_ptr<const kernels::PackedWeight>> packed;
  std::vector<kernels::PackedProductBf16> products;
  if (norm) device_->norm_bf16(norm_args);
  for (const int64_t rows : n) {
    weights.push_back(random({rows, k}, 0.05f, DType::kBF16));
    packed.push_back(device_->pack({weights.back().address(), DType::kBF16, k, 1}, rows, k));
    biases.push_back(random({rows}, 0.5f, DType::kBF16));
    rounded_biases.push_back(biases.back().host().to(DType::kF32).to(device_->memory()));
    out.push_back(empty({m, rows}, DType::kBF16)), expected.push_back(empty({m, rows}, DType::kBF16));
    products.push_back({packed.back().get(), bf16(out.back()), bias ? f32(rounded_biases.back()) : nullptr});
    device_->product_bf16({m,
                           rows,
                           k,
                           {a.address(), DType::kBF16, k, 1},
                           {weights.back().address(), DType::kBF16, k, 1},
                           expected.back().address(),
                           DType::kBF16,
                           rows,
                           false,
                           bias ? bf16(biases.back()) : nullptr});
  }
  kernels::FusedProductsBf16 args{{m, bf16(a), products.data(), static_cast<int64_t>(products.size())}};
  if (!norm && !gated && !added) {
    device_->gemm_packed_bf16(args.products);
    for (size_t i = 0; i < n.size(); ++i) EXPECT_EQ(differences(out[i], expected[i]), 0) << "packed " << i;
  }
  if (norm) args.norm = &norm_args;
  const Tensor residual = random({m, n[0]}, 1.0f, DType::kF32), sum = empty({m, n[0]}, DType::kF32),
               expected_sum = empty({m, n[0]}, DType::kF32), gate = empty({m, n[0]}, DType::kBF16),
               expected_gate = empty({m, n[0]}, DType::kBF16);
  if (gated) args.gated = bf16(gate), args.kind = kernels::Activation::kSilu;
  if (added) args.residual = f32(residual), args.sum = f32(sum);
  device_->fused_products_bf16(args);
  if (gated) {
    device_->gated_bf16(
        {kernels::Activation::kSilu, bf16(expected[0]), bf16(expected[1]), bf16(expected_gate), m * n[0]});
    EXPECT_EQ(differences(gate, expected_gate), 0);
  } else if (added) {
    device_->add_bf16({f32(residual), bf16(expected[0]), f32(expected_sum), m * n[0]});
    EXPECT_EQ(differences(sum, expected_sum), 0);
  } else {
    for (size_t i = 0; i < n.size(); ++i) EXPECT_EQ(differences(out[i], expected[i]), 0) << "fused " << i;
  }
}

TEST_P(DecodeKernels, ProductsHaveTheBitsOfSeparateKernels) {
  const std::vector<int64_t> small = {1, 3, 9, 33},
                             all = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65};
  for (const int64_t m : gpu() ? all : small)
    for (const int64_t k : {128, 384, 768}) {
      check_products(m, k, {40}, false, false, false, false);
      check_products(m, k, {24, 8, 17}, false, false, false, true);
      check_products(m, k, {40, 16, 16}, true, false, false, false);
      check_products(m, k, {72, 72}, true, true, false, m % 2 == 0);
      check_products(m, k, {50}, false, false, true, m % 2 == 1);
    }
}

TEST_P(DecodeKernels, ProductsOfALargeModelHaveTheBitsOfSeparateKernels) {
  if (!gpu()) GTEST_SKIP() << "slow on the CPU";
  for (const int64_t m : {1, 8, 16, 40, 64}) {
    check_products(m, 2048, {2048, 256, 256}, true, false, false, false);
    check_products(m, 2048, {2048}, false, false, true, false);
    check_products(m, 2048, {5632, 5632}, true, true, false, false);
    check_products(m, 5632, {2048}, false, false, true, false);
    check_products(m, 14336, {4096}, false, false, true, false);
    check_products(m, 2048, {32000}, false, false, false, false);
    check_products(m, 4096, {4096, 1024, 1024}, true, false, false,
                   false);  // rows above the short form of the norm
    check_products(m, 512, {5121}, false, false, true,
                   true);  // wider than the tiles of middle sizes, and odd
    check_products(m, 512, {5121}, false, false, false, true);
    check_products(m, 512, {73, 73}, true, true, false, true);
  }
}

struct AttentionCase {
  int64_t heads, kv_heads, dim, rotary, window;
  bool interleaved;
};

TEST_P(DecodeKernels, AttentionHasTheBitsOfSeparateKernels) {
  const AttentionCase cases[] = {{8, 2, 64, 64, 0, false},    {4, 4, 32, 16, 0, true},
                                 {16, 1, 128, 128, 0, false}, {6, 2, 80, 0, 0, false},
                                 {8, 2, 64, 64, 100, false},  {32, 4, 64, 64, 0, false}};
  const std::vector<int64_t> lengths = {1, 2, 33, 64, 65, 96, 97, 128, 200, 256, 257, 400, 700, 0};
  for (size_t number = 0; number < 2 * std::size(cases); ++number) {
    const AttentionCase& c = cases[number / 2];
    const DType type = number % 2 ? DType::kF32 : DType::kBF16;  // of the new queries, keys and values
    SCOPED_TRACE(fmt::format("{}, heads {} of {}, dim {}, rotary {}, window {}", name(type), c.heads,
                             c.kv_heads, c.dim, c.rotary, c.window));
    const auto count = static_cast<int64_t>(lengths.size());
    constexpr int64_t kPages = 8;
    const int64_t tile = kernels::key_tile_bytes(DType::kBF16, c.dim), page_bytes = 2 * c.kv_heads * tile;
    std::vector<Tensor> pages, copies;
    std::vector<int64_t> table, copy_table;
    std::vector<kernels::SequenceRows> rows;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t length = lengths[static_cast<size_t>(i)];
      rows.push_back({i, length > 0 ? 1 : 0, 0, length, std::max<int64_t>(length - 1, 0), i * kPages});
      for (int64_t p = 0; p < kPages; ++p) {
        pages.push_back(random({page_bytes / 2}, 1.0f, DType::kBF16));
        copies.push_back(pages.back().clone());
        table.push_back(reinterpret_cast<int64_t>(pages.back().address()));
        copy_table.push_back(reinterpret_cast<int64_t>(copies.back().address()));
      }
    }
    const auto upload = [&](std::span<const int64_t> v) {
      return Tensor::from({static_cast<int64_t>(v.size())}, v).to(device_->memory());
    };
    const Tensor sequences = upload({reinterpret_cast<const int64_t*>(rows.data()), rows.size() * 6}),
                 on_device = upload(table), copy_on_device = upload(copy_table);
    const Tensor q = random({count, c.heads * c.dim}, 1.0f, type),
                 k = random({count, c.kv_heads * c.dim}, 1.0f, type),
                 v = random({count, c.kv_heads * c.dim}, 1.0f, type);
    const int64_t half = std::max<int64_t>(c.rotary / 2, 1);
    const Tensor cos = random({count, half}, 1.0f, DType::kF32),
                 sin = random({count, half}, 1.0f, DType::kF32);
    const Tensor out = Tensor::zeros({count, c.heads * c.dim}, DType::kBF16, device_->memory()),
                 expected = out.clone();
    kernels::AttentionShape shape{};
    shape.sequences = reinterpret_cast<const kernels::SequenceRows*>(sequences.address());
    shape.count = count, shape.total_q_rows = count, shape.max_q_rows = 1,
    shape.max_kv_rows = kPages * kernels::kKeyTile;
    shape.heads = c.heads, shape.kv_heads = c.kv_heads, shape.head_dim = c.dim, shape.causal = true,
    shape.window = c.window;
    shape.scale = 0.125f;
    const auto layer = [&](const Tensor& at) {
      return kernels::CacheLayer{reinterpret_cast<const std::byte* const*>(at.address()),
                                 0,
                                 tile,
                                 c.kv_heads * tile,
                                 tile,
                                 DType::kBF16,
                                 DType::kBF16};
    };
    kernels::DecodeAttentionBf16 args{shape,
                                      q.address(),
                                      k.address(),
                                      v.address(),
                                      q.dtype(),
                                      c.rotary ? f32(cos) : nullptr,
                                      c.rotary ? f32(sin) : nullptr,
                                      c.rotary,
                                      c.interleaved,
                                      layer(on_device),
                                      bf16(out)};
    device_->decode_attention_bf16(args);
    args.out = bf16(expected), args.cache = layer(copy_on_device);
    run_separately(*device_, args);
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(differences(out.slice(i, i + 1).clone(), expected.slice(i, i + 1).clone()), 0)
          << "length " << lengths[static_cast<size_t>(i)];
    int64_t page_differences = 0;
    for (size_t i = 0; i < pages.size(); ++i) page_differences += differences(pages[i], copies[i]);
    EXPECT_EQ(page_differences, 0);
  }
}

TEST_P(DecodeKernels, ArgMaxIsTheFirstOfTheLargest) {
  constexpr int64_t kCols = 32000;
  Tensor x = random({7, kCols}, 1.0f, DType::kF32).host();
  const auto row = [&](int64_t r) { return std::span(x.f32() + r * kCols, static_cast<size_t>(kCols)); };
  row(0)[777] = row(0)[20001] = 2.0f;
  row(1)[kCols - 1] = 2.0f;
  row(2)[5] = std::numeric_limits<float>::quiet_NaN();
  row(3)[9] = std::numeric_limits<float>::infinity();
  std::fill(row(4).begin(), row(4).end(), -std::numeric_limits<float>::infinity());
  std::fill(row(5).begin(), row(5).end(), -1.0f);
  row(6)[0] = -std::numeric_limits<float>::infinity(), row(6)[3] = 3.0f;
  const Tensor on_device = x.to(device_->memory()), y = empty({7}, DType::kI64);
  device_->arg_max({on_device.address(), DType::kF32, reinterpret_cast<int64_t*>(y.address()), 7, kCols});
  const Tensor result = y.host();
  EXPECT_EQ(std::vector<int64_t>(result.i64(), result.i64() + 7),
            (std::vector<int64_t>{777, kCols - 1, -1, -1, -1, 0, 3}));
}

TEST_P(DecodeKernels, RecordedWorkRunsAgainAndKeepsItsConstants) {
  const Tensor total = Tensor::zeros({1000}, DType::kF32, device_->memory());
  const auto work = [&] {
    const Tensor ones = Tensor::full({1000}, 1.5f).to(device_->memory());
    const Tensor twice = empty({1000}, DType::kF32);
    device_->scale({f32(ones), f32(twice), 1000, 2.0f, false});
    device_->add({f32(total), f32(twice), f32(total), 1, 1000, false});
  };
  work();
  const auto recorded = device_->record(work);
  for (int i = 0; i < 3; ++i) recorded->run();
  const auto copy = device_->copy_later(total.address(), total.bytes());
  recorded->run();
  float first = 0;
  std::memcpy(&first, copy->wait(), sizeof(first));
  EXPECT_EQ(first, 12.0f);
  EXPECT_EQ(total.host().f32()[999], 15.0f);
}

// The second upload goes to memory that earlier kernels of the recording used, and is changed in place.
TEST_P(DecodeKernels, EachRunOfRecordedWorkCopiesToTheDeviceAgain) {
  const Tensor total = Tensor::zeros({1000}, DType::kF32, device_->memory());
  const auto work = [&] {
    { const Tensor before = Tensor::zeros({1000}, DType::kF32, device_->memory()); }
    const Tensor x = Tensor::full({1000}, 1.0f).to(device_->memory());
    device_->add({f32(x), f32(x), f32(x), 1, 1000, false});
    device_->add({f32(total), f32(x), f32(total), 1, 1000, false});
  };
  const auto recorded = device_->record(work);
  for (int i = 0; i < 3; ++i) recorded->run();
  EXPECT_EQ(total.host().f32()[999], 6.0f);
}

TEST_P(DecodeKernels, TensorsOutliveTheRecordingThatComputesThem) {
  const Tensor total = Tensor::zeros({1000}, DType::kF32, device_->memory());
  Tensor result;
  auto recorded = device_->record([&] {
    device_->memory().zero(total.address(), total.bytes());
    result = empty({1000}, DType::kF32);
    device_->add({f32(total), f32(total), f32(result), 1, 1000, false});
  });
  recorded->run();
  recorded.reset();
  const Tensor other = Tensor::full({1000}, 1.0f).to(device_->memory());
  EXPECT_EQ(result.host().f32()[999], 0.0f);
}

}  // namespace
}  // namespace makar
