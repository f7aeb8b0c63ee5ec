// Mixed precision at sizes that fill the GPU's tiles: close to f32, independent of the batch, and repeatable
// bit for bit. The tests run on the CPU, on the fence device and, where there is one, on the GPU.
#include "ops/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/rng.h"
#include "kernels/device.h"
#include "on_each_device.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/op_table.h"

namespace makar::test {
namespace {

Tensor normal(const Shape& shape, uint64_t stream, double spread = 1.0) {
  Tensor t = Tensor::empty(shape);
  const Rng rng(stream, Purpose::kSynthetic);
  for (int64_t i = 0; i < t.count(); ++i)
    t.f32()[i] = from_bf16(to_bf16(static_cast<float>(spread * rng.normal(static_cast<uint64_t>(i)))));
  return t;
}
double error_of(const Tensor& got, const Tensor& want) {
  const Tensor a = got.host().to(DType::kF32), b = want.host().to(DType::kF32);
  double difference = 0, norm = 1e-30;
  for (int64_t i = 0; i < b.count(); ++i) {
    const double d = static_cast<double>(a.f32()[i]) - b.f32()[i];
    difference += d * d, norm += static_cast<double>(b.f32()[i]) * b.f32()[i];
  }
  return std::sqrt(difference / norm);
}
bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.host(), y = b.host();
  return x.shape() == y.shape() && x.dtype() == y.dtype() && !std::memcmp(x.raw(), y.raw(), x.bytes());
}
// The bits of rows [begin, end).
bool same_rows(const Tensor& all, int64_t begin, int64_t end, const Tensor& part) {
  return same_bits(all.host().slice(begin, end).clone(), part);
}

class Bf16 : public test::OnEachDevice {
 protected:
  Tensor to_device(const Tensor& t) { return t.to(device_->memory()); }
};

struct AttentionResult {
  Tensor out, dq, dk, dv;
};
AttentionResult attend_on(Device& device, DType type, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& dy, const std::vector<ops::SequenceRows>& rows,
                          const ops::AttentionOptions& o) {
  Tape tape(device);
  Context ctx{device, &tape};
  ctx.activations = type;
  const auto to = [&](const Tensor& t) { return t.to(device.memory()); };
  const Tensor a = to(q), b = to(k), c = to(v);
  for (const Tensor& leaf : {a, b, c}) tape.watch(leaf);
  const Tensor out = ops::cast_to_f32(ctx, ops::attention(ctx, a, b, c, rows, o));
  tape.backward(out, to(dy));
  return {out.host(), tape.gradient(a).host(), tape.gradient(b).host(), tape.gradient(c).host()};
}

TEST_P(Bf16, AttentionIsCloseAndIndependentOfTheBatch) {
  const auto cpu = open_device("cpu", 2);
  struct Case {
    int64_t heads, kv_heads, dim, window;
    bool causal;
  };
  const std::vector<int64_t> lengths = {130, 1, 64, 63, 201, 65};
  const int64_t total = 524;
  for (const Case& c : {Case{2, 2, 64, 0, true}, Case{4, 2, 64, 0, true}, Case{2, 1, 128, 0, true},
                        Case{2, 2, 80, 0, true}, Case{2, 2, 16, 0, true}, Case{2, 2, 64, 70, true},
                        Case{2, 2, 64, 0, false}, Case{2, 1, 128, 40, false}, Case{3, 3, 40, 5, true}}) {
    SCOPED_TRACE(testing::Message() << c.heads << ' ' << c.kv_heads << ' ' << c.dim << ' ' << c.window << ' '
                                    << c.causal);
    ops::AttentionOptions o;
    o.heads = c.heads, o.kv_heads = c.kv_heads, o.head_dim = c.dim, o.window = c.window, o.causal = c.causal;
    o.scale = 1.0f / std::sqrt(static_cast<float>(c.dim));
    const Tensor q = normal({total, c.heads * c.dim}, 1), k = normal({total, c.kv_heads * c.dim}, 2),
                 v = normal({total, c.kv_heads * c.dim}, 3), dy = normal({total, c.heads * c.dim}, 4);
    const auto rows = ragged(lengths);
    const AttentionResult want = attend_on(**cpu, DType::kF32, q, k, v, dy, rows, o);
    const AttentionResult got = attend_on(*device_, DType::kBF16, q, k, v, dy, rows, o),
                          again = attend_on(*device_, DType::kBF16, q, k, v, dy, rows, o);
    EXPECT_LE(error_of(got.out, want.out), 6e-3);
    EXPECT_LE(error_of(got.dq, want.dq), 1e-2);
    EXPECT_LE(error_of(got.dk, want.dk), 1e-2);
    EXPECT_LE(error_of(got.dv, want.dv), 1e-2);
    EXPECT_TRUE(same_bits(got.out, again.out) && same_bits(got.dq, again.dq) && same_bits(got.dk, again.dk) &&
                same_bits(got.dv, again.dv));
    for (const auto& s : rows) {  // alone
      const auto part = [&](const Tensor& t) { return t.slice(s.q_start, s.q_start + s.q_rows).clone(); };
      const AttentionResult one =
          attend_on(*device_, DType::kBF16, part(q), part(k), part(v), part(dy), ragged({s.q_rows}), o);
      const int64_t end = s.q_start + s.q_rows;
      EXPECT_TRUE(same_rows(got.out, s.q_start, end, one.out) && same_rows(got.dq, s.q_start, end, one.dq) &&
                  same_rows(got.dk, s.q_start, end, one.dk) && same_rows(got.dv, s.q_start, end, one.dv))
          << "the sequence of " << s.q_rows;
    }
  }
}

struct LinearResult {
  Tensor y, dx, dw, db;
};
LinearResult multiply_on(Device& device, DType type, const Tensor& x, const Tensor& w, const Tensor& b,
                         const Tensor& dy) {
  Tape tape(device);
  Context ctx{device, &tape};
  ctx.activations = type;
  const auto to = [&](const Tensor& t) { return t.to(device.memory()); };
  const Tensor device_x = to(x), device_w = to(w), device_b = to(b);
  for (const Tensor& leaf : {device_x, device_w, device_b}) tape.watch(leaf);
  const Tensor y = ops::cast_to_f32(ctx, ops::linear(ctx, device_x, device_w, device_b));
  tape.backward(y, to(dy));
  return {y.host(), tape.gradient(device_x).host(), tape.gradient(device_w).host(),
          tape.gradient(device_b).host()};
}

TEST_P(Bf16, LinearIsCloseAndIndependentOfTheBatch) {
  const auto cpu = open_device("cpu", 2);
  struct Case {
    int64_t rows, in, out;
  };
  for (const Case& c :
       {Case{300, 64, 96}, Case{129, 200, 67}, Case{9000, 72, 40}, Case{257, 33, 5}, Case{1, 128, 256}}) {
    SCOPED_TRACE(testing::Message() << c.rows << ' ' << c.in << ' ' << c.out);
    const Tensor x = normal({c.rows, c.in}, 5), w = normal({c.out, c.in}, 6, 0.1), b = normal({c.out}, 7),
                 dy = normal({c.rows, c.out}, 8);
    const LinearResult want = multiply_on(**cpu, DType::kF32, x, w, b, dy);
    const LinearResult got = multiply_on(*device_, DType::kBF16, x, w, b, dy),
                       again = multiply_on(*device_, DType::kBF16, x, w, b, dy);
    EXPECT_LE(error_of(got.y, want.y), 4e-3);
    EXPECT_LE(error_of(got.dx, want.dx), 4e-3);
    EXPECT_LE(error_of(got.dw, want.dw), 1e-4);
    EXPECT_LE(error_of(got.db, want.db), 1e-5);
    EXPECT_TRUE(same_bits(got.y, again.y) && same_bits(got.dx, again.dx) && same_bits(got.dw, again.dw) &&
                same_bits(got.db, again.db));
    for (const int64_t row_count : {int64_t{1}, std::min<int64_t>(c.rows, 70)}) {
      const LinearResult part = multiply_on(*device_, DType::kBF16, x.slice(0, row_count).clone(), w, b,
                                            dy.slice(0, row_count).clone());
      EXPECT_TRUE(same_rows(got.y, 0, row_count, part.y) && same_rows(got.dx, 0, row_count, part.dx))
          << row_count << " rows";
    }
  }
}

// The gradients of a feed-forward layer between two norms, in the order of `leaves`.
std::vector<Tensor> feed_forward_on(Device& device, DType type, const std::vector<Tensor>& leaves,
                                    const Tensor& dy, bool rms) {
  Tape tape(device);
  Context ctx{device, &tape};
  ctx.activations = type;
  std::vector<Tensor> t;
  for (const Tensor& leaf : leaves) t.push_back(leaf.to(device.memory())), tape.watch(t.back());
  const Tensor normed =
      rms ? ops::rms_norm(ctx, t[0], t[1], 1e-5f) : ops::layer_norm(ctx, t[0], t[1], t[2], 1e-5f);
  const Tensor up = ops::linear(ctx, normed, t[3], t[4]);
  const Tensor down = ops::linear(ctx, ops::activate(ctx, up, kernels::Activation::kGeluTanh), t[5], t[6]);
  const ops::NormedSum sum = ops::add_norm(ctx, t[0], down, {rms, t[7], rms ? Tensor() : t[8], 1e-5f});
  const Tensor y = ops::add(ctx, sum.sum, sum.normed);
  tape.backward(y, dy.to(device.memory()));
  std::vector<Tensor> out = {y.host()};
  for (const Tensor& leaf : t)
    if (const Tensor g = tape.gradient(leaf); g.defined()) out.push_back(g.host());
  return out;
}

TEST_P(Bf16, FeedForwardBetweenNormsIsClose) {
  const auto cpu = open_device("cpu", 2);
  for (const bool rms : {false, true})
    for (const int64_t width : {40, 256, 768, 1024, 1032}) {
      SCOPED_TRACE(testing::Message() << "width " << width << (rms ? ", rms" : ""));
      const int64_t rows = 301, hidden = 520;
      const std::vector<Tensor> leaves = {
          normal({rows, width}, 1),         normal({width}, 2),       normal({width}, 3),
          normal({hidden, width}, 4, 0.05), normal({hidden}, 5, 0.1), normal({width, hidden}, 6, 0.05),
          normal({width}, 7, 0.1),          normal({width}, 8),       normal({width}, 9)};
      const Tensor dy = normal({rows, width}, 10);
      const auto want = feed_forward_on(**cpu, DType::kF32, leaves, dy, rms),
                 got = feed_forward_on(*device_, DType::kBF16, leaves, dy, rms),
                 again = feed_forward_on(*device_, DType::kBF16, leaves, dy, rms);
      ASSERT_EQ(want.size(), got.size());
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_LE(error_of(got[i], want[i]), 1.5e-2) << i;
        EXPECT_TRUE(same_bits(got[i], again[i])) << i;
      }
    }
}

