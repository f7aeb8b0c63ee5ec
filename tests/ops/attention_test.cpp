// The bits of attention: a row is the same in one call and in chunks, alone and in a batch; a different order
// of keys is detected. Also recorded weights, sinks, cache types and the dropout rate.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "kernels/cpu/key_pages.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu_device.h"
#include "ops/rope.h"

namespace makar {
namespace {

using ops::AttentionOptions;
using ops::DistanceBias;
using ops::RopeOptions;
using ops::SequenceRows;

Tensor random(const Shape& shape, uint64_t salt) {
  Tensor t = Tensor::empty(shape);
  const Rng rng(salt, Purpose::kSynthetic);
  for (int64_t i = 0; i < t.count(); ++i) t.f32()[i] = 1.5f * rng.normal(static_cast<uint64_t>(i));
  return t;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && !std::memcmp(a.raw(), b.raw(), a.bytes());
}

struct Variant {
  std::string name;
  AttentionOptions o;
  DistanceBias bias;
};

std::vector<Variant> variants() {
  const auto make = [](std::string name, int64_t heads, int64_t kv, int64_t dim) {
    Variant v{std::move(name), {}, {}};
    v.o.heads = heads, v.o.kv_heads = kv, v.o.head_dim = dim,
    v.o.scale = 1.0f / std::sqrt(static_cast<float>(dim));
    return v;
  };
  std::vector<Variant> all = {
      make("plain", 2, 2, 8),    make("grouped", 4, 2, 12), make("multi query", 3, 1, 24),
      make("wide", 2, 2, 64),    make("window", 2, 1, 8),   make("window of 100", 2, 1, 8),
      make("soft cap", 2, 1, 8), make("alibi", 2, 2, 8),    make("t5", 2, 2, 8)};
  all[4].o.window = 5, all[5].o.window = 100, all[6].o.soft_cap = 2.0f;
  all[7].bias.slopes = {0.25f, 0.0625f};
  all[8].bias.table = random({8, 2}, 99), all[8].bias.bidirectional = false, all[8].bias.max_distance = 50;
  return all;
}

// All keys and values in pages, as in the cache; values that are not written are NaN.
struct Pages {
  std::vector<Tensor> data;
  std::vector<int64_t> addresses;
  ops::CachedKeys offsets;
  Pages(const Tensor& k, const Tensor& v, const ops::AttentionOptions& o, DType k_type = DType::kF32,
        DType v_type = DType::kF32) {
    const int64_t dim = o.head_dim, k_head = kernels::key_tile_bytes(k_type, dim),
                  v_head = kernels::value_tile_bytes(v_type, dim);
    offsets = {0, k_head, o.kv_heads * k_head, v_head, k_type, v_type};
    for (int64_t row = 0; row < k.dim(0); ++row) {
      const int64_t at = row % kernels::kKeyTile;
      if (at == 0) data.push_back(Tensor::full({o.kv_heads * (k_head + v_head) / 4}, NAN));
      for (int64_t h = 0; h < o.kv_heads; ++h) {
        const int64_t from = (row * o.kv_heads + h) * dim;
        kernels::store_key(k_type, k.f32() + from, dim, at, data.back().raw() + h * k_head);
        kernels::store_value(v_type, v.f32() + from, dim, at,
                             data.back().raw() + offsets.v_offset + h * v_head);
      }
    }
    for (const Tensor& page : data) addresses.push_back(reinterpret_cast<int64_t>(page.raw()));
  }
  Tensor attend(Context& ctx, const Tensor& q, const SequenceRows& rows, const AttentionOptions& o,
                const ops::DistanceBias& bias = {}, const Tensor& q_sinks = {}) const {
    ops::AttentionBatch batch = ops::attention_batch(ctx, {rows}, o.sinks > 0 ? o.sinks + o.window : 0);
    if (bias.defined()) ops::add_bias(ctx, batch, o.heads, bias);
    batch.pages = ctx.upload(addresses);
    return ops::attend_cached(ctx, q, offsets, batch, o, q_sinks);
  }
};

class AttentionBits : public testing::Test {
 protected:
  CpuDevice device_{2};
  Context ctx_{device_};
};

TEST_F(AttentionBits, WholeEqualsChunksEqualsRowByRow) {
  constexpr int64_t kTokens = 215;
  for (const Variant& v : variants()) {
    const int64_t kv_width = v.o.kv_heads * v.o.head_dim;
    const Tensor q = random({kTokens, v.o.heads * v.o.head_dim}, 1), k = random({kTokens, kv_width}, 2),
                 val = random({kTokens, kv_width}, 3);
    const Tensor one_call = ops::attention(ctx_, q, k, val, {{0, kTokens, 0, kTokens, 0}}, v.o, v.bias);
    const Pages pages(k, val, v.o);
    for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{64}}) {
      for (int64_t past = 0; past < kTokens; past += chunk) {
        const int64_t n = std::min(chunk, kTokens - past);
        const SequenceRows rows{0, n, 0, past + n, past};
        const Tensor part = ops::attention(ctx_, q.slice(past, past + n), k, val, {rows}, v.o, v.bias);
        ASSERT_TRUE(same_bits(part, one_call.slice(past, past + n)))
            << v.name << ", chunks of " << chunk << " at " << past;
        const Tensor cached = pages.attend(ctx_, q.slice(past, past + n), rows, v.o, v.bias);
        ASSERT_TRUE(same_bits(cached, part)) << v.name << ", cached, chunks of " << chunk << " at " << past;
      }
    }
  }
}

