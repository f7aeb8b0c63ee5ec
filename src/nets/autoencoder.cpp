#include "nets/autoencoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/nearest.h"
#include "base/rng.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {
namespace {

using ops::Activation;

const std::vector<std::string>& code_kinds() {
  static const std::vector<std::string> kNames = {"undercomplete", "sparse-l1", "sparse-kl", "denoising",
                                                  "variational"};
  return kNames;
}

Tensor constants(Context& ctx, const Shape& shape, const std::function<float(uint64_t)>& value) {
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.count(); ++i) t.f32()[i] = value(static_cast<uint64_t>(i));
  return t.to(ctx.device.memory());
}

// Binary cross-entropy summed over the inputs, mean over the rows.
Tensor reconstruction_loss(Context& ctx, const Tensor& logits, const Tensor& x) {
  return ops::scale(ctx, ops::bce_loss(ctx, logits, x), static_cast<float>(x.dim(1)));
}

}  // namespace

Result<CodeKind> parse_code_kind(const std::string& name, const std::string& place) {
  for (size_t i = 0; i < code_kinds().size(); ++i)
    if (code_kinds()[i] == name) return static_cast<CodeKind>(i);
  return error_at(place, "unknown kind '{}'{}; expected one of: {}", name, did_you_mean(name, code_kinds()),
                  fmt::join(code_kinds(), ", "));
}

Autoencoder::Code Autoencoder::code_of(Context& ctx, const Tensor& x) {
  const Tensor out = encoder_(ctx, x);
  if (kind_ == CodeKind::kVariational) {
    const auto parts = ops::split(ctx, out, {code_, code_}, -1);
    return {parts[0], parts[1]};
  }
  if (kind_ == CodeKind::kSparseKl) return {ops::activate(ctx, out, Activation::kSigmoid), {}};
  if (kind_ == CodeKind::kSparseL1) return {ops::activate(ctx, out, Activation::kRelu), {}};
  return {out, {}};
}

Tensor Autoencoder::encode(Context& ctx, const Tensor& x) { return code_of(ctx, x).mean; }

Tensor Autoencoder::decode(Context& ctx, const Tensor& code) {
  return ops::activate(ctx, decoder_(ctx, code), Activation::kSigmoid);
}

Tensor Autoencoder::penalty(Context& ctx, const Code& code, const AutoencoderOptions& o) const {
  const auto rows = static_cast<float>(code.mean.dim(0));
  if (kind_ == CodeKind::kVariational) {
    // KL(q || N(0, 1)) = sum of (mean^2 + variance - 1 - log variance) / 2
    const Tensor variance = ops::activate(ctx, code.log_variance, Activation::kExp);
    const Tensor terms = ops::subtract(
        ctx, ops::add(ctx, ops::activate(ctx, code.mean, Activation::kSquare), variance), code.log_variance);
    const Tensor sum = ops::shift(ctx, ops::sum(ctx, terms), -rows * static_cast<float>(code_));
    return ops::scale(ctx, sum, static_cast<float>(o.penalty < 0 ? 1.0 : o.penalty) * 0.5f / rows);
  }
  if (kind_ == CodeKind::kSparseL1)  // the code is not negative
    return ops::scale(ctx, ops::sum(ctx, code.mean),
                      static_cast<float>(o.penalty < 0 ? 0.1 : o.penalty) / rows);
  // Sum over units of KL(activity || mean of the unit). Its derivative with respect to a mean m is
  // (1 - a) / (1 - m) - a / m; the loss here is linear in the means with that slope, and its value is the
  // divergence.
  const Tensor ones = constants(ctx, {1, code.mean.dim(0)}, [&](uint64_t) { return 1.0f / rows; });
  const Tensor means = ops::matmul(ctx, ones, code.mean);  // [1, code]
  const Tensor host = means.host();
  const double a = o.activity;
  std::vector<float> slope;
  double value = 0, linear = 0;
  for (const float mean : host.span()) {
    const double m = std::clamp(static_cast<double>(mean), 1e-6, 1 - 1e-6);
    slope.push_back(static_cast<float>((1 - a) / (1 - m) - a / m));
    value += a * std::log(a / m) + (1 - a) * std::log((1 - a) / (1 - m));
    linear += static_cast<double>(slope.back()) * mean;
  }
  const Tensor slopes = Tensor::from(means.shape(), std::span<const float>(slope)).to(ctx.device.memory());
  const Tensor sum =
      ops::shift(ctx, ops::sum(ctx, ops::multiply(ctx, means, slopes)), static_cast<float>(value - linear));
  return ops::scale(ctx, sum, static_cast<float>(o.penalty < 0 ? 3.0 : o.penalty));
}

