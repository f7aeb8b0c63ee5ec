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

Tensor constant_tensor(Device& device, const Shape& shape, float value) {
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

// Weights with a deviation of 0.02 (Radford et al., 2016): the first images are grey. Larger weights give
// noise that the discriminator recognises at once and that takes the generator thousands of steps to unlearn.
void initialize_small(ParameterSet& set, uint64_t seed) {
  initialize(set, HiddenActivation::kRelu, seed);
  uint64_t stream = 0;
  for (const auto& p : set.all()) {
    const Rng rng(seed, Purpose::kInit, ++stream);
    for (int64_t i = 0; p->shape.rank() == 2 && i < p->value.count(); ++i)
      p->value.f32()[i] = 0.02f * rng.normal(static_cast<uint64_t>(i));
  }
}

auto shared_net(auto net) {
  return [net](Context& ctx, const Tensor& x) { return (*net)(ctx, x); };
}

// The two networks, convolutional or MLP; only the pair of GanOptions::kind is used.
struct GanSpecs {
  ConvSpec conv_generator, conv_discriminator;
  MlpSpec generator, discriminator;
};

Result<GanSpecs> specs_of(const GanOptions& o, int64_t height, int64_t columns) {
  const bool conv = o.kind == "conv";
  const auto widths = [&](const std::string& text, const char* default_text, const char* place) {
    return parse_widths(text.empty() ? default_text : text, place);
  };
  MAKAR_TRY(const auto up, widths(o.generator, conv ? "64,32" : "256,512", "`generator`"));
  MAKAR_TRY(const auto down, widths(o.discriminator, conv ? "32,64" : "512,256", "`discriminator`"));
  const auto dropout = static_cast<float>(o.dropout);
  GanSpecs out;
  out.conv_generator = {height, columns, up, o.code, 0};
  out.conv_discriminator = {height, columns, down, 0, dropout};
  out.generator = {up, HiddenActivation::kRelu, true, 0};
  out.discriminator = {down, HiddenActivation::kLeakyRelu, false, dropout};
  auto &g = out.generator.widths, &d = out.discriminator.widths;
  g.insert(g.begin(), o.code), g.push_back(height * columns);
  d.insert(d.begin(), height * columns), d.push_back(1);
  return out;
}

}  // namespace

Status check(const GanOptions& o) {
  MAKAR_RETURN_IF_ERROR(check(o.training));
  if (o.kind != "conv" && o.kind != "mlp")
    return error_at("`kind`", "unknown network '{}'{}; expected conv or mlp", o.kind,
                    did_you_mean(o.kind, {"conv", "mlp"}));
  if (!(o.discriminator_rate >= 0 && std::isfinite(o.discriminator_rate)))
    return error_at("`discriminator_learning_rate`", "must be 0 or more, got {}", o.discriminator_rate);
  if (o.code < 1 || o.code > 4096) return error_at("`code`", "must be 1 to 4096, got {}", o.code);
  if (!(o.smoothing >= 0 && o.smoothing < 0.5))
    return error_at("`label_smoothing`", "must be at least 0 and below 0.5, got {}", o.smoothing);
  if (!(o.noise >= 0 && o.noise <= 10)) return error_at("`noise`", "must be 0 to 10, got {}", o.noise);
  if (!(o.dropout >= 0 && o.dropout < 1))
    return error_at("`dropout`", "must be at least 0 and below 1, got {}", o.dropout);
  if (!(o.average >= 0 && o.average < 1))
    return error_at("`ema`", "must be at least 0 and below 1, got {}", o.average);
  MAKAR_TRY(const GanSpecs specs, specs_of(o, 64, 64));  // parses the lists of widths
  (void)specs;
  return Done{};
}

Status check(const GanOptions& o, const Numbers& data) {
  MAKAR_RETURN_IF_ERROR(check(o));
  if (data.count < static_cast<size_t>(o.training.batch))
    return error_at("`batch_size`", "is larger than the {} examples", data.count);
  MAKAR_TRY(const GanSpecs specs, specs_of(o, data.height, data.columns));
  if (o.kind == "conv") {
    MAKAR_RETURN_IF_ERROR(check(specs.conv_generator, "`generator`"));
    return check(specs.conv_discriminator, "`discriminator`");
  }
  MAKAR_RETURN_IF_ERROR(check(specs.generator, "`generator`"));
  return check(specs.discriminator, "`discriminator`");
}

void Gan::build(const Numbers& data, const GanOptions& o) {
  const GanSpecs specs = specs_of(o, data.height, data.columns).value();
  if (o.kind == "conv") {
    generator_ =
        shared_net(std::make_shared<ConvGenerator>(generator_set_, "generator", specs.conv_generator));
    discriminator_ = shared_net(
        std::make_shared<ConvDiscriminator>(discriminator_set_, "discriminator", specs.conv_discriminator));
    generator_spec_ = to_json(specs.conv_generator);
  } else {
    generator_ = shared_net(std::make_shared<Mlp>(generator_set_, "generator", specs.generator));
    discriminator_ =
        shared_net(std::make_shared<Mlp>(discriminator_set_, "discriminator", specs.discriminator));
    generator_spec_ = to_json(specs.generator);
  }
  initialize_small(generator_set_, seed_);
  initialize_small(discriminator_set_, seed_ + 1);
}

