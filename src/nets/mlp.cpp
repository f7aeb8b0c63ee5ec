#include "nets/mlp.h"

#include <cmath>
#include <sstream>

#include "base/file.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "base/rng.h"
#include "formats/weights.h"
#include "ops/elementwise.h"

namespace makar {
namespace {

using ops::Activation;

const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> kNames = {"relu", "leaky-relu", "tanh", "sigmoid", "gelu", "silu"};
  return kNames;
}

constexpr int64_t kMaxLayerWidth = 1 << 16;
constexpr size_t kMaxHiddenLayers = 64;

}  // namespace

Result<HiddenActivation> parse_activation(const std::string& text, const std::string& place) {
  for (size_t i = 0; i < activation_names().size(); ++i)
    if (activation_names()[i] == text) return static_cast<HiddenActivation>(i);
  return error_at(place, "unknown activation '{}'{}; expected one of: {}", text,
                  did_you_mean(text, activation_names()), fmt::join(activation_names(), ", "));
}

Tensor apply_activation(Context& ctx, const Tensor& x, HiddenActivation kind) {
  switch (kind) {
    case HiddenActivation::kRelu:
      return ops::activate(ctx, x, Activation::kRelu);
    case HiddenActivation::kLeakyRelu:  // 0.2 x + 0.8 relu(x)
      return ops::add(ctx, ops::scale(ctx, x, 0.2f),
                      ops::scale(ctx, ops::activate(ctx, x, Activation::kRelu), 0.8f));
    case HiddenActivation::kTanh:
      return ops::activate(ctx, x, Activation::kTanh);
    case HiddenActivation::kSigmoid:
      return ops::activate(ctx, x, Activation::kSigmoid);
    case HiddenActivation::kGelu:
      return ops::activate(ctx, x, Activation::kGelu);
    case HiddenActivation::kSilu:
      break;
  }
  return ops::activate(ctx, x, Activation::kSilu);
}

Result<std::vector<int64_t>> parse_widths(const std::string& text, const std::string& place) {
  std::vector<int64_t> out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    char* end = nullptr;
    const int64_t width = std::strtoll(part.c_str(), &end, 10);
    if (part.empty() || *end != '\0' || width < 1 || width > kMaxLayerWidth || out.size() >= kMaxHiddenLayers)
      return error_at(place, "expected up to {} widths from 1 to {}, such as 64,32, got '{}'",
                      kMaxHiddenLayers, kMaxLayerWidth, text);
    out.push_back(width);
  }
  return out;
}

Status check(const MlpSpec& s, const std::string& place) {
  if (s.widths.size() < 2 || s.widths.size() > kMaxHiddenLayers + 2)
    return error_at(place, "a network has 1 to {} layers", kMaxHiddenLayers + 1);
  for (const int64_t w : s.widths)
    if (w < 1 || w > kMaxLayerWidth)
      return error_at(place, "a width must be 1 to {}, got {}", kMaxLayerWidth, w);
  if (!(s.dropout >= 0 && s.dropout < 1))
    return error_at("`dropout`", "must be at least 0 and below 1, got {}", s.dropout);
  return Done{};
}

Json to_json(const MlpSpec& s) {
  return {{"widths", s.widths},
          {"activation", activation_names()[static_cast<size_t>(s.activation)]},
          {"batch_norm", s.batch_norm},
          {"dropout", s.dropout}};
}

Result<MlpSpec> mlp_from_json(const Json& json, const std::string& place) {
  MlpSpec s;
  const auto invalid = [&] { return error_at(place, "expected widths, activation, batch_norm and dropout"); };
  if (!json.is_object() || !json.contains("widths") || !json["widths"].is_array() ||
      json["widths"].size() > kMaxHiddenLayers + 2 || !json.contains("activation") ||
      !json["activation"].is_string())
    return invalid();
  for (const Json& w : json["widths"]) {
    if (!w.is_number_integer()) return invalid();
    s.widths.push_back(w.get<int64_t>());
  }
  MAKAR_TRY(s.activation, parse_activation(json["activation"].get<std::string>(), place));
  const Json norm = json.value("batch_norm", Json(false)), dropout = json.value("dropout", Json(0.0));
  if (!norm.is_boolean() || !dropout.is_number()) return invalid();
  s.batch_norm = norm.get<bool>(), s.dropout = dropout.get<float>();
  MAKAR_RETURN_IF_ERROR(check(s, place));
  return s;
}