// Rows of heads rounded to a cache type, by its definition.
Tensor round_to(const Tensor& x, int64_t dim, DType type) {
  Tensor out = x.clone();
  if (type == DType::kF16)
    for (float& f : out.span()) f = from_f16(to_f16(f));
  if (type != DType::kQ8_0) return out;
  for (int64_t head = 0; head < x.count(); head += dim)
    for (int64_t d = 0; d < dim; d += 32) {
      const auto block = out.span().subspan(static_cast<size_t>(head + d),
                                            static_cast<size_t>(std::min<int64_t>(32, dim - d)));
      float largest = 0;
      for (const float f : block) largest = std::max(largest, std::fabs(f));
      const float scale = largest / 127, stored_scale = from_f16(to_f16(scale));
      for (float& f : block) f = stored_scale * std::round(f * (1 / scale));
    }
  return out;
}

// Attention over a cache of a smaller type equals attention over f32 keys and values rounded to that type:
// the same bits for any chunk size.
TEST_F(AttentionBits, SmallerTypesEqualAttentionOverRoundedValues) {
  constexpr int64_t kTokens = 215;
  const DType types[][2] = {{DType::kF16, DType::kF16},
                            {DType::kQ8_0, DType::kQ8_0},
                            {DType::kQ8_0, DType::kF16},
                            {DType::kF32, DType::kQ8_0}};
  std::vector<Variant> all = variants();
  all.push_back(all[0]);
  all.back().name = "odd",
  all.back().o.head_dim = 50;  // blocks, panels and heads end at different places
  for (const Variant& v : all)
    for (const auto& type : types) {
      const int64_t dim = v.o.head_dim, kv_width = v.o.kv_heads * dim;
      const Tensor q = random({kTokens, v.o.heads * dim}, 1), k = random({kTokens, kv_width}, 2),
                   val = random({kTokens, kv_width}, 3);
      const Tensor one_call = ops::attention(ctx_, q, round_to(k, dim, type[0]), round_to(val, dim, type[1]),
                                             {{0, kTokens, 0, kTokens, 0}}, v.o, v.bias);
      ASSERT_FALSE(
          same_bits(one_call, ops::attention(ctx_, q, k, val, {{0, kTokens, 0, kTokens, 0}}, v.o, v.bias)));
      const Pages pages(k, val, v.o, type[0], type[1]);
      for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{64}, kTokens})
        for (int64_t past = 0; past < kTokens; past += chunk) {
          const int64_t n = std::min(chunk, kTokens - past);
          const Tensor part =
              pages.attend(ctx_, q.slice(past, past + n), {0, n, 0, past + n, past}, v.o, v.bias);
          ASSERT_TRUE(same_bits(part, one_call.slice(past, past + n)))
              << v.name << ", " << name(type[0]) << " and " << name(type[1]) << ", chunks of " << chunk
              << " at " << past;
        }
    }
}