Tensor Gan::generate(Context& ctx, size_t rows, const Rng& rng) {
  const Tensor code = normals(ctx.device, {static_cast<int64_t>(rows), code_}, rng, 1.0f);
  return ops::activate(ctx, generator_(ctx, code), Activation::kSigmoid);
}

// The state of train().
struct Gan::Training {
  Gan& gan;
  const Numbers& data;
  const GanOptions& o;
  Device& device;
  Optimizer generator_optimizer, discriminator_optimizer;
  Schedule schedule;
  size_t batch, steps;           // steps per epoch
  std::vector<Tensor> averages;  // of the generator's weights
  uint64_t step = 0;

  // Adds noise to an input of the discriminator; `draw` numbers the three inputs of a step. The noise decays
  // linearly to 0 at the last step.
  Tensor noisy(Context& ctx, const Tensor& x, uint64_t draw) const {
    const double total = static_cast<double>(steps) * static_cast<double>(o.training.epochs);
    const auto deviation = static_cast<float>(o.noise * (1.0 - static_cast<double>(step) / total));
    if (deviation <= 0) return x;
    return ops::add(ctx, x,
                    normals(device, x.shape(), Rng(gan.seed_, Purpose::kMask, 4 * step + draw), deviation));
  }

  Rng sample_rng(uint64_t draw) const { return Rng(gan.seed_, Purpose::kSample, draw); }
  double share() const { return 1.0 / static_cast<double>(steps); }  // of a step in the means of an epoch
  Tensor targets(float value) const {
    return constant_tensor(device, {static_cast<int64_t>(batch), 1}, value);
  }

  Status update_discriminator(std::span<const size_t> examples, double lr, GanEpoch& result) {
    Context plain{device};
    plain.training = true;  // batch norm uses the statistics of the batch, as in the generator's update
    const Tensor fake = gan.generate(plain, batch, sample_rng(2 * step));
    Tensor on_real, on_fake;
    MAKAR_TRY(const double loss,
              train_net_step(gan.discriminator_set_, discriminator_optimizer,
                             Context{device, nullptr, true, gan.seed_, 2 * step}, lr,
                             o.training.max_grad_norm, [&](Context& ctx) {
                               on_real = gan.discriminator_(ctx, noisy(ctx, data.rows(device, examples), 0));
                               on_fake = gan.discriminator_(ctx, noisy(ctx, fake, 1));
                               const auto smooth = static_cast<float>(1.0 - o.smoothing);
                               return ops::add(ctx, ops::bce_loss(ctx, on_real, targets(smooth)),
                                               ops::bce_loss(ctx, on_fake, targets(0.0f)));
                             }));
    result.discriminator_loss += loss * share();
    result.real += mean_probability(on_real) * share();
    result.generated += mean_probability(on_fake) * share();
    return Done{};
  }

  Status update_generator(double lr, GanEpoch& result) {
    MAKAR_TRY(const double loss,
              train_net_step(gan.generator_set_, generator_optimizer,
                             Context{device, nullptr, true, gan.seed_, 2 * step + 1}, lr,
                             o.training.max_grad_norm, [&](Context& ctx) {
                               const Tensor images = gan.generate(ctx, batch, sample_rng(2 * step + 1));
                               return ops::bce_loss(ctx, gan.discriminator_(ctx, noisy(ctx, images, 2)),
                                                    targets(1.0f));
                             }));
    result.generator_loss += loss * share();
    return Done{};
  }

  // The decay is smaller in the first steps, so that the random initial weights soon vanish from the average.
  void update_averages() {
    const double steps_done = static_cast<double>(step),
                 decay = std::min(o.average, (1 + steps_done) / (10 + steps_done));
    for (size_t i = 0; i < averages.size(); ++i) {
      const Parameter& p = *gan.generator_set_.all()[i];
      device.blend({f32_on(device, p.value), f32_on(device, averages[i]), p.value.count(),
                    static_cast<float>(1.0 - decay)});
    }
  }

  Result<GanEpoch> run_epoch(int64_t epoch) {
    const Permutation order(data.count, gan.seed_, static_cast<uint64_t>(epoch));
    const double discriminator_share = o.discriminator_rate > 0 ? o.discriminator_rate / schedule.peak : 1.0;
    GanEpoch result{epoch + 1};
    for (size_t i = 0; i < steps; ++i, ++step) {
      std::vector<size_t> examples;
      for (size_t k = i * batch; k < (i + 1) * batch; ++k) examples.push_back(order(k));
      const double lr = schedule.at(static_cast<int64_t>(step));
      MAKAR_RETURN_IF_ERROR(update_discriminator(examples, discriminator_share * lr, result));
      MAKAR_RETURN_IF_ERROR(update_generator(lr, result));
      update_averages();
      o.progress(epoch + 1, i + 1, steps);
    }
    return result;
  }

