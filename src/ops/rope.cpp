#include "ops/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/kernels.h"
#include "ops/ranges.h"

namespace makar::ops {
namespace {

double yarn_mscale(double scale, double mscale) {
  return scale <= 1.0 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

// YaRN (Peng et al., 2023): high frequencies stay, low ones are interpolated, with a ramp between.
void apply_yarn(const RopeOptions& o, RopeAngles& angles) {
  const double dim = static_cast<double>(o.rotary), base = std::log(o.theta);
  const auto correction = [&](double rotations) {
    return dim * std::log(static_cast<double>(o.original_positions) / (rotations * 2 * std::numbers::pi)) /
           (2 * base);
  };
  double low = correction(o.beta_fast), high = correction(o.beta_slow);
  if (o.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < angles.frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double plain = angles.frequencies[i];
    angles.frequencies[i] = plain / o.factor * ramp + plain * (1.0 - ramp);
  }
  if (o.attention_factor > 0)
    angles.attention_factor = o.attention_factor;
  else if (o.mscale > 0 && o.mscale_all > 0)
    angles.attention_factor = yarn_mscale(o.factor, o.mscale) / yarn_mscale(o.factor, o.mscale_all);
  else
    angles.attention_factor = yarn_mscale(o.factor, 1.0);
}

// Llama 3: long waves are stretched by the factor, short ones kept, with a blend between.
void apply_llama3(const RopeOptions& o, RopeAngles& angles) {
  const double context = static_cast<double>(o.original_positions);
  for (double& f : angles.frequencies) {
    const double wave = 2 * std::numbers::pi / f;
    if (wave > context / o.low_freq_factor) {
      f /= o.factor;
    } else if (wave >= context / o.high_freq_factor) {
      const double smooth = (context / wave - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor);
      f = (1 - smooth) * f / o.factor + smooth * f;
    }
  }
}

}  // namespace

RopeAngles rope_angles(const RopeOptions& o, int64_t length) {
  RopeAngles angles;
  const double dim = static_cast<double>(o.rotary);
  double theta = o.theta;
  if (o.scaling == RopeScaling::kDynamic) {  // NTK-aware, growing with the sequence
    const double original = static_cast<double>(o.original_positions),
                 seen = std::max(static_cast<double>(length), original);
    theta *= std::pow(o.factor * seen / original - (o.factor - 1), dim / (dim - 2));
  }
  for (int64_t i = 0; i < o.rotary / 2; ++i)
    angles.frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / dim));
  if (o.scaling == RopeScaling::kLinear)
    for (double& f : angles.frequencies) f /= o.factor;
  if (o.scaling == RopeScaling::kLlama3) apply_llama3(o, angles);
  if (o.scaling == RopeScaling::kYarn) apply_yarn(o, angles);
  return angles;
}

RopeTable rope_table(Context& ctx, std::span<const int64_t> positions, const RopeAngles& angles) {
  const int64_t rows = static_cast<int64_t>(positions.size()),
                half = static_cast<int64_t>(angles.frequencies.size());
  RopeTable table{Tensor::empty({rows, half}), Tensor::empty({rows, half})};
  each_rows(ctx, rows, half * 8, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r)
      for (int64_t i = 0; i < half; ++i) {
        // Frequencies and angles are rounded to f32 as in the reference: at far positions that is what models
        // saw.
        const float angle = static_cast<float>(positions[static_cast<size_t>(r)]) *
                            static_cast<float>(angles.frequencies[static_cast<size_t>(i)]);
        table.cos.f32()[r * half + i] =
            static_cast<float>(std::cos(static_cast<double>(angle)) * angles.attention_factor);
        table.sin.f32()[r * half + i] =
            static_cast<float>(std::sin(static_cast<double>(angle)) * angles.attention_factor);
      }
  });
  return table;
}

Tensor rope(Context& ctx, const Tensor& x, int64_t heads, const RopeOptions& options,
            const RopeTable& table) {
  const int64_t rows = x.dim(0), width = x.dim(1), half = options.rotary / 2;
  check(table.cos.dim(0) == rows && table.cos.dim(1) == half && width % heads == 0 &&
            options.rotary <= width / heads,
        "rope: shapes disagree");
  const auto turn = [=](Context& c, const Tensor& from, const Tensor& to, float sign) {
    each_rows(c, rows, width, [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r)
        kernels::cpu().rope(
            from.f32() + r * width, to.f32() + r * width,
            {table.cos.f32() + r * half, table.sin.f32() + r * half, static_cast<int>(heads),
             static_cast<int>(width / heads), static_cast<int>(options.rotary), options.interleaved, sign});
    });
  };
  Tensor y = Tensor::empty(x.shape());
  turn(ctx, x, y, 1.0f);
  if (ctx.needs(x))
    ctx.tape->record(y, [&ctx, to = Key(x), turn](const Tensor& dy) {
      Tensor dx = Tensor::empty(to.shape);
      turn(ctx, dy, dx, -1.0f);
      ctx.tape->pass(to, dx);
    });
  return y;
}

}  // namespace makar::ops
