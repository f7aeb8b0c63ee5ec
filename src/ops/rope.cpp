#include "ops/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/bf16.h"

namespace makar::ops {
namespace {

double yarn_mscale(double scale, double mscale) {
  return scale <= 1.0 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

// YaRN (Peng et al., 2023): high frequencies stay, low ones are interpolated, with a ramp between.
void apply_yarn(const RopeOptions& o, RopeFrequencies& out) {
  const double dim = static_cast<double>(o.rotary), base = std::log(o.theta);
  const auto correction = [&](double rotations) {
    return dim * std::log(static_cast<double>(o.original_positions) / (rotations * 2 * std::numbers::pi)) /
           (2 * base);
  };
  double low = correction(o.beta_fast), high = correction(o.beta_slow);
  if (o.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < out.frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double frequency = out.frequencies[i];
    out.frequencies[i] = frequency / o.factor * ramp + frequency * (1.0 - ramp);
  }
  if (o.attention_factor > 0)
    out.attention_factor = o.attention_factor;
  else if (o.mscale > 0 && o.mscale_all > 0)
    out.attention_factor = yarn_mscale(o.factor, o.mscale) / yarn_mscale(o.factor, o.mscale_all);
  else
    out.attention_factor = yarn_mscale(o.factor, 1.0);
}

// Llama 3: long wavelengths are stretched by the factor, short ones kept, with a blend between.
void apply_llama3(const RopeOptions& o, RopeFrequencies& out) {
  const double context = static_cast<double>(o.original_positions);
  for (double& f : out.frequencies) {
    const double wave = 2 * std::numbers::pi / f;
    if (wave > context / o.low_freq_factor) {
      f /= o.factor;
    } else if (wave >= context / o.high_freq_factor) {
      const double smooth = (context / wave - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor);
      f = (1 - smooth) * f / o.factor + smooth * f;
    }
  }
}

// LongRoPE (Ding et al., 2024): divisors found by search, one list for short and one for long sequences.
void apply_longrope(const RopeOptions& o, int64_t length, RopeFrequencies& out) {
  const auto& factors = length > o.original_positions ? o.long_factors : o.short_factors;
  for (size_t i = 0; i < out.frequencies.size(); ++i) out.frequencies[i] /= factors.at(i);
  if (o.attention_factor > 0)
    out.attention_factor = o.attention_factor;
  else if (o.factor > 1)
    out.attention_factor = static_cast<float>(
        std::sqrt(1.0 + std::log(o.factor) / std::log(static_cast<double>(o.original_positions))));
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeOptions& o, int64_t length) {
  RopeFrequencies out;
  const double dim = static_cast<double>(o.rotary);
  double theta = o.theta;
  if (o.scaling == RopeScaling::kDynamic) {  // NTK-aware, growing with the sequence
    const double original = static_cast<double>(o.original_positions),
                 effective_length = std::max(static_cast<double>(length), original);
    theta *= std::pow(o.factor * effective_length / original - (o.factor - 1), dim / (dim - 2));
  }
  for (int64_t i = 0; i < o.rotary / 2; ++i)
    out.frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / dim));
  if (o.scaling == RopeScaling::kLinear)
    for (double& f : out.frequencies) f /= o.factor;
  if (o.scaling == RopeScaling::kLlama3) apply_llama3(o, out);
  if (o.scaling == RopeScaling::kYarn) apply_yarn(o, out);
  if (o.scaling == RopeScaling::kLongRope) apply_longrope(o, length, out);
  return out;
}

RopeTable rope_table(Context& ctx, std::span<const int64_t> positions, const RopeFrequencies& from) {
  return rope_table(ctx, ctx.upload(positions), from);
}

RopeTable rope_table(Context& ctx, const Tensor& positions, const RopeFrequencies& from) {
  const int64_t rows = positions.count(), half = static_cast<int64_t>(from.frequencies.size());
  const RopeTable table{ctx.empty({rows, half}), ctx.empty({rows, half})};
  // Rounded to f32 like the reference implementation: models were trained with that rounding, which matters
  // at large positions.
  const std::vector<float> frequencies_f32(from.frequencies.begin(), from.frequencies.end());
  const Tensor frequencies = Tensor::from({half}, std::span(frequencies_f32)).to(ctx.device.memory());
  ctx.device.rope_table({ctx.i64(positions), ctx.f32(frequencies), ctx.f32(table.cos), ctx.f32(table.sin),
                         rows, half, from.attention_factor});
  return table;
}

Tensor rope(Context& ctx, const Tensor& x, int64_t heads, const RopeOptions& options,
            const RopeTable& table) {
  const int64_t rows = x.dim(0), width = x.dim(1), half = options.rotary / 2;
  check(table.cos.dim(0) == rows && table.cos.dim(1) == half && width % heads == 0 &&
            options.rotary <= width / heads,
        "rope: shapes disagree");
  const auto rotate = [=, rotary = options.rotary, interleaved = options.interleaved](
                          const Context& c, const Tensor& from, const Tensor& to, float sign) {
    if (from.dtype() == DType::kBF16)
      c.device.rope_bf16({c.bf16(from), c.f32(table.cos), c.f32(table.sin), c.bf16(to), rows, heads,
                          width / heads, rotary, interleaved, sign});
    else
      c.device.rope({c.f32(from), c.f32(table.cos), c.f32(table.sin), c.f32(to), rows, heads, width / heads,
                     rotary, interleaved, sign});
  };
  Tensor y = ctx.empty(x.shape(), x.dtype());
  rotate(ctx, x, y, 1.0f);
  if (ctx.needs(x))
    ctx.tape->record(y, [ctx, to = Key(x), rotate](const Tensor& dy) {
      Tensor dx = ctx.empty(to.shape, to.type);
      rotate(ctx, dy, dx, -1.0f);
      ctx.tape->pass(to, dx);
    });
  return y;
}

}  // namespace makar::ops