Tensor Autoencoder::loss(Context& ctx, const Tensor& x, const AutoencoderOptions& o) {
  Tensor in = x;
  if (kind_ == CodeKind::kDenoising && ctx.training) {
    const Rng rng(ctx.seed, Purpose::kMask, ctx.step);
    in = ops::multiply(ctx, x, constants(ctx, x.shape(), [&](uint64_t i) {
                         return rng.uniform(i) < static_cast<float>(o.noise) ? 0.0f : 1.0f;
                       }));
  }
  const Code code = code_of(ctx, in);
  Tensor z = code.mean;
  if (kind_ == CodeKind::kVariational && ctx.training) {
    const Rng rng(ctx.seed, Purpose::kSample, ctx.step);
    const Tensor normal = constants(ctx, z.shape(), [&](uint64_t i) { return rng.normal(i); });
    const Tensor deviation = ops::activate(ctx, ops::scale(ctx, code.log_variance, 0.5f), Activation::kExp);
    z = ops::add(ctx, z, ops::multiply(ctx, deviation, normal));
  }
  const Tensor reconstruction = reconstruction_loss(ctx, decoder_(ctx, z), x);
  const bool without_penalty = kind_ == CodeKind::kUndercomplete || kind_ == CodeKind::kDenoising;
  return without_penalty || !ctx.training ? reconstruction
                                          : ops::add(ctx, reconstruction, penalty(ctx, code, o));
}

Result<Autoencoder> Autoencoder::train(const Numbers& data, const Numbers& held_out,
                                       const AutoencoderOptions& o, Device& device,
                                       const std::function<void(const CodeEpoch&)>& each) {
  MAKAR_RETURN_IF_ERROR(check(o.training));
  if (held_out.width != data.width)
    return error_at("`test`", "has {} numbers per example, but the training data has {}", held_out.width,
                    data.width);
  if (!(o.activity > 0 && o.activity < 1))
    return error_at("`activity`", "must be above 0 and below 1, got {}", o.activity);
  if (!(o.noise >= 0 && o.noise < 1))
    return error_at("`noise`", "must be at least 0 and below 1, got {}", o.noise);
  Autoencoder net;
  MAKAR_TRY(net.kind_, parse_code_kind(o.kind, "`kind`"));
  net.code_ = o.code, net.height_ = data.height, net.columns_ = data.columns, net.words_ = data.words;
  MlpSpec encoder, decoder;
  MAKAR_TRY(encoder.activation, parse_activation(o.activation, "`activation`"));
  decoder.activation = encoder.activation;
  MAKAR_TRY(const std::vector<int64_t> hidden, parse_widths(o.hidden, "`hidden`"));
  const auto width = static_cast<int64_t>(data.width);
  encoder.widths = {width}, decoder.widths = {o.code};
  encoder.widths.insert(encoder.widths.end(), hidden.begin(), hidden.end());
  decoder.widths.insert(decoder.widths.end(), hidden.rbegin(), hidden.rend());
  encoder.widths.push_back(net.kind_ == CodeKind::kVariational ? 2 * o.code : o.code);
  decoder.widths.push_back(width);
  MAKAR_RETURN_IF_ERROR(check(encoder, "`hidden`"));
  MAKAR_RETURN_IF_ERROR(check(decoder, "`code`"));
  net.encoder_ = Mlp(net.set_, "encoder", encoder), net.decoder_ = Mlp(net.set_, "decoder", decoder);
  initialize(net.set_, encoder.activation, static_cast<uint64_t>(o.training.seed));
  net.set_.to(device.memory());
  const auto measure = [&](const EpochResult& r) -> Result<bool> {
    CodeEpoch e{r.epoch, r.loss, 0};
    constexpr size_t kBatchRows = 512;
    for (size_t first = 0; first < held_out.count; first += kBatchRows) {
      std::vector<size_t> examples(std::min(kBatchRows, held_out.count - first));
      std::iota(examples.begin(), examples.end(), first);
      Context ctx{device};
      e.reconstruction += net.loss(ctx, held_out.rows(device, examples), o).host().f32()[0] *
                          static_cast<double>(examples.size()) / static_cast<double>(held_out.count);
    }
    net.epochs_.push_back(e);
    each(e);
    return true;
  };
  MAKAR_RETURN_IF_ERROR(train_net(
      net.set_, device, o.training, data.count,
      [&](Context& ctx, std::span<const size_t> examples) {
        return net.loss(ctx, data.rows(device, examples), o);
      },
      measure));
  return net;
}