TEST_P(Bf16, PackedProductsHaveTheBitsOfProducts) {
  struct Case {
    int64_t in;
    std::vector<int64_t> out;
  };
  for (const Case& c : {Case{64, {96}}, Case{200, {67, 16, 130}}, Case{2048, {2048, 256, 256}},
                        Case{776, {33, 4000}}, Case{33, {5}}, Case{5632, {40}}, Case{256, {8, 8, 8, 8, 8}}}) {
    Context ctx{*device_};
    ctx.activations = DType::kBF16;
    std::vector<Tensor> weights, biases;
    std::vector<std::shared_ptr<const kernels::PackedWeight>> packed;
    std::vector<ops::PackedLayer> layers;
    for (size_t i = 0; i < c.out.size(); ++i) {
      weights.push_back(to_device(normal({c.out[i], c.in}, 20 + i, 0.1).to(DType::kBF16)));
      biases.push_back(i % 2 == 0 ? to_device(normal({c.out[i]}, 30 + i)) : Tensor());
      packed.push_back(device_->pack({weights[i].address(), DType::kBF16, c.in, 1}, c.out[i], c.in));
      layers.push_back({biases[i], packed[i].get()});
    }
    for (const int64_t rows : {1, 2, 7, 8, 9, 16, 17, 64, 70}) {
      const Tensor x = to_device(normal({rows, c.in}, 40));
      const std::vector<Tensor> got = ops::linears(ctx, x, layers);
      for (size_t i = 0; i < c.out.size(); ++i)
        EXPECT_TRUE(same_bits(got[i], ops::linear(ctx, x, weights[i], biases[i])))
            << rows << " x " << c.in << " -> " << c.out[i];
    }
  }
}

