#include "nets/gan.h"

#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "base/rng.h"
#include "data/permutation.h"
#include "nets/conv_nets.h"
#include "nets/mlp.h"
#include "ops/elementwise.h"
#include "ops/shape.h"
#include "ops/softmax.h"

namespace makar {
namespace {

using ops::Activation;

Tensor normals(Device& device, const Shape& shape, const Rng& rng, float deviation) {
  Tensor t = Tensor::empty(shape);
  for (int64_t i = 0; i < t.count(); ++i) t.f32()[i] = deviation * rng.normal(static_cast<uint64_t>(i));
  return t.to(device.memory());
}

Tensor filled(Device& device, const Shape& shape, float value) {
  Tensor t = Tensor::empty(shape);
  std::fill_n(t.f32(), t.count(), value);
  return t.to(device.memory());
}

double mean_probability(const Tensor& logits) {
  const Tensor host = logits.host();
  double sum = 0;
  for (const float x : host.span()) sum += 1.0 / (1.0 + std::exp(-static_cast<double>(x)));
  return sum / static_cast<double>(host.count());
}

// Weights with a deviation of 0.02 (Radford et al., 2016): the first images are grey. Larger ones give noise
// that the discriminator recognises at once, and that the generator needs thousands of steps to unlearn.
void start_small(ParameterSet& set, uint64_t seed) {
  initialize(set, UnitKind::kRelu, seed);
  uint64_t stream = 0;
  for (const auto& p : set.all()) {
    const Rng rng(seed, Purpose::kInit, ++stream);
    for (int64_t i = 0; p->shape.rank() == 2 && i < p->value.count(); ++i)
      p->value.f32()[i] = 0.02f * rng.normal(static_cast<uint64_t>(i));
  }
}

// The two networks, of one kind.
struct GanSpecs {
  ConvSpec conv_generator, conv_discriminator;
  MlpSpec generator, discriminator;
};

Result<GanSpecs> specs_of(const GanOptions& o, int64_t height, int64_t columns) {
  const bool conv = o.kind == "conv";
  const auto widths = [&](const std::string& given, const char* usual, const char* place) {
    return parse_widths(given.empty() ? usual : given, place);
  };
  MAKAR_TRY(const auto up, widths(o.generator, conv ? "64,32" : "256,512", "--generator"));
  MAKAR_TRY(const auto down, widths(o.discriminator, conv ? "32,64" : "512,256", "--discriminator"));
  const auto dropout = static_cast<float>(o.dropout);
  GanSpecs out;
  out.conv_generator = {height, columns, up, o.code, 0};
  out.conv_discriminator = {height, columns, down, 0, dropout};
  out.generator = {up, UnitKind::kRelu, true, 0};
  out.discriminator = {down, UnitKind::kLeakyRelu, false, dropout};
  auto &g = out.generator.widths, &d = out.discriminator.widths;
  g.insert(g.begin(), o.code), g.push_back(height * columns);
  d.insert(d.begin(), height * columns), d.push_back(1);
  return out;
}

}  // namespace

Status check(const GanOptions& o) {
  MAKAR_CHECK_OK(check(o.training));
  if (o.kind != "conv" && o.kind != "mlp")
    return error_at("--kind", "unknown network '{}'{}; expected conv or mlp", o.kind,
                    did_you_mean(o.kind, {"conv", "mlp"}));
  if (!(o.discriminator_rate >= 0 && std::isfinite(o.discriminator_rate)))
    return error_at("--discriminator-learning-rate", "must be 0 or more");
  if (o.code < 1 || o.code > 4096) return error_at("--code", "must be 1 to 4096, got {}", o.code);
  if (!(o.smoothing >= 0 && o.smoothing < 0.5))
    return error_at("--label-smoothing", "must be 0 to below 0.5, got {}", o.smoothing);
  if (!(o.noise >= 0 && o.noise <= 10)) return error_at("--noise", "must be 0 to 10, got {}", o.noise);
  if (!(o.dropout >= 0 && o.dropout < 1))
    return error_at("--dropout", "must be 0 to below 1, got {}", o.dropout);
  if (!(o.average >= 0 && o.average < 1)) return error_at("--ema", "must be 0 to below 1, got {}", o.average);
  MAKAR_TRY(const GanSpecs specs, specs_of(o, 64, 64));  // the lists of numbers
  (void)specs;
  return Done{};
}

Status check(const GanOptions& o, const Numbers& data) {
  MAKAR_CHECK_OK(check(o));
  if (data.count < static_cast<size_t>(o.training.batch))
    return error_at("--batch-size", "is larger than the {} examples", data.count);
  MAKAR_TRY(const GanSpecs specs, specs_of(o, data.height, data.columns));
  if (o.kind == "conv") {
    MAKAR_CHECK_OK(check(specs.conv_generator, "--generator"));
    return check(specs.conv_discriminator, "--discriminator");
  }
  MAKAR_CHECK_OK(check(specs.generator, "--generator"));
  return check(specs.discriminator, "--discriminator");
}

void Gan::build(const Numbers& data, const GanOptions& o) {
  const GanSpecs specs = specs_of(o, data.height, data.columns).value();
  const auto use = [](auto net) { return [net](Context& ctx, const Tensor& x) { return (*net)(ctx, x); }; };
  if (o.kind == "conv") {
    generator_ = use(std::make_shared<ConvGenerator>(generator_set_, "generator", specs.conv_generator));
    discriminator_ = use(
        std::make_shared<ConvDiscriminator>(discriminator_set_, "discriminator", specs.conv_discriminator));
    generator_spec_ = to_json(specs.conv_generator);
  } else {
    generator_ = use(std::make_shared<Mlp>(generator_set_, "generator", specs.generator));
    discriminator_ = use(std::make_shared<Mlp>(discriminator_set_, "discriminator", specs.discriminator));
    generator_spec_ = to_json(specs.generator);
  }
  start_small(generator_set_, seed_);
  start_small(discriminator_set_, seed_ + 1);
}

Tensor Gan::generate(Context& ctx, size_t rows, uint64_t draw) {
  const Tensor code =
      normals(ctx.device, {static_cast<int64_t>(rows), code_}, Rng(seed_, Purpose::kSample, draw), 1.0f);
  return ops::activate(ctx, generator_(ctx, code), Activation::kSigmoid);
}

Result<Gan> Gan::train(const Numbers& data, const GanOptions& o, Device& device,
                       const std::function<void(const GanEpoch&, const Preview&)>& each) {
  MAKAR_CHECK_OK(check(o, data));
  const auto batch = static_cast<size_t>(o.training.batch);
  Gan gan;
  gan.code_ = o.code, gan.seed_ = static_cast<uint64_t>(o.training.seed);
  gan.height_ = data.height, gan.columns_ = data.columns;
  gan.build(data, o);
  gan.generator_set_.to(device.memory()), gan.discriminator_set_.to(device.memory());
  OptimizerOptions named;
  named.name = o.training.optimizer, named.weight_decay = o.training.weight_decay;
  named.beta1 = o.training.beta1 >= 0 ? o.training.beta1 : 0.5;
  MAKAR_TRY(Optimizer for_generator, Optimizer::make(gan.generator_set_, named));
  MAKAR_TRY(Optimizer for_discriminator, Optimizer::make(gan.discriminator_set_, named));
  std::vector<Tensor> averages;
  for (const auto& p : gan.generator_set_.all()) averages.push_back(p->value.clone());

  const size_t steps = data.count / batch;
  const double total = static_cast<double>(steps) * static_cast<double>(o.training.epochs);
  const double norm = o.training.max_grad_norm;
  Schedule schedule;
  MAKAR_TRY(schedule.kind, schedule_kind(o.training.lr_scheduler));
  schedule.peak = o.training.learning_rate, schedule.total = o.training.epochs * static_cast<int64_t>(steps);
  const double share_of_d = o.discriminator_rate > 0 ? o.discriminator_rate / schedule.peak : 1.0;
  const auto rows = static_cast<int64_t>(batch);
  uint64_t step = 0;
  for (int64_t epoch = 0; epoch < o.training.epochs; ++epoch) {
    const Permutation order(data.count, gan.seed_, static_cast<uint64_t>(epoch));
    GanEpoch result{epoch + 1};
    for (size_t first = 0; first + batch <= steps * batch; first += batch, ++step) {
      std::vector<size_t> which;
      for (size_t i = first; i < first + batch; ++i) which.push_back(order(i));
      const double lr = schedule.at(static_cast<int64_t>(step));
      const auto fade = static_cast<float>(o.noise * (1.0 - static_cast<double>(step) / total));
      const auto noisy = [&](Context& ctx, const Tensor& x, uint64_t draw) {
        if (fade <= 0) return x;
        return ops::add(ctx, x,
                        normals(device, x.shape(), Rng(gan.seed_, Purpose::kMask, 4 * step + draw), fade));
      };
      Context plain{device};
      plain.training = true;  // batch norm by the batch, as in the generator's step
      const Tensor fake = gan.generate(plain, batch, 2 * step);
      Tensor on_real, on_fake;
      Context ctx{device, nullptr, true, gan.seed_, 2 * step};
      MAKAR_TRY(
          const double of_d,
          step_on(gan.discriminator_set_, for_discriminator, ctx, share_of_d * lr, norm, [&](Context& c) {
            on_real = gan.discriminator_(c, noisy(c, data.rows(device, which), 0));
            on_fake = gan.discriminator_(c, noisy(c, fake, 1));
            const auto smooth = static_cast<float>(1.0 - o.smoothing);
            return ops::add(c, ops::bce_loss(c, on_real, filled(device, {rows, 1}, smooth)),
                            ops::bce_loss(c, on_fake, filled(device, {rows, 1}, 0.0f)));
          }));
      Context next{device, nullptr, true, gan.seed_, 2 * step + 1};
      MAKAR_TRY(const double of_g,
                step_on(gan.generator_set_, for_generator, next, lr, norm, [&](Context& c) {
                  const Tensor images = gan.generate(c, batch, 2 * step + 1);
                  return ops::bce_loss(c, gan.discriminator_(c, noisy(c, images, 2)),
                                       filled(device, {rows, 1}, 1.0f));
                }));
      // The first steps weigh less: an average of few steps would be that of the random start.
      const double seen = static_cast<double>(step), decay = std::min(o.average, (1 + seen) / (10 + seen));
      for (size_t i = 0; i < averages.size(); ++i) {
        const Parameter& p = *gan.generator_set_.all()[i];
        device.blend({f32_on(device, p.value), f32_on(device, averages[i]), p.value.count(),
                      static_cast<float>(1.0 - decay)});
      }
      const double share = 1.0 / static_cast<double>(steps);
      result.discriminator_loss += of_d * share, result.generator_loss += of_g * share;
      o.progress(epoch + 1, first / batch + 1, steps);
      result.real += mean_probability(on_real) * share, result.made += mean_probability(on_fake) * share;
    }
    gan.epochs_.push_back(result);
    each(result, [&](size_t count) { return gan.preview(count, averages, device); });
  }
  if (o.average > 0) {
    for (size_t i = 0; i < averages.size(); ++i)
      if (Parameter& p = *gan.generator_set_.all()[i]; !p.buffer) p.value = averages[i];
    // The running statistics of batch norm belong to the last weights: measure them again with the averaged
    // ones.
    Context ctx{device};
    ctx.training = true;
    for (uint64_t i = 0; i < 50; ++i) (void)gan.generate(ctx, batch, 2 * step + i);
  }
  return gan;
}

std::vector<float> Gan::preview(size_t count, const std::vector<Tensor>& weights, Device& device) {
  std::vector<Tensor> last;
  for (size_t i = 0; i < weights.size(); ++i) {
    Parameter& p = *generator_set_.all()[i];
    last.push_back(p.value);
    p.value = p.buffer ? p.value.clone() : weights[i];  // batch norm writes its statistics
  }
  Context ctx{device};
  ctx.training = true;  // by the statistics of this batch
  const Tensor code =
      normals(device, {static_cast<int64_t>(count), code_}, Rng(seed_, Purpose::kSynthetic, 0), 1.0f);
  const Tensor images = ops::activate(ctx, generator_(ctx, code), Activation::kSigmoid).host();
  for (size_t i = 0; i < last.size(); ++i) generator_set_.all()[i]->value = last[i];
  return {images.f32(), images.f32() + images.count()};
}

std::vector<float> Gan::sample(size_t count, uint64_t seed, Device& device) {
  Context ctx{device};
  const Tensor code =
      normals(device, {static_cast<int64_t>(count), code_}, Rng(seed, Purpose::kSynthetic, 0), 1.0f);
  const Tensor images = ops::activate(ctx, generator_(ctx, code), Activation::kSigmoid).host();
  return {images.f32(), images.f32() + images.count()};
}

Status Gan::save(const std::string& folder) const {
  return save_net(folder,
                  {{"kind", "gan"}, {"generator", generator_spec_}, {"height", height_}, {"width", columns_}},
                  generator_set_);
}

Result<Gan> Gan::load(const std::string& folder) {
  MAKAR_TRY(const Json json, read_net(folder));
  const std::string place = folder + "/net.json";
  if (json["kind"] != "gan") return error_at(place, "is not a generative adversarial network");
  Gan gan;
  MAKAR_TRY(gan.height_, integer_in(json, "height", 1, 1024, place));
  MAKAR_TRY(gan.columns_, integer_in(json, "width", 1, 1024, place));
  gan.generator_spec_ = json.value("generator", Json());
  const auto use = [](auto net) { return [net](Context& ctx, const Tensor& x) { return (*net)(ctx, x); }; };
  int64_t pixels = 0;
  if (gan.generator_spec_.is_object() && gan.generator_spec_.contains("channels")) {
    MAKAR_TRY(const ConvSpec spec, conv_from_json(gan.generator_spec_, place));
    gan.code_ = spec.code, pixels = spec.height * spec.width;
    gan.generator_ = use(std::make_shared<ConvGenerator>(gan.generator_set_, "generator", spec));
  } else {
    MAKAR_TRY(const MlpSpec spec, mlp_from_json(gan.generator_spec_, place));
    gan.code_ = spec.widths.front(), pixels = spec.widths.back();
    gan.generator_ = use(std::make_shared<Mlp>(gan.generator_set_, "generator", spec));
  }
  if (pixels != gan.height_ * gan.columns_)
    return error_at(place, "the generator makes {} pixels, the images have {}", pixels,
                    gan.height_ * gan.columns_);
  MAKAR_CHECK_OK(load_weights(folder, gan.generator_set_));
  return gan;
}

}  // namespace makar
