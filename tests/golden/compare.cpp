#include "golden/compare.h"

#include <algorithm>
#include <cmath>

#include "formats/safetensors.h"

namespace makar::golden {
namespace {

DType activation_type = DType::kF32;
constexpr double kGradientLimit = 1e-4, kBf16GradientLimit = 1e-1;

}  // namespace

DType activations() { return activation_type; }
void set_activations(DType type) { activation_type = type; }
double loss_limit() { return activation_type == DType::kF32 ? 1e-5 : 2e-2; }

Result<Tensors> read_tensors(const std::string& path) {
  MAKAR_TRY(const auto file, Safetensors::open(path));
  Tensors out;
  for (const auto& name : file->names()) {
    MAKAR_TRY(out[name], file->tensor(name));
  }
  return out;
}

Tensors part(const Tensors& all, const std::string& prefix) {
  Tensors out;
  for (const auto& [name, t] : all)
    if (name.starts_with(prefix)) out[name.substr(prefix.size())] = t;
  return out;
}

double relative_error(const Tensor& computed, const Tensor& expected, const Tensor* mask) {
  const Tensor got = computed.host();
  if (!(got.shape() == expected.shape())) return INFINITY;
  const bool masked =
      mask && expected.rank() >= 2 && expected.dim(0) == mask->dim(0) && expected.dim(1) == mask->dim(1);
  const int64_t row = masked ? expected.count() / mask->count() : 1;
  double difference = 0, size = 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    if (masked && mask->i64()[i / row] == 0) continue;
    const double d = static_cast<double>(got.f32()[i]) - expected.f32()[i];
    difference += d * d, size += static_cast<double>(expected.f32()[i]) * expected.f32()[i];
  }
  return std::sqrt(difference / std::max(size, 1e-60));
}

void compare_forward(const Model& model, Device& device, const Tensors& in, const Tensors& expected,
                     const std::string& place, Tally& tally) {
  const auto got = forward_tensors(model, in, {device}, place);
  if (!got.ok()) return tally.fail(got.error().text());
  const Tensor* mask = in.contains("attention_mask") ? &in.at("attention_mask") : nullptr;
  for (const auto& [name, value] : expected) {
    if (!got->contains(name)) {
      tally.fail("no output '" + name + "'");
      continue;
    }
    tally.add("forward", relative_error(got->at(name), value, name.starts_with("decoder") ? nullptr : mask),
              kForwardLimit);
  }
}

void compare_gradients(const LoadedModel& loaded, const Json& expected, Tally& tally) {
  Tensors got;
  for (const bool in_memory : {false, true})
    for (auto& named : named_tensors(*loaded.model, *loaded.family, in_memory, [](const Parameter& p) {
           return p.grad.defined() ? p.grad : Tensor::zeros(p.shape);
         }))
      got[named.name] = named.tensor;
  if (activations() == DType::kBF16) {  // only the whole gradient: rounding dominates its small parts
    double squares = 0, squares_expected = 0;
    for (const auto& [name, g] : expected.items()) {
      squares_expected += g["l2"].get<double>() * g["l2"].get<double>();
      if (!got.contains(name)) continue;
      const Tensor t = got[name].host();
      for (int64_t i = 0; i < t.count(); ++i) squares += static_cast<double>(t.f32()[i]) * t.f32()[i];
    }
    return tally.add("gradients", std::fabs(std::sqrt(squares / squares_expected) - 1), kBf16GradientLimit);
  }
  // A gradient that is zero except for rounding (a key bias, which softmax cancels) is compared relative to
  // the size of the other gradients.
  double floor = 0;
  for (const auto& [name, g] : expected.items()) floor = std::max(floor, 1e-3 * g["l2"].get<double>());
  for (const auto& [name, g] : expected.items()) {
    if (!got.contains(name)) {
      tally.fail("no gradient '" + name + "'");
      continue;
    }
    const Tensor& t = got[name];
    double squares = 0, sum = 0, largest = 0;
    for (int64_t i = 0; i < t.count(); ++i) {
      const double v = t.f32()[i];
      squares += v * v, sum += v, largest = std::max(largest, std::fabs(v));
    }
    const double norm = std::sqrt(squares), norm_expected = g["l2"], scale = std::max(norm_expected, floor);
    tally.add("gradients", std::fabs(norm - norm_expected) / scale, kGradientLimit);
    tally.add("gradients",
              std::fabs(sum - g["sum"].get<double>()) / (scale * std::sqrt(static_cast<double>(t.count()))),
              kGradientLimit);
    for (size_t i = 0; i < g["first"].size(); ++i)
      tally.add("gradients", std::fabs(t.f32()[i] - g["first"][i].get<double>()) / std::max(largest, floor),
                kGradientLimit);
  }
}

Result<double> backward(const Model& model, Device& device, const Loss& loss) {
  Tape tape(device);
  model.parameters().clear_gradients();
  model.parameters().watch(tape);
  Context ctx{device, &tape};
  ctx.activations = activations();
  ForwardContext f{ctx};
  MAKAR_TRY(const Tensor value, loss(f));
  tape.backward(value);
  model.parameters().collect(tape);
  return static_cast<double>(value.host().f32()[0]);
}

}  // namespace makar::golden
