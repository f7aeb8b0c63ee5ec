#include "models/load.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/rng.h"
#include "kernels/host_math.h"
#include "models/dequantize.h"
#include "models/match.h"
#include "models/source.h"
#include "models/tokenizer_hash.h"

namespace makar {

Result<LoadedModel> make_model(const Config& config) {
  MAKAR_TRY(const Family* family, find_family(config));
  MAKAR_TRY(ModelSpec spec, family->read(config));
  return LoadedModel{family, std::make_unique<Model>(std::move(spec))};
}

namespace {

// Matrices keep the type of the file; everything else is small and is converted to f32.
bool keeps_type(const Parameter& p, DType type) {
  if (p.shape.rank() != 2 || !p.name.ends_with(".weight") || p.name.ends_with("relative_bias.weight") ||
      p.name.ends_with("_norm.weight"))
    return false;
  return type == DType::kF16 || type == DType::kBF16 || is_block(type);
}

// f16 matrices of GGUF files use integer products, as block types do, where that is faster.
bool uses_integer_products(const Tensor& t) {
  return t.dtype() == DType::kF16 && kernels::int16_products_are_faster() &&
         t.dim(-1) % layout_of(DType::kF16_64).elements == 0;
}

Status load_tensor(const MatchedTensor& matched, const WeightFiles& files, const LoadOptions& options) {
  const NamedSlice& slice = matched.slice;
  MAKAR_TRY(const Tensor stored, files.tensor(matched.name));
  const std::vector<Tensor> parts = split_tensor(stored.reshape(slice.shape()), slice);
  for (size_t i = 0; i < parts.size(); ++i) {
    Parameter& p = *slice.parameters[i];
    Tensor t = parts[i];
    const bool keeps_file_type = !options.trainable && keeps_type(p, t.dtype()) &&
                                 !(options.exact && files.is_prequantized(matched.name));
    if (!keeps_file_type) t = dequantized(t);
    if (keeps_file_type && files.gguf() && uses_integer_products(t)) t = t.viewed_as(DType::kF16_64);
    // A trainable tensor must not be a view of the file.
    if (options.trainable && t.raw() == stored.raw()) t = t.clone();
    p.value = t;
  }
  if (parts[0].raw() != stored.raw())
    MappedFile::release_pages({stored.raw(), stored.bytes()});  // parts are copies
  return Done{};
}

}  // namespace

Result<LoadedModel> load_model(const std::string& path, const LoadOptions& options) {
  MAKAR_TRY(const ModelSource source, ModelSource::open(path));
  return load_model(source, options);
}

Result<LoadedModel> load_model(const ModelSource& source, const LoadOptions& options) {
  MAKAR_TRY(const Family* family, find_family(source.config));
  MAKAR_TRY(ModelSpec spec, family->read(source.config));
  MAKAR_TRY(const WeightFiles files, source.weights());
  MAKAR_RETURN_IF_ERROR(check_depth(spec, source.config, files));
  LoadedModel loaded{family, std::make_unique<Model>(std::move(spec))};
  MAKAR_TRY(const auto matched, match_weights(loaded, files));
  for (const MatchedTensor& tensor : matched) MAKAR_RETURN_IF_ERROR(load_tensor(tensor, files, options));
  for (const auto& p : loaded.model->parameters().all())
    check(p->value.defined(), "the family has no name for " + p->name);
  loaded.warnings = tokenizer_warnings(source);
  return loaded;
}

std::vector<NamedTensor> named_tensors(const Model& model, const Family& family, bool in_memory,
                                       const std::function<Tensor(const Parameter&)>& value) {
  const auto& rules = in_memory && family.names_in_memory ? family.names_in_memory : family.names;
  std::vector<NamedTensor> out;
  for (const NamedSlice& slice : expand(rules(model.spec()), model.parameters())) {
    std::vector<Tensor> parts;
    for (const Parameter* p : slice.parameters) {
      const Tensor t = p->optional ? Tensor() : value(*p);
      if (t.defined()) parts.push_back(t);
    }
    if (parts.size() == slice.parameters.size())
      out.push_back({slice.tensor_name, join_tensors(parts, slice)});
  }
  return out;
}

Status save_model(const std::string& folder, const Model& model, const Family& family,
                  size_t max_shard_bytes) {
  MAKAR_RETURN_IF_ERROR(make_folder(folder));
  const auto tensors = named_tensors(model, family, false, [](const Parameter& p) { return p.value; });
  MAKAR_RETURN_IF_ERROR(save_weights(folder, tensors, max_shard_bytes));
  Json config = model.spec().config;
  config.erase("quantization_config");  // matrices quantized by other programs are saved dequantized
  config["dtype"] = "float32";
  for (const auto& p : model.parameters().all())
    if (p->value.dtype() != DType::kF32)
      config["dtype"] = p->value.dtype() == DType::kF16 ? "float16" : "bfloat16";
  return write_file(folder + "/config.json", config.dump(2) + "\n");
}

namespace {

// The forget gates of an LSTM start open: a bias of 1 (Jozefowicz et al., 2015).
void open_forget_gates(const ModelSpec& spec, Parameter& bias) {
  const auto& layer = spec.main().first().recurrent;
  if (!layer || layer->cell != CellKind::kLstm) return;
  const int64_t hidden = bias.shape[0] / 4;
  std::fill_n(bias.value.f32() + hidden, hidden, 1.0f);
}

// As in Gu and Dao (2023): rates 1, 2, 3, ... over the states (or heads), a skip connection (d) of 1, and
// steps of 0.001 to 0.1, evenly spaced in logarithm.
void initialize_scan(Parameter& p) {
  float* v = p.value.f32();
  const int64_t columns = p.shape[-1];
  for (int64_t i = 0; i < p.value.count(); ++i) {
    const auto at = static_cast<double>(i % columns);
    if (p.name.ends_with(".a_log")) v[i] = static_cast<float>(std::log(at + 1));
    if (p.name.ends_with(".d")) v[i] = 1.0f;
    if (!p.name.ends_with(".dt_bias")) continue;
    const double step = 0.001 * std::pow(100.0, columns > 1 ? at / static_cast<double>(columns - 1) : 0.5);
    v[i] = static_cast<float>(std::log(std::expm1(step)));  // the inverse of softplus
  }
}

}  // namespace

void initialize(Model& model, uint64_t seed) {
  const ModelSpec& spec = model.spec();
  uint64_t stream = 0;
  for (const auto& p : model.parameters().all()) {
    ++stream;
    if (p->optional) continue;
    p->value = Tensor::zeros(p->shape);
    const bool norm = p->name.find("norm") != std::string::npos;
    if (norm) {
      if (p->name.ends_with(".weight") && spec.main().norm.offset == 0.0f)
        std::fill_n(p->value.f32(), p->value.count(), 1.0f);
      continue;
    }
    if (p->name.ends_with(".ih.bias")) open_forget_gates(spec, *p);
    if (p->name.ends_with(".mix.scale")) p->value.f32()[0] = 1.0f;
    if (p->name.ends_with(".bias") || p->name.find(".mix.") != std::string::npos || p->buffer) continue;
    if (p->name.ends_with(".mixer.a_log") || p->name.ends_with(".mixer.d") ||
        p->name.ends_with(".mixer.dt_bias")) {
      initialize_scan(*p);
      continue;
    }
    // Projections into the residual stream are scaled down with depth (Radford et al., 2019).
    const bool residual = p->name.ends_with(".o.weight") || p->name.ends_with(".mixer.out.weight") ||
                          p->name.ends_with(".down.weight");
    float deviation = spec.initializer_range;
    if (residual) deviation /= std::sqrt(2.0f * static_cast<float>(spec.main().layers()));
    const Rng rng(seed, Purpose::kInit, stream);
    for (int64_t i = 0; i < p->value.count(); ++i)
      p->value.f32()[i] = deviation * rng.normal(static_cast<uint64_t>(i));
  }
}

}  // namespace makar