// Attention sinks by their definition, in double: the first keys and a window, with positions counted among
// the visible keys. With rotary positions if `rope` is not null, else with ALiBi.
Tensor reference_sinks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o,
                       const RopeOptions* rope, float slope) {
  const int64_t tokens = q.dim(0), dim = o.head_dim;
  const auto rotated = [&](const float* x, int64_t position, std::vector<double>& out) {
    out.assign(x, x + dim);
    if (!rope) return;
    const auto rotary = ops::rope_frequencies(*rope, 0);
    for (int64_t i = 0; i < dim / 2; ++i) {
      const double a = static_cast<double>(position) * rotary.frequencies[static_cast<size_t>(i)];
      const double x0 = x[i], x1 = x[i + dim / 2];
      out[static_cast<size_t>(i)] = x0 * std::cos(a) - x1 * std::sin(a);
      out[static_cast<size_t>(i + dim / 2)] = x1 * std::cos(a) + x0 * std::sin(a);
    }
  };
  Tensor out = Tensor::zeros(q.shape());
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<int64_t> visible;
    for (int64_t j = 0; j <= t; ++j)
      if (j < o.sinks || j > t - o.window) visible.push_back(j);
    const auto last = static_cast<int64_t>(visible.size()) - 1;
    std::vector<double> query, key, scores;
    rotated(q.f32() + t * dim, last, query);
    double total = 0;
    for (int64_t position = 0; position <= last; ++position) {
      rotated(k.f32() + visible[static_cast<size_t>(position)] * dim, position, key);
      double score = 0;
      for (int64_t d = 0; d < dim; ++d) score += query[static_cast<size_t>(d)] * key[static_cast<size_t>(d)];
      scores.push_back(std::exp(score * o.scale + slope * static_cast<double>(position - last)));
      total += scores.back();
    }
    for (int64_t position = 0; position <= last; ++position)
      for (int64_t d = 0; d < dim; ++d)
        out.f32()[t * dim + d] +=
            static_cast<float>(scores[static_cast<size_t>(position)] / total *
                               v.f32()[visible[static_cast<size_t>(position)] * dim + d]);
  }
  return out;
}

TEST_F(AttentionBits, SinksHaveThePositionsBeforeTheWindow) {
  constexpr int64_t kTokens = 420, kDim = 16;
  for (const bool rotary : {true, false})
    for (const auto& [sinks, window] : {std::pair<int64_t, int64_t>{4, 60}, {1, 7}, {96, 120}, {5, 200}}) {
      AttentionOptions o;
      o.head_dim = kDim, o.sinks = sinks, o.window = window, o.scale = 0.25f;
      const Tensor q = random({kTokens, kDim}, 1), k = random({kTokens, kDim}, 2),
                   v = random({kTokens, kDim}, 3);
      RopeOptions rope;
      rope.rotary = kDim;
      DistanceBias bias;
      if (!rotary) bias.slopes = {0.02f};
      const Tensor want = reference_sinks(q, k, v, o, rotary ? &rope : nullptr, rotary ? 0.0f : 0.02f);
      std::vector<int64_t> positions(kTokens), sink_positions(kTokens);
      for (int64_t i = 0; i < kTokens; ++i) {
        positions[static_cast<size_t>(i)] = i;
        sink_positions[static_cast<size_t>(i)] = std::min(i, sinks + window - 1);
      }
      const auto rotate = [&](const Tensor& x, const std::vector<int64_t>& at) {
        return rotary ? ops::rope(ctx_, x, 1, rope, ops::rope_table(ctx_, at, ops::rope_frequencies(rope, 0)))
                      : x;
      };
      const Tensor rotated = rotate(q, positions), to_sinks = rotary ? rotate(q, sink_positions) : Tensor();
      const Pages pages(rotate(k, positions), v, o);
      const auto part = [&](int64_t past, int64_t n) {
        return pages.attend(ctx_, rotated.slice(past, past + n), {0, n, 0, past + n, past}, o, bias,
                            rotary ? to_sinks.slice(past, past + n) : Tensor());
      };
      const Tensor one_call = part(0, kTokens);
      double worst = 0;
      for (int64_t i = 0; i < want.count(); ++i)
        worst = std::max(
            worst, std::fabs(static_cast<double>(one_call.f32()[i]) - static_cast<double>(want.f32()[i])));
      EXPECT_LT(worst, 5e-5) << "sinks " << sinks << ", window " << window
                             << (rotary ? ", rotary" : ", alibi");
      for (const int64_t chunk : {int64_t{1}, int64_t{50}})
        for (int64_t past = 0; past < kTokens; past += chunk) {
          const int64_t n = std::min(chunk, kTokens - past);
          ASSERT_TRUE(same_bits(part(past, n), one_call.slice(past, past + n))) << chunk << " at " << past;
        }
    }
}