  void use_averages() {
    for (size_t i = 0; i < averages.size(); ++i)
      if (Parameter& p = *gan.generator_set_.all()[i]; !p.buffer) p.value = averages[i];
    // The running statistics of batch norm belong to the last weights: compute them again with the averaged
    // weights.
    Context ctx{device};
    ctx.training = true;
    constexpr uint64_t kBatches = 50;  // enough for the momentum of the running statistics
    for (uint64_t i = 0; i < kBatches; ++i) (void)gan.generate(ctx, batch, sample_rng(2 * step + i));
  }
};

Result<Gan> Gan::train(const Numbers& data, const GanOptions& o, Device& device,
                       const std::function<void(const GanEpoch&, const Preview&)>& each) {
  MAKAR_RETURN_IF_ERROR(check(o, data));
  Gan gan;
  gan.code_ = o.code, gan.seed_ = static_cast<uint64_t>(o.training.seed);
  gan.height_ = data.height, gan.columns_ = data.columns;
  gan.build(data, o);
  gan.generator_set_.to(device.memory()), gan.discriminator_set_.to(device.memory());
  OptimizerOptions options;
  options.name = o.training.optimizer, options.weight_decay = o.training.weight_decay;
  options.beta1 = o.training.beta1 >= 0 ? o.training.beta1 : 0.5;
  MAKAR_TRY(Optimizer generator_optimizer, Optimizer::make(gan.generator_set_, options));
  MAKAR_TRY(Optimizer discriminator_optimizer, Optimizer::make(gan.discriminator_set_, options));
  const auto batch = static_cast<size_t>(o.training.batch), steps = data.count / batch;
  Schedule schedule;
  MAKAR_TRY(schedule.kind, schedule_kind(o.training.lr_scheduler));
  schedule.peak = o.training.learning_rate, schedule.total = o.training.epochs * static_cast<int64_t>(steps);
  Training training{
      gan,      data,  o,     device, std::move(generator_optimizer), std::move(discriminator_optimizer),
      schedule, batch, steps, {}};
  for (const auto& p : gan.generator_set_.all()) training.averages.push_back(p->value.clone());
  for (int64_t epoch = 0; epoch < o.training.epochs; ++epoch) {
    MAKAR_TRY(const GanEpoch result, training.run_epoch(epoch));
    gan.epochs_.push_back(result);
    each(result, [&](size_t count) { return gan.preview(count, training.averages, device); });
  }
  if (o.average > 0) training.use_averages();
  return gan;
}

std::vector<float> Gan::preview(size_t count, const std::vector<Tensor>& weights, Device& device) {
  std::vector<Tensor> old_values;
  for (size_t i = 0; i < weights.size(); ++i) {
    Parameter& p = *generator_set_.all()[i];
    old_values.push_back(p.value);
    p.value = p.buffer ? p.value.clone() : weights[i];  // batch norm writes its statistics
  }
  Context ctx{device};
  ctx.training = true;  // batch norm uses the statistics of these images
  const Tensor images = generate(ctx, count, Rng(seed_, Purpose::kSynthetic, 0)).host();
  for (size_t i = 0; i < old_values.size(); ++i) generator_set_.all()[i]->value = old_values[i];
  return {images.f32(), images.f32() + images.count()};
}

std::vector<float> Gan::sample(size_t count, uint64_t seed, Device& device) {
  Context ctx{device};
  const Tensor images = generate(ctx, count, Rng(seed, Purpose::kSynthetic, 0)).host();
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
  if (json["kind"] != "gan") return error_at(place, "this network is not a generative adversarial network");
  Gan gan;
  MAKAR_TRY(gan.height_, integer_in(json, "height", 1, 1024, place));
  MAKAR_TRY(gan.columns_, integer_in(json, "width", 1, 1024, place));
  gan.generator_spec_ = json.value("generator", Json());
  int64_t pixels = 0;
  if (gan.generator_spec_.is_object() && gan.generator_spec_.contains("channels")) {
    MAKAR_TRY(const ConvSpec spec, conv_from_json(gan.generator_spec_, place));
    gan.code_ = spec.code, pixels = spec.height * spec.width;
    gan.generator_ = shared_net(std::make_shared<ConvGenerator>(gan.generator_set_, "generator", spec));
  } else {
    MAKAR_TRY(const MlpSpec spec, mlp_from_json(gan.generator_spec_, place));
    gan.code_ = spec.widths.front(), pixels = spec.widths.back();
    gan.generator_ = shared_net(std::make_shared<Mlp>(gan.generator_set_, "generator", spec));
  }
  if (pixels != gan.height_ * gan.columns_)
    return error_at(place, "the generator has outputs for {} pixels, but the images have {}", pixels,
                    gan.height_ * gan.columns_);
  MAKAR_RETURN_IF_ERROR(load_weights(folder, gan.generator_set_));
  return gan;
}

}  // namespace makar