// cuBLASLt and makar's own kernel give the same bits, in all layouts.
TEST(Bf16Products, LibraryAndOwnKernelAgree) {
  const auto library = open_device("cuda");
  if (!library.ok()) GTEST_SKIP() << library.error().text();
  const auto without_library = open_device("cuda");
  struct Case {
    int64_t m, n, k;
    bool a_rows, b_rows;  // stored along rows instead of k
    DType type;
  };
  using D = DType;
  for (const Case& c :
       {Case{512, 768, 768, false, false, D::kBF16}, Case{128, 3072, 768, false, false, D::kBF16},
        Case{2048, 768, 3072, false, true, D::kBF16}, Case{64, 768, 2304, false, true, D::kBF16},
        Case{768, 768, 9000, true, true, D::kF32}, Case{3072, 768, 4096, true, true, D::kF32},
        Case{1024, 50304, 768, false, false, D::kBF16}, Case{8, 512, 8192, false, false, D::kF32}}) {
    SCOPED_TRACE(testing::Message() << c.m << ' ' << c.n << ' ' << c.k << ' ' << c.a_rows << c.b_rows);
    const Tensor a = normal({c.m, c.k}, 9).to(DType::kBF16), b = normal({c.n, c.k}, 10).to(DType::kBF16),
                 bias = normal({c.n}, 11).to(DType::kBF16);
    const auto run = [&](Device& device, bool accumulate) {
      const Tensor x = a.to(device.memory()), y = b.to(device.memory()), z = bias.to(device.memory()),
                   out = Tensor::zeros({c.m, c.n}, c.type, device.memory());
      kernels::ProductBf16 p{
          c.m,
          c.n,
          c.k,
          {x.address(), DType::kBF16, c.a_rows ? 1 : c.k, c.a_rows ? c.m : 1},
          {y.address(), DType::kBF16, c.b_rows ? 1 : c.k, c.b_rows ? c.n : 1},
          out.address(),
          c.type,
          c.n,
          false,
          c.type == DType::kBF16 ? reinterpret_cast<const kernels::Bf16*>(z.address()) : nullptr};
      device.product_bf16(p);
      if (accumulate) p.accumulate = true, p.bias = nullptr, device.product_bf16(p);
      return out.host();
    };
    for (const bool accumulate : {false, true}) {
      const Tensor first = run(**library, accumulate);
      setenv("MAKAR_CUBLAS", "0", 1);
      const Tensor second = run(**without_library, accumulate);
      unsetenv("MAKAR_CUBLAS");
      EXPECT_TRUE(same_bits(first, second))
          << "accumulate " << accumulate << ", error " << error_of(second, first);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Bf16, testing::Values("cpu", "fence", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace makar::test