// Values above the range of f16 are clamped; NaN stays.
TEST_F(AttentionBits, SmallerTypesClampAndKeepNan) {
  ops::AttentionOptions o;
  o.head_dim = 8;
  const Tensor q = Tensor::full({2, 8}, 0.0f), k = random({2, 8}, 2);
  for (const DType type : {DType::kF16, DType::kQ8_0}) {
    Tensor v = Tensor::full({2, 8}, 3e8f);
    const auto read = [&] {
      const Pages pages(k, v, o, type, type);
      return pages.attend(ctx_, q, {0, 2, 0, 2, 0}, o);
    };
    const Tensor large = read();
    for (const float x : large.span()) ASSERT_TRUE(std::isfinite(x) && x > 6e4f) << name(type) << " " << x;
    v.f32()[0] = NAN;
    ASSERT_TRUE(std::isnan(read().f32()[0])) << name(type);
  }
}

TEST_F(AttentionBits, OutputAndGradientsOfASequenceAreTheSameAloneAndInABatch) {
  for (const Variant& v : variants()) {
    std::vector<SequenceRows> sequences;
    int64_t at = 0;
    for (int64_t s = 0; s < 33; ++s) {
      const int64_t n = s == 17 ? 130 : 1 + s * 37 % 101;
      sequences.push_back({at, n, at, n, 0}), at += n;
    }
    const int64_t kv_width = v.o.kv_heads * v.o.head_dim;
    const Tensor q = random({at, v.o.heads * v.o.head_dim}, 1), k = random({at, kv_width}, 2),
                 val = random({at, kv_width}, 3);
    const Tensor dy = random(q.shape(), 4);
    const SequenceRows sequence = sequences[17];
    const auto rows_of = [&](const Tensor& t) {
      return t.slice(sequence.q_start, sequence.q_start + sequence.q_rows);
    };
    const auto run = [&](const Tensor& a, const Tensor& b, const Tensor& c,
                         const std::vector<SequenceRows>& rows, const Tensor& d) {
      Tape tape(device_);
      Context ctx{device_, &tape};
      for (const Tensor& t : {a, b, c}) tape.watch(t);
      const Tensor y = ops::attention(ctx, a, b, c, rows, v.o, v.bias);
      tape.backward(y, d);
      return std::vector<Tensor>{y, tape.gradient(a), tape.gradient(b), tape.gradient(c)};
    };
    const auto all = run(q, k, val, sequences, dy);
    const auto alone = run(rows_of(q).clone(), rows_of(k).clone(), rows_of(val).clone(),
                           {{0, sequence.q_rows, 0, sequence.kv_rows, 0}}, rows_of(dy).clone());
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_TRUE(same_bits(rows_of(all[i]), alone[i])) << v.name << ", tensor " << i;
  }
}

// Splitting the keys where a chunk begins and merging the halves (as in flash decoding) is correct up to
// rounding, and the comparison above must detect the different order.
TEST_F(AttentionBits, ABrokenOrderIsDetected) {
  constexpr int64_t kTokens = 60, kDim = 8, kSplit = 25;
  const Tensor q = random({kTokens, kDim}, 1), k = random({kTokens, kDim}, 2), v = random({kTokens, kDim}, 3);
  AttentionOptions o;
  o.head_dim = kDim, o.causal = false;
  const Tensor one_call = ops::attention(ctx_, q, k, v, {{0, kTokens, 0, kTokens, 0}}, o);
  const auto part = [&](int64_t begin, int64_t end, Tensor& out, Tensor& lse) {
    out = Tensor::empty(q.shape()), lse = Tensor::empty({kTokens});
    kernels::AttentionHead a{};
    a.q = q.f32(), a.k = k.f32() + begin * kDim, a.v = v.f32() + begin * kDim;
    a.q_stride = a.kv_stride = a.out_stride = a.dim = kDim;
    a.rows = kTokens, a.keys = end - begin, a.out = out.f32(), a.lse = lse.f32();
    Tensor scratch = Tensor::empty({kernels::cpu().attention_scratch(a)});
    kernels::cpu().attention_forward(a, scratch.f32());
  };
  Tensor left, right, left_lse, right_lse, merged = Tensor::empty(q.shape());
  part(0, kSplit, left, left_lse), part(kSplit, kTokens, right, right_lse);
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < merged.count(); ++i) {
    const float w = 1.0f / (1.0f + std::exp(right_lse.f32()[i / kDim] - left_lse.f32()[i / kDim]));
    merged.f32()[i] = w * left.f32()[i] + (1.0f - w) * right.f32()[i];
    difference += std::pow(merged.f32()[i] - one_call.f32()[i], 2), norm += std::pow(one_call.f32()[i], 2);
  }
  EXPECT_LT(std::sqrt(difference / norm), 1e-6);
  EXPECT_FALSE(same_bits(merged, one_call));
}

