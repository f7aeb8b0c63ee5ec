#include <algorithm>

#include "base/rng.h"
#include "kernels/results_of_table.h"

namespace makar::kernels::test {

using Floats = std::vector<float>;

Floats spread(int64_t count, uint64_t seed, float scale) {
  const Rng rng(seed, Purpose::kSynthetic);
  Floats v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); ++i) v[i] = scale * (2 * rng.uniform(i) - 1);
  return v;
}

namespace {

void add_elementwise(const Table& t, int64_t n, Results& to) {
  const auto count = static_cast<size_t>(n);
  const Floats x = spread(n, 1, 6.0f), y = spread(n, 2), w = spread(n, 3);
  Floats out(count), more(count);
  for (int kind = 0; kind < kActivations; ++kind) {
    const ActivationKernels& f = t.activation[kind];
    const std::string name = "activation " + std::to_string(kind);
    f.forward(x.data(), out.data(), n), to.push_back({name, out});
    f.backward(x.data(), y.data(), out.data(), n, false), to.push_back({name + ", gradient", out});
    f.backward(x.data(), y.data(), out.data(), n, true), to.push_back({name + ", added gradient", out});
    f.gated(x.data(), y.data(), out.data(), n), to.push_back({name + ", gated", out});
    f.gated_backward(x.data(), y.data(), w.data(), out.data(), more.data(), n);
    to.push_back({name + ", gradient of the gate", out}), to.push_back({name + ", gradient of up", more});
  }
  t.add(x.data(), y.data(), out.data(), n), to.push_back({"add", out});
  for (const bool accumulate : {false, true}) {
    t.multiply(x.data(), w.data(), out.data(), n, accumulate), to.push_back({"multiply", out});
    t.scale(x.data(), 0.3f, out.data(), n, accumulate), to.push_back({"scale", out});
  }
  to.push_back({"sums", {t.sum(x.data(), n), t.sum_squares(x.data(), n), t.dot(x.data(), y.data(), n)}});
  constexpr int64_t kRows = 5;
  const Floats rows = spread(kRows * (n + 3), 4);
  std::vector<uint16_t> half;
  for (const float v : rows) half.push_back(to_bf16(v));
  t.add_rows(rows.data(), kRows, n + 3, n, out.data()), to.push_back({"add_rows", out});
  t.add_rows_bf16(half.data(), kRows, n + 3, n, out.data()), to.push_back({"add_rows_bf16", out});
  for (const float* bias : {static_cast<const float*>(nullptr), w.data()})
    for (const bool accumulate : {false, true}) {
      if (bias && accumulate) continue;
      t.store_sums(x.data(), bias, accumulate, n, out.data()), to.push_back({"store_sums", out});
      std::vector<uint16_t> c(half.begin(), half.begin() + n);
      t.store_sums_bf16(x.data(), bias, accumulate, n, c.data());
      std::transform(c.begin(), c.end(), out.begin(), from_bf16);
      to.push_back({"store_sums_bf16", out});
    }
}

void add_rows(const Table& t, int64_t n, Results& to) {
  const auto count = static_cast<size_t>(n);
  const Floats x = spread(n, 1, 6.0f), y = spread(n, 2), w = spread(n, 3);
  Floats out(count), more(count);
  to.push_back({"log_sum_exp", {t.log_sum_exp(x.data(), n)}});
  t.softmax(x.data(), out.data(), n), to.push_back({"softmax", out});
  for (const bool accumulate : {false, true})
    t.softmax_backward(out.data(), y.data(), more.data(), n, accumulate),
        to.push_back({"softmax_backward", more});
  t.log_softmax(x.data(), out.data(), n), to.push_back({"log_softmax", out});
  for (const bool accumulate : {false, true})
    t.log_softmax_backward(out.data(), y.data(), more.data(), n, accumulate),
        to.push_back({"log_softmax_backward", more});
  to.push_back({"cross_entropy", {t.cross_entropy(x.data(), out.data(), n, n / 2, 0.1f, 0.5f)}});
  to.push_back({"gradient of cross_entropy", out});
  for (const bool rms : {false, true}) {
    const std::string name = rms ? "rms_norm" : "layer_norm";
    Floats stats(2), dw(count), db(count);
    const NormRows a{x.data(), w.data(), rms ? nullptr : y.data(), out.data(), stats.data(), 1, n,
                     1e-5f,    1.0f};
    rms ? t.rms_norm(a) : t.layer_norm(a);
    const NormRowsBackward b{x.data(),  w.data(), y.data(), stats.data(), more.data(), dw.data(),
                             db.data(), 1,        n,        1.0f,         false};
    rms ? t.rms_norm_backward(b) : t.layer_norm_backward(b);
    to.push_back({name, out}), to.push_back({name + " stats", stats}), to.push_back({name + " dx", more});
    to.push_back({name + " dw", dw}), to.push_back({name + " db", db});
  }
  Floats p = x, m = y, v = spread(n, 5);
  for (float& q : v) q *= q;
  t.adamw(p.data(), w.data(), m.data(), v.data(), n,
          {0.999f, 0.1f, 0.001f, 1e-8f, 0.01f, 1.2f, 0.99f, 0.01f, 0.5f});
  to.push_back({"adamw p", p}), to.push_back({"adamw m", m}), to.push_back({"adamw v", v});
}

void add_rope(const Table& t, int rotary, Results& to) {
  constexpr int kHeads = 3, kDim = 36;
  const int half = rotary / 2;
  Floats frequencies(static_cast<size_t>(half)), cos(frequencies.size()), sin(frequencies.size());
  for (int i = 0; i < half; ++i) frequencies[static_cast<size_t>(i)] = 1.0f / static_cast<float>(1 + i * i);
  const Floats x = spread(kHeads * kDim, 10);
  for (const float position : {0.0f, 1.0f, 77.0f, 131071.0f}) {
    t.rope_cos_sin(position, frequencies.data(), half, 1.25, cos.data(), sin.data());
    to.push_back({"rope_cos_sin", cos}), to.push_back({"rope_cos_sin", sin});
    for (const bool interleaved : {false, true})
      for (const float sign : {1.0f, -1.0f}) {
        Floats y(x.size());
        const RopeRow row{cos.data(), sin.data(), kHeads, kDim, rotary, interleaved, sign};
        t.rope(x.data(), y.data(), row), to.push_back({"rope", y});
        y = x;
        t.rope(y.data(), y.data(), row), to.push_back({"rope in place", y});
      }
  }
}

}  // namespace

void add_row_results(const Table& t, Results& to) {
  for (const int64_t n : {1, 7, 16, 45}) add_elementwise(t, n, to), add_rows(t, n, to);
  for (const int rotary : {2, 14, 32, 36}) add_rope(t, rotary, to);
}

}  // namespace makar::kernels::test
