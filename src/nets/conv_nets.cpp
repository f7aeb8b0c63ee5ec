#include "nets/conv_nets.h"

#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/shape.h"

namespace makar {
namespace {

constexpr int64_t kKernel = 4, kStride = 2, kPadding = 1;  // a layer halves or doubles height and width
constexpr size_t kMaxLayers = 6;

}  // namespace

Status check(const ConvSpec& s, const std::string& place) {
  const size_t layers = s.channels.size();
  if (layers < 1 || layers > kMaxLayers)
    return error_at(place, "expected 1 to {} layers, got {}", kMaxLayers, layers);
  for (const int64_t c : s.channels)
    if (c < 1 || c > 4096) return error_at(place, "a layer has 1 to 4096 channels, got {}", c);
  const int64_t divisor = int64_t{1} << layers;
  if (s.height < divisor || s.width < divisor || s.height % divisor != 0 || s.width % divisor != 0)
    return error_at(place,
                    "{} layers need heights and widths that are multiples of {}, but the images have {} x "
                    "{}; use fewer layers or `kind` mlp",
                    layers, divisor, s.height, s.width);
  if (!(s.dropout >= 0 && s.dropout < 1))
    return error_at("`dropout`", "must be at least 0 and below 1, got {}", s.dropout);
  return Done{};
}

Json to_json(const ConvSpec& s) {
  return {{"channels", s.channels}, {"code", s.code}, {"height", s.height}, {"width", s.width}};
}

Result<ConvSpec> conv_from_json(const Json& json, const std::string& place) {
  constexpr int64_t kMaxSide = 1024;
  ConvSpec s;
  MAKAR_TRY(s.height, integer_in(json, "height", 1, kMaxSide, place));
  MAKAR_TRY(s.width, integer_in(json, "width", 1, kMaxSide, place));
  MAKAR_TRY(s.code, integer_in(json, "code", 1, 4096, place));
  const Json channels = json.value("channels", Json());
  if (!channels.is_array() || channels.size() > kMaxLayers)
    return error_at(place, "expected the channels of up to {} layers", kMaxLayers);
  for (const Json& c : channels) {
    if (!c.is_number_integer()) return error_at(place, "channels must be integers");
    s.channels.push_back(c.get<int64_t>());
  }
  MAKAR_RETURN_IF_ERROR(check(s, place));
  return s;
}

ConvGenerator::ConvGenerator(ParameterSet& set, const std::string& name, ConvSpec spec)
    : spec_(std::move(spec)) {
  const size_t layers = spec_.channels.size();
  const int64_t pixels = (spec_.height >> layers) * (spec_.width >> layers);
  // Without a bias: with one, the generator can ignore the code and collapse to a single image.
  first_ = Linear(set, name + ".first", spec_.code, pixels * spec_.channels[0], false);
  for (size_t i = 0; i < layers; ++i) {
    const std::string prefix = fmt::format("{}.{}", name, i);
    const int64_t out = i + 1 < layers ? spec_.channels[i + 1] : 1;
    norms_.emplace_back(set, prefix + ".norm", spec_.channels[i]);
    up_.emplace_back(set, prefix, spec_.channels[i], out * kKernel * kKernel, false);
  }
}

Tensor ConvGenerator::operator()(Context& ctx, const Tensor& x) {
  const int64_t rows = x.dim(0);
  const size_t layers = spec_.channels.size();
  int64_t height = spec_.height >> layers, width = spec_.width >> layers;
  Tensor h = ops::reshape(ctx, first_(ctx, x), {rows * height * width, spec_.channels[0]});
  for (size_t i = 0; i < layers; ++i) {
    h = ops::activate(ctx, norms_[i](ctx, h), ops::Activation::kRelu);
    height *= 2, width *= 2;
    const int64_t out = i + 1 < layers ? spec_.channels[i + 1] : 1;
    h = ops::fold(ctx, up_[i](ctx, h), {rows, out, height, width}, kKernel, kStride, kPadding);
    if (i + 1 < layers) h = ops::unfold(ctx, h, 1, 1);  // rows of channels
  }
  return ops::reshape(ctx, h, {rows, height * width});
}

ConvDiscriminator::ConvDiscriminator(ParameterSet& set, const std::string& name, ConvSpec spec)
    : spec_(std::move(spec)) {
  int64_t in = 1;
  for (size_t i = 0; i < spec_.channels.size(); in = spec_.channels[i++])
    down_.emplace_back(set, fmt::format("{}.{}", name, i), in * kKernel * kKernel, spec_.channels[i], true);
  const size_t layers = spec_.channels.size();
  last_ = Linear(set, name + ".last", (spec_.height >> layers) * (spec_.width >> layers) * in, 1, true);
}

Tensor ConvDiscriminator::operator()(Context& ctx, const Tensor& x) {
  const int64_t rows = x.dim(0);
  int64_t height = spec_.height, width = spec_.width, channels = 1;
  Tensor h = ops::reshape(ctx, x, {rows, 1, height, width});
  for (size_t i = 0; i < down_.size(); ++i) {
    if (i > 0)  // rows of channels as images
      h = ops::fold(ctx, h, {rows, channels, height, width}, 1, 1);
    h = down_[i](ctx, ops::unfold(ctx, h, kKernel, kStride, kPadding));
    h = ops::dropout(ctx, apply_activation(ctx, h, HiddenActivation::kLeakyRelu), spec_.dropout);
    height /= 2, width /= 2, channels = spec_.channels[i];
  }
  return last_(ctx, ops::reshape(ctx, h, {rows, height * width * channels}));
}

}  // namespace makar
