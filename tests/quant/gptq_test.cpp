// Error-minimising rounding: the output error is below that of rounding each weight alone.
#include "quant/gptq.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "models/dequantize.h"
#include "quant/encode.h"

namespace makar {
namespace {

Tensor normal(const Shape& shape, uint64_t seed) {
  Tensor t = Tensor::empty(shape);
  const Rng rng(seed, Purpose::kSynthetic);
  for (int64_t i = 0; i < t.count(); ++i) t.f32()[i] = rng.normal(static_cast<uint64_t>(i));
  return t;
}

// x^T x / rows of inputs with correlated columns, like those of a model.
Tensor correlated(int64_t n, int64_t rows) {
  const Tensor x = normal({rows, n}, 4), common = normal({rows, 8}, 5), mix = normal({8, n}, 6);
  std::vector<double> h(static_cast<size_t>(n * n));
  std::vector<double> row(static_cast<size_t>(n));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      double v = 0.5 * x.f32()[r * n + c];
      for (int64_t k = 0; k < 8; ++k) v += common.f32()[r * 8 + k] * mix.f32()[k * n + c];
      row[static_cast<size_t>(c)] = v;
    }
    for (int64_t a = 0; a < n; ++a)
      for (int64_t b = 0; b < n; ++b)
        h[static_cast<size_t>(a * n + b)] += row[static_cast<size_t>(a)] * row[static_cast<size_t>(b)];
  }
  Tensor out = Tensor::empty({n, n});
  for (int64_t i = 0; i < n * n; ++i)
    out.f32()[i] = static_cast<float>(h[static_cast<size_t>(i)] / static_cast<double>(rows));
  return out;
}

// Mean of |x (w - q)|^2: sum over rows of e H e^T.
double output_error(const Tensor& w, const Tensor& q, const Tensor& h) {
  const Tensor d = dequantized(q);
  const int64_t n = w.dim(1);
  double sum = 0;
  for (int64_t r = 0; r < w.dim(0); ++r)
    for (int64_t a = 0; a < n; ++a) {
      const double e = w.f32()[r * n + a] - d.f32()[r * n + a];
      for (int64_t b = 0; b < n; ++b)
        sum += e * h.f32()[a * n + b] * (w.f32()[r * n + b] - d.f32()[r * n + b]);
    }
  return sum;
}

TEST(Gptq, ReducesTheOutputError) {
  ThreadPool pool(2);
  const Tensor w = normal({16, 256}, 7), h = correlated(256, 300);
  for (const DType type : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ4_K,
                           DType::kQ5_K, DType::kQ6_K}) {
    const double plain = output_error(w, encode(pool, w, type), h);
    const double compensated = output_error(w, encode_gptq(pool, w, type, h), h);
    EXPECT_LT(compensated, 0.5 * plain) << name(type);
  }
}

TEST(Gptq, WithoutCorrelationEqualsPlainRounding) {
  ThreadPool pool(2);
  const Tensor w = normal({4, 64}, 8);
  Tensor h = Tensor::zeros({64, 64});
  for (int64_t i = 0; i < 64; ++i) h.f32()[i * 65] = 1.0f;
  const Tensor a = encode(pool, w, DType::kQ4_0), b = encode_gptq(pool, w, DType::kQ4_0, h);
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0);
}

TEST(Gptq, SameBitsForAnyThreadCount) {
  ThreadPool one(1), four(4);
  const Tensor w = normal({9, 256}, 9), h = correlated(256, 100);
  const Tensor a = encode_gptq(one, w, DType::kQ4_K, h), b = encode_gptq(four, w, DType::kQ4_K, h);
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0);
}

}  // namespace
}  // namespace makar
