// Every instruction set gives the same bits, and the elementary functions are close to double over their
// range.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "kernels/cpu/table.h"

namespace makar::kernels {
namespace {

using Floats = std::vector<float>;

Floats random(size_t n, uint64_t salt, float scale = 1.5f) {
  Floats v(n);
  const Rng rng(salt, Purpose::kSynthetic);
  for (size_t i = 0; i < n; ++i) v[i] = scale * rng.normal(i);
  return v;
}

// All results of one table for unusual sizes, concatenated.
Floats all_results(const Table& t) {
  Floats all;
  const auto append = [&](const Floats& v) { all.insert(all.end(), v.begin(), v.end()); };
  for (const int64_t n : {1, 7, 16, 45}) {
    const auto count = static_cast<size_t>(n);
    const Floats x = random(count, 1, 4.0f), y = random(count, 2), w = random(count, 3);
    Floats out(count), more(count);
    for (const auto& f : t.activation) {
      f.forward(x.data(), out.data(), n), append(out);
      f.backward(x.data(), y.data(), out.data(), n, false), append(out);
      f.backward(x.data(), y.data(), out.data(), n, true), append(out);
      f.gated(x.data(), y.data(), out.data(), n), append(out);
      f.gated_backward(x.data(), y.data(), w.data(), out.data(), more.data(), n), append(out), append(more);
    }
    append({t.sum(x.data(), n), t.sum_squares(x.data(), n), t.dot(x.data(), y.data(), n),
            t.log_sum_exp(x.data(), n)});
    t.softmax(x.data(), out.data(), n), append(out);
    t.softmax_backward(out.data(), y.data(), more.data(), n, false), append(more);
    t.log_softmax(x.data(), out.data(), n), append(out);
    t.log_softmax_backward(out.data(), y.data(), more.data(), n, true), append(more);
    append({t.cross_entropy(x.data(), out.data(), n, n / 2, 0.1f, 0.5f)}), append(out);
    Floats stats(2), dw(count), db(count);
    for (const bool rms : {false, true}) {
      const NormRows a{x.data(), w.data(), rms ? nullptr : y.data(), out.data(), stats.data(), 1, n,
                       1e-5f,    1.0f};
      rms ? t.rms_norm(a) : t.layer_norm(a);
      const NormRowsBackward b{x.data(),  w.data(), y.data(), stats.data(), more.data(), dw.data(),
                               db.data(), 1,        n,        1.0f,         false};
      rms ? t.rms_norm_backward(b) : t.layer_norm_backward(b);
      append(out), append(stats), append(more), append(dw), append(db);
    }
    Floats p = x, m = y, v = random(count, 5);
    for (float& q : v) q *= q;
    AdamStep s{0.999f, 0.1f, 0.001f, 1e-8f, 0.01f, 1.2f, 0.99f, 0.01f, 0.5f};
    t.adamw(p.data(), w.data(), m.data(), v.data(), n, s);
    append(p), append(m), append(v);
  }
  const int64_t rows = 40, keys = 130, dim = 12;
  const auto size = [](int64_t a, int64_t b) { return static_cast<size_t>(a * b); };
  const Floats q = random(size(rows, dim), 6), k = random(size(keys, dim), 7), v = random(size(keys, dim), 8),
               dout = random(size(rows, dim), 9);
  Floats out(size(rows, dim)), lse(static_cast<size_t>(rows)), dq(q.size()), dk(k.size()), dv(v.size());
  AttentionHead a{};
  a.q = q.data(), a.k = k.data(), a.v = v.data(), a.q_stride = a.kv_stride = a.out_stride = a.dim = dim;
  a.rows = rows, a.keys = keys, a.past = keys - rows, a.causal = true, a.soft_cap = 2.0f, a.out = out.data(),
  a.lse = lse.data();
  Floats scratch(static_cast<size_t>(std::max(t.attention_scratch(a), t.attention_backward_scratch(a))));
  t.attention_forward(a, scratch.data());
  t.attention_backward(a, {dout.data(), dq.data(), dk.data(), dv.data()}, scratch.data());
  append(out), append(lse), append(dq), append(dk), append(dv);
  return all;
}

TEST(InstructionSets, GiveTheSameBits) {
  const auto tables = available();
  const Floats first = all_results(*tables[0]);
  for (const Table* t : tables) {
    const Floats other = all_results(*t);
    ASSERT_EQ(first.size(), other.size());
    for (size_t i = 0; i < first.size(); ++i)
      ASSERT_EQ(std::memcmp(&first[i], &other[i], sizeof(float)), 0)
          << t->isa << ", value " << i << ": " << other[i] << ", not " << first[i];
  }
}

struct Sweep {
  Activation kind;
  double (*value)(double);
  double low, high, relative, absolute;
};

TEST(ElementaryFunctions, AreCloseToDouble) {
  const Sweep sweeps[] = {
      {Activation::kExp, [](double x) { return std::exp(x); }, -87.3, 88.7, 2.5e-7, 0},
      {Activation::kTanh, [](double x) { return std::tanh(x); }, -12, 12, 2.5e-7, 0},
      {Activation::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -85, 40, 3e-7, 0},
      {Activation::kSilu, [](double x) { return x / (1 + std::exp(-x)); }, -85, 40, 3.5e-7, 0},
      {Activation::kSoftplus, [](double x) { return std::log1p(std::exp(x)); }, -80, 80, 3e-7, 0},
      {Activation::kLogSigmoid, [](double x) { return -std::log1p(std::exp(-x)); }, -80, 80, 3e-7, 0},
      {Activation::kGelu, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, -8, 8, 2.5e-7,
       3e-7},
      {Activation::kGeluTanh,
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
       -8, 8, 2.5e-7, 3e-7},
  };
  constexpr int kPoints = 400001;
  for (const Sweep& s : sweeps) {
    Floats x(kPoints), y(kPoints);
    for (int i = 0; i < kPoints; ++i)
      x[static_cast<size_t>(i)] = static_cast<float>(s.low + (s.high - s.low) * i / (kPoints - 1));
    cpu().activation[static_cast<int>(s.kind)].forward(x.data(), y.data(), kPoints);
    double worst = 0, at = 0;
    for (int i = 0; i < kPoints; ++i) {
      const auto j = static_cast<size_t>(i);
      const double want = s.value(x[j]), error = std::max(0.0, std::fabs(y[j] - want) - s.absolute) /
                                                 std::max(std::fabs(want), 1e-300);
      if (error > worst) worst = error, at = x[j];
    }
    if (std::getenv("MAKAR_OP_REPORT"))
      std::printf("activation %d: %.2e at %g\n", static_cast<int>(s.kind), worst, at);
    EXPECT_LE(worst, s.relative) << "activation " << static_cast<int>(s.kind) << " at " << at;
  }
}

TEST(ElementaryFunctions, HandleExtremeArguments) {
  const float inf = INFINITY, nan = NAN;
  const auto f = [](Activation kind, float x) {
    float y;
    cpu().activation[static_cast<int>(kind)].forward(&x, &y, 1);
    return y;
  };
  EXPECT_EQ(f(Activation::kExp, -inf), 0.0f);
  EXPECT_EQ(f(Activation::kExp, inf), inf);
  EXPECT_EQ(f(Activation::kExp, 0.0f), 1.0f);
  EXPECT_EQ(f(Activation::kTanh, inf), 1.0f);
  EXPECT_EQ(f(Activation::kTanh, -inf), -1.0f);
  EXPECT_EQ(f(Activation::kSigmoid, -inf), 0.0f);
  EXPECT_EQ(f(Activation::kSigmoid, inf), 1.0f);
  EXPECT_EQ(f(Activation::kGelu, 100.0f), 100.0f);
  EXPECT_EQ(f(Activation::kGelu, -100.0f), 0.0f);
  EXPECT_EQ(f(Activation::kSoftplus, inf), inf);
  for (int k = 0; k < kActivations; ++k) EXPECT_TRUE(std::isnan(f(static_cast<Activation>(k), nan))) << k;
}

}  // namespace
}  // namespace makar::kernels
