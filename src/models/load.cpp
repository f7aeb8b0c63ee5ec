#include "models/load.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/file.h"
#include "base/rng.h"
#include "base/shown.h"
#include "formats/weights.h"

namespace makar {

Result<LoadedModel> make_model(const Config& config) {
  MAKAR_TRY(const Family* family, find_family(config));
  MAKAR_TRY(ModelSpec spec, family->read(config));
  return LoadedModel{family, std::make_unique<Model>(std::move(spec))};
}

namespace {

// The name a file uses: with the family's prefix, or without where the file holds a bare body.
class FileNames {
 public:
  FileNames(const WeightFiles& files, const Family& family) : prefix_(family.prefix) {
    if (prefix_.empty()) return;
    const auto& names = files.names();
    bare_ = std::none_of(names.begin(), names.end(), [&](const std::string& n) { return n.starts_with(prefix_); });
  }
  std::string operator()(const std::string& name) const {
    return bare_ && name.starts_with(prefix_) ? name.substr(prefix_.size()) : name;
  }

 private:
  std::string prefix_;
  bool bare_ = false;
};

bool ignored(const Family& family, const std::string& name) {
  return std::any_of(family.ignored.begin(), family.ignored.end(), [&](const std::string& end) { return name.ends_with(end); });
}

// Matrices may stay in 16 bits; everything else is small and is computed with in f32.
bool keeps_type(const Parameter& p, const Tensor& t) {
  return p.shape.rank() == 2 && p.name.ends_with(".weight") && !p.name.ends_with("relative_bias.weight") &&
         (t.dtype() == DType::kF16 || t.dtype() == DType::kBF16);
}

Status load_slice(const NamedSlice& slice, const std::string& name, const WeightFiles& files, const LoadOptions& options) {
  const auto* entry = files.entry(name);
  if (!entry)
    return error_of(Error::Kind::kNotFound, files.place(), "tensor {} is missing: config.json asks for it with shape {}; the folder "
                    "is incomplete or its config.json belongs to another model", shown(name), slice.shape().text());
  if (!is_float(entry->dtype) || entry->dtype == DType::kF64)
    return error_at(files.place_of(name), "tensor {} has type {}; weights are f32, f16 or bf16", shown(name), makar::name(entry->dtype));
  if (entry->shape.count() != slice.shape().count() || !(entry->shape == slice.shape() || slice.ours.size() > 1 || slice.shape().rank() > 2))
    return error_at(files.place_of(name), "tensor {} has shape {} where config.json asks for {}", shown(name), entry->shape.text(),
                    slice.shape().text());
  MAKAR_TRY(Tensor whole, files.tensor(name));
  const Shape stored = slice.shape();
  const std::vector<Tensor> parts = cut(whole.reshape(stored), slice);
  for (size_t i = 0; i < parts.size(); ++i) {
    Parameter& p = *slice.ours[i];
    Tensor t = parts[i];
    if (options.trainable || !keeps_type(p, t)) t = t.to(DType::kF32);
    // A tensor that may be written to must not be a view of the file.
    if (options.trainable && t.raw() == whole.raw()) t = t.clone();
    p.value = t;
  }
  return Done{};
}

}  // namespace

Result<LoadedModel> load_model(const std::string& folder, const LoadOptions& options) {
  MAKAR_TRY(const Config config, Config::read(folder));
  MAKAR_TRY(LoadedModel loaded, make_model(config));
  MAKAR_TRY(const WeightFiles files, WeightFiles::open(folder));
  const FileNames file_name(files, *loaded.family);
  auto slices = expand(loaded.family->names(loaded.model->spec()), loaded.model->parameters());
  // A file may use the names transformers has in memory (fused experts, renamed layers).
  if (loaded.family->names_in_memory) {
    const auto other = expand(loaded.family->names_in_memory(loaded.model->spec()), loaded.model->parameters());
    const auto missing = [&](const std::vector<NamedSlice>& list) {
      return std::count_if(list.begin(), list.end(), [&](const NamedSlice& s) { return !files.has(file_name(s.theirs)); });
    };
    if (missing(slices) > 0 && missing(other) == 0) slices = other;
  }
  std::unordered_set<std::string> used;
  for (const NamedSlice& slice : slices) {
    const std::string name = file_name(slice.theirs);
    if (slice.ours[0]->optional && !files.has(name)) continue;
    MAKAR_CHECK_OK(load_slice(slice, name, files, options));
    used.insert(name);
  }
  for (const std::string& name : files.names())
    if (!used.contains(name) && !ignored(*loaded.family, name))
      return error_at(files.place_of(name), "tensor {} does not belong to a {}; config.json and the weights disagree",
                      shown(name), loaded.model->spec().architecture);
  for (const auto& p : loaded.model->parameters().all())
    check(p->value.defined(), "the family's page has no name for " + p->name);
  return loaded;
}

std::vector<NamedTensor> named_tensors(const Model& model, const Family& family, bool in_memory,
                                       const std::function<Tensor(const Parameter&)>& value) {
  const auto& rules = in_memory && family.names_in_memory ? family.names_in_memory : family.names;
  std::vector<NamedTensor> out;
  for (const NamedSlice& slice : expand(rules(model.spec()), model.parameters())) {
    std::vector<Tensor> parts;
    for (const Parameter* p : slice.ours) {
      const Tensor t = p->optional ? Tensor() : value(*p);
      if (t.defined()) parts.push_back(t);
    }
    if (parts.size() == slice.ours.size()) out.push_back({slice.theirs, join(parts, slice)});
  }
  return out;
}

Status save_model(const std::string& folder, const Model& model, const Family& family) {
  MAKAR_CHECK_OK(make_folder(folder));
  const auto tensors = named_tensors(model, family, false, [](const Parameter& p) { return p.value; });
  MAKAR_CHECK_OK(save_weights(folder, tensors));
  Json config = model.spec().config;
  config["dtype"] = "float32";
  for (const auto& p : model.parameters().all())
    if (p->value.dtype() != DType::kF32) config["dtype"] = p->value.dtype() == DType::kF16 ? "float16" : "bfloat16";
  return write_file(folder + "/config.json", config.dump(2) + "\n");
}

void initialize(Model& model, uint64_t seed) {
  const ModelSpec& spec = model.spec();
  uint64_t stream = 0;
  for (const auto& p : model.parameters().all()) {
    ++stream;
    if (p->optional) continue;
    p->value = Tensor::zeros(p->shape);
    const bool norm = p->name.find("norm") != std::string::npos;
    if (norm) {
      if (p->name.ends_with(".weight") && spec.main().block.norm.offset == 0.0f)
        std::fill_n(p->value.f32(), p->value.count(), 1.0f);
      continue;
    }
    if (p->name.ends_with(".bias") || p->buffer) continue;
    // Projections back into the residual stream are scaled down with depth (Radford et al., 2019).
    const bool residual = p->name.ends_with(".o.weight") || p->name.ends_with(".down.weight");
    float deviation = spec.initializer_range;
    if (residual) deviation /= std::sqrt(2.0f * static_cast<float>(spec.main().layers));
    const Rng rng(seed, Purpose::kInit, stream);
    for (int64_t i = 0; i < p->value.count(); ++i) p->value.f32()[i] = deviation * rng.normal(static_cast<uint64_t>(i));
  }
}

}  // namespace makar