Mlp::Mlp(ParameterSet& set, const std::string& name, MlpSpec spec) : spec_(std::move(spec)) {
  for (size_t i = 0; i + 1 < spec_.widths.size(); ++i) {
    const std::string prefix = fmt::format("{}.{}", name, i);
    const int64_t out = spec_.widths[i + 1];
    Layer& layer = layers_.emplace_back();
    layer.linear = Linear(set, prefix, spec_.widths[i], out, true);
    if (!spec_.batch_norm || i + 2 == spec_.widths.size()) continue;
    layer.norm = BatchNorm(set, prefix + ".norm", out);
  }
}

Tensor Mlp::operator()(Context& ctx, const Tensor& x) {
  Tensor h = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    h = layer.linear(ctx, h);
    if (i + 1 == layers_.size()) break;
    if (layer.norm.defined()) h = layer.norm(ctx, h);
    h = ops::dropout(ctx, apply_activation(ctx, h, spec_.activation), spec_.dropout);
  }
  return h;
}

void initialize(ParameterSet& set, HiddenActivation activation, uint64_t seed) {
  const bool rectifier = activation == HiddenActivation::kRelu || activation == HiddenActivation::kLeakyRelu;
  uint64_t stream = 0;
  for (const auto& p : set.all()) {
    const Rng rng(seed, Purpose::kInit, ++stream);
    p->value = Tensor::zeros(p->shape);
    if (p->shape.rank() == 2) {
      const auto in = static_cast<float>(p->shape[1]), out = static_cast<float>(p->shape[0]);
      const float deviation = std::sqrt(2.0f / (rectifier ? in : in + out));
      for (int64_t i = 0; i < p->value.count(); ++i)
        p->value.f32()[i] = deviation * rng.normal(static_cast<uint64_t>(i));
    } else if (p->name.ends_with(".norm.weight") || p->name.ends_with(".running_var")) {
      std::fill_n(p->value.f32(), p->value.count(), 1.0f);
    }
  }
}

Status save_net(const std::string& folder, const Json& description, const ParameterSet& set) {
  MAKAR_RETURN_IF_ERROR(make_folder(folder));
  std::vector<NamedTensor> tensors;
  for (const auto& p : set.all()) tensors.push_back({p->name, p->value.host()});
  MAKAR_RETURN_IF_ERROR(save_weights(folder, tensors));
  return write_file(folder + "/net.json",
                    description.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Result<Json> read_net(const std::string& folder) {
  auto read = read_json(folder + "/net.json");
  if (!read.ok() && read.error().kind == Error::Kind::kNotFound)
    return error_of(Error::Kind::kNotFound, folder, "has no net.json; expected a model of makar net");
  MAKAR_TRY(Json json, std::move(read));
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string())
    return error_at(folder + "/net.json", "expected an object with a 'kind', as makar net writes it");
  return json;
}

Result<int64_t> integer_in(const Json& json, const char* key, int64_t min, int64_t max,
                           const std::string& place) {
  const Json value = json.is_object() ? json.value(key, Json()) : Json();
  if (!value.is_number_integer() || value.get<int64_t>() < min || value.get<int64_t>() > max)
    return error_at(place, "'{}' must be an integer from {} to {}, found {}", key, min, max,
                    quote(dump(value)));
  return value.get<int64_t>();
}

Status load_weights(const std::string& folder, ParameterSet& set) {
  MAKAR_TRY(const WeightFiles files, WeightFiles::open(folder));
  for (const auto& p : set.all()) {
    if (!files.has(p->name)) return error_at(files.place(), "has no tensor '{}'", p->name);
    MAKAR_TRY(const Tensor value, files.tensor(p->name));
    if (value.dtype() != DType::kF32 || !(value.shape() == p->shape))
      return error_at(files.place(), "tensor '{}' must be f32 of shape {}", p->name, p->shape.text());
    p->value = value.clone();
  }
  return Done{};
}

}  // namespace makar