double Autoencoder::activity(const Numbers& data, Device& device) {
  std::vector<size_t> examples(std::min<size_t>(data.count, 1000));
  std::iota(examples.begin(), examples.end(), 0);
  Context ctx{device};
  const Tensor code = encode(ctx, data.rows(device, examples)).host();
  int64_t active = 0;
  for (const float v : code.span()) active += std::fabs(v) > 0.1f;
  return static_cast<double>(active) / static_cast<double>(code.count());
}

Status Autoencoder::save(const std::string& folder) const {
  return save_net(folder,
                  {{"kind", "autoencoder"},
                   {"code", code_kinds()[static_cast<size_t>(kind_)]},
                   {"encoder", to_json(encoder_.spec())},
                   {"decoder", to_json(decoder_.spec())},
                   {"height", height_},
                   {"width", columns_},
                   {"words", words_}},
                  set_);
}

Result<Autoencoder> Autoencoder::load(const std::string& folder) {
  MAKAR_TRY(const Json json, read_net(folder));
  const std::string place = folder + "/net.json";
  if (json["kind"] != "autoencoder") return error_at(place, "this network is not an autoencoder");
  Autoencoder net;
  const Json code = json.value("code", Json()), words = json.value("words", Json::array());
  if (!code.is_string() || !words.is_array())
    return error_at(place, "expected a string 'code' and a list 'words'");
  MAKAR_TRY(net.kind_, parse_code_kind(code.get<std::string>(), place));
  MAKAR_TRY(net.height_, integer_in(json, "height", 0, 65536, place));
  MAKAR_TRY(net.columns_, integer_in(json, "width", 0, 65536, place));
  for (const Json& word : words) {
    if (!word.is_string()) return error_at(place, "words must be strings");
    net.words_.push_back(word.get<std::string>());
  }
  MAKAR_TRY(const MlpSpec encoder, mlp_from_json(json.value("encoder", Json()), place));
  MAKAR_TRY(const MlpSpec decoder, mlp_from_json(json.value("decoder", Json()), place));
  net.code_ = decoder.widths.front();
  const int64_t parts = net.kind_ == CodeKind::kVariational ? 2 : 1;
  const auto inputs = net.height_ > 0 ? net.height_ * net.columns_ : static_cast<int64_t>(net.words_.size());
  if (encoder.widths.back() != parts * net.code_ || decoder.widths.back() != encoder.widths.front() ||
      encoder.widths.front() != inputs)
    return error_at(place, "the widths of encoder, decoder and inputs do not fit together");
  net.encoder_ = Mlp(net.set_, "encoder", encoder), net.decoder_ = Mlp(net.set_, "decoder", decoder);
  MAKAR_RETURN_IF_ERROR(load_weights(folder, net.set_));
  return net;
}

}  // namespace makar