TEST_F(AttentionBits, RecordedWeightsReproduceTheOutput) {
  for (const Variant& v : variants()) {
    const std::vector<SequenceRows> sequences = {{0, 5, 0, 5, 0}, {5, 20, 5, 120, 100}};
    const int64_t kv_width = v.o.kv_heads * v.o.head_dim;
    const Tensor q = random({25, v.o.heads * v.o.head_dim}, 1), k = random({125, kv_width}, 2),
                 val = random({125, kv_width}, 3);
    std::vector<Tensor> maps;
    const Tensor y = ops::attention(ctx_, q, k, val, sequences, v.o, v.bias, &maps);
    ASSERT_EQ(maps.size(), 2u);
    ASSERT_TRUE(same_bits(y, ops::attention(ctx_, q, k, val, sequences, v.o, v.bias)));
    for (size_t s = 0; s < 2; ++s) {
      const SequenceRows& r = sequences[s];
      ASSERT_TRUE((maps[s].shape() == Shape{v.o.heads, r.q_rows, r.kv_rows}));
      for (int64_t h = 0; h < v.o.heads; ++h)
        for (int64_t i = 0; i < r.q_rows; ++i) {
          const float* w = maps[s].f32() + (h * r.q_rows + i) * r.kv_rows;
          double sum = 0, first = 0;
          for (int64_t j = 0; j < r.kv_rows; ++j) {
            sum += w[j];
            first +=
                w[j] * val.f32()[(r.kv_start + j) * kv_width + h * v.o.kv_heads / v.o.heads * v.o.head_dim];
            if (j > r.past + i) EXPECT_EQ(w[j], 0.0f);
          }
          EXPECT_NEAR(sum, 1.0, 1e-5) << v.name;
          EXPECT_NEAR(first, y.f32()[(r.q_start + i) * v.o.heads * v.o.head_dim + h * v.o.head_dim], 2e-5)
              << v.name;
        }
    }
  }
}

TEST_F(AttentionBits, DropoutKeepsItsRateAndChangesWithTheStep) {
  AttentionOptions o;
  o.heads = o.kv_heads = 4, o.head_dim = 8, o.causal = false, o.dropout = 0.25f;
  constexpr int64_t kTokens = 128;
  const Tensor q = Tensor::zeros({kTokens, 32}),
               ones =
                   Tensor::full({kTokens, 32}, 1.0f);  // equal weights: out is the mean of the keep factors
  Context ctx{device_, nullptr, true, 5, 1};
  const Tensor a = ops::attention(ctx, q, q, ones, {{0, kTokens, 0, kTokens, 0}}, o);
  double mean = 0;
  for (const float x : a.span()) mean += x / static_cast<double>(a.count());
  EXPECT_NEAR(mean, 1.0, 0.01);  // 65536 draws: a standard deviation of 0.0023
  ctx.stream = 0;
  EXPECT_TRUE(same_bits(a, ops::attention(ctx, q, q, ones, {{0, kTokens, 0, kTokens, 0}}, o)));
  EXPECT_FALSE(same_bits(a, ops::attention(ctx, q, q, ones, {{0, kTokens, 0, kTokens, 0}}, o)))
      << "another call, another mask";
  ctx.stream = 0, ctx.step = 2;
  EXPECT_FALSE(same_bits(a, ops::attention(ctx, q, q, ones, {{0, kTokens, 0, kTokens, 0}}, o)));
  ctx.training = false;
  EXPECT_TRUE(same_bits(ones, ops::attention(ctx, q, q, ones, {{0, kTokens, 0, kTokens, 0}}, o)));
}

TEST(T5Bucket, AgreesWithTransformers) {
  // transformers' _relative_position_bucket with 32 buckets and a maximum distance of 128.
  const std::vector<std::pair<int64_t, int64_t>> bidirectional = {
      {0, 0},   {-1, 1},   {1, 17},   {-7, 7},    {-8, 8},    {-16, 10},
      {16, 26}, {-32, 12}, {-64, 14}, {-127, 15}, {-128, 15}, {500, 31}};
  for (const auto& [distance, bucket] : bidirectional)
    EXPECT_EQ(ops::t5_bucket(distance, true, 32, 128), bucket) << distance;
  const std::vector<std::pair<int64_t, int64_t>> causal = {
      {0, 0}, {5, 0}, {-1, 1}, {-15, 15}, {-16, 16}, {-32, 21}, {-64, 26}, {-127, 31}, {-1000, 31}};
  for (const auto& [distance, bucket] : causal)
    EXPECT_EQ(ops::t5_bucket(distance, false, 32, 128), bucket) << distance;
}

}  // namespace
}  // namespace makar
