#include <algorithm>
#include <cmath>

#include "kernels/cpu/key_pages.h"
#include "kernels/results_of_table.h"

namespace makar::kernels::test {
namespace {

using Floats = std::vector<float>;

struct Inputs {
  int64_t rows, keys, dim;
  Floats q, k, v, dout, bias, q_sinks;
  Inputs(int64_t r, int64_t n, int64_t d)
      : rows(r),
        keys(n),
        dim(d),
        q(spread(r * d, 1)),
        k(spread(n * d, 2)),
        v(spread(n * d, 3)),
        dout(spread(r * d, 4)),
        bias(spread(2 * (n + r) + 1, 5)),
        q_sinks(spread(r * d, 6)) {}
  AttentionHead head(bool causal) const {
    AttentionHead a{};
    a.q = q.data(), a.k = k.data(), a.v = v.data(), a.q_stride = a.kv_stride = a.out_stride = a.dim = dim;
    a.rows = rows, a.keys = keys, a.past = keys - rows, a.causal = causal, a.scale = 0.4f;
    return a;
  }
  const float* distance_bias() const { return bias.data() + keys + rows; }
};

// Forward, weights and backward of keys and values that are not in a cache.
void add_plain(const Table& t, const std::string& name, const Inputs& in, AttentionHead a, Results& to) {
  Floats out(in.q.size()), lse(static_cast<size_t>(in.rows)), dq(out.size()), dk(in.k.size()),
      dv(in.v.size()), weights(static_cast<size_t>(in.rows * in.keys)), dbias(in.bias.size());
  a.out = out.data(), a.lse = lse.data(), a.record = weights.data();
  Floats scratch(static_cast<size_t>(std::max(t.attention_scratch(a), t.attention_backward_scratch(a))));
  t.attention_forward(a, scratch.data());
  t.attention_weights(a, scratch.data());
  t.attention_backward(
      a,
      {in.dout.data(), dq.data(), dk.data(), dv.data(), a.bias ? dbias.data() + in.keys + in.rows : nullptr},
      scratch.data());
  to.push_back({name + ": output", out}), to.push_back({name + ": lse", lse});
  to.push_back({name + ": weights", weights}), to.push_back({name + ": dq", dq});
  to.push_back({name + ": dk", dk}), to.push_back({name + ": dv", dv});
  to.push_back({name + ": gradient of the bias", dbias});
}

// The keys and values in pages of a type; bytes that are not written are those of a NaN.
struct Pages {
  std::vector<std::vector<std::byte>> data;
  std::vector<const std::byte*> addresses;
  KeyPages pages;
  Pages(const Table& t, const Inputs& in, DType k_type, DType v_type) {
    const int64_t k_bytes = key_tile_bytes(k_type, in.dim);
    for (int64_t row = 0; row < in.keys; ++row) {
      if (row % kKeyTile == 0)
        data.emplace_back(static_cast<size_t>(k_bytes + value_tile_bytes(v_type, in.dim)), std::byte{0xff});
      std::byte* page = data.back().data();
      store_key(k_type, in.k.data() + row * in.dim, in.dim, row % kKeyTile, page, t);
      store_value(v_type, in.v.data() + row * in.dim, in.dim, row % kKeyTile, page + k_bytes);
    }
    for (const auto& page : data) addresses.push_back(page.data());
    pages = {addresses.data(), 0, k_bytes, k_type, v_type};
  }
};

void add_cached(const Table& t, const std::string& name, const Inputs& in, AttentionHead a, DType k_type,
                DType v_type, Results& to) {
  const Pages pages(t, in, k_type, v_type);
  Floats out(in.q.size()), lse(static_cast<size_t>(in.rows));
  a.k = a.v = nullptr, a.cache = pages.pages, a.out = out.data(), a.lse = lse.data();
  Floats scratch(static_cast<size_t>(t.attention_scratch(a)));
  t.attention_forward(a, scratch.data());
  to.push_back({name + ", cache: output", out}), to.push_back({name + ", cache: lse", lse});
}

}  // namespace

void add_attention_results(const Table& t, Results& to) {
  const Inputs in(40, 230, 12);
  AttentionHead a = in.head(true);
  a.soft_cap = 2.0f;
  add_plain(t, "soft cap", in, a, to);
  a = in.head(true), a.window = 50, a.dropout = 0.3f, a.seed = 5, a.step = 3, a.stream = 2;
  add_plain(t, "window and dropout", in, a, to);
  a = in.head(false), a.window = 20, a.bias = in.distance_bias();
  add_plain(t, "both directions, window and bias", in, a, to);
  for (const int64_t rows : {1, 5, 16, 40})
    for (const DType type : {DType::kF32, DType::kF16, DType::kQ8_0}) {
      const DType v_type = rows == 5 && type == DType::kF16 ? DType::kQ8_0 : type;
      const Inputs some(rows, 230, 36);
      const std::string name = std::to_string(rows) + " rows";
      a = some.head(true), a.bias = some.distance_bias();
      add_cached(t, name, some, a, type, v_type, to);
      a.window = 30, a.sinks = 4, a.q_sinks = some.q_sinks.data(), a.bias = nullptr;
      add_cached(t, name + ", window and sinks", some, a, type, v_type, to);
      a.bias = some.distance_bias();
      add_cached(t, name + ", window, sinks and bias", some, a, type, v_type, to);
      a = some.head(true), a.past = some.keys - 1, a.row_step = 0, a.soft_cap = 3.0f;
      a.bias = some.bias.data(), a.bias_by_key = true, a.bias_stride = 3;
      add_cached(t, name + ", heads of a token", some, a, type, v_type, to);
    }
}

}  // namespace makar::kernels::test
