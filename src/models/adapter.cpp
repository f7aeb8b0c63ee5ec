#include "models/adapter.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/file.h"
#include "base/quote.h"
#include "base/rng.h"
#include "formats/safetensors.h"
#include "ops/shape.h"

namespace makar {
namespace {

constexpr const char* kPrefix = "base_model.model.";
constexpr uint64_t kFirstStream = uint64_t{1} << 32;  // initialize() uses the streams from 1

bool ends_with_module(const std::string& name, const std::string& module) {
  return name == module || name.ends_with("." + module);
}

// A module in the files of the base model that an adapter changes; a fused module corresponds to several
// Linears, which share A.
struct Module {
  std::string name;  // of the tensor in the file, without ".weight"
  NamedSlice slice;
  std::vector<Linear*> linears;
};

std::vector<Module> linear_modules(const LoadedModel& loaded) {
  std::unordered_map<const Parameter*, Linear*> by_weight;
  // An output matrix that is tied to the token embedding is not a separate module in the files.
  std::unordered_set<const Parameter*> tables;
  for (const Stack* stack : {loaded.model->encoder(), loaded.model->decoder()})
    if (stack) tables.insert(stack->tokens());
  loaded.model->each_linear([&](const std::string&, Linear& linear) {
    if (!tables.contains(linear.weight())) by_weight[linear.weight()] = &linear;
  });
  std::vector<Module> out;
  for (const NamedSlice& slice :
       expand(loaded.family->names(loaded.model->spec()), loaded.model->parameters())) {
    if (!slice.tensor_name.ends_with(".weight")) continue;
    Module m{slice.tensor_name.substr(0, slice.tensor_name.size() - 7), slice, {}};
    for (const Parameter* p : slice.parameters)
      if (const auto it = by_weight.find(p); it != by_weight.end()) m.linears.push_back(it->second);
    if (m.linears.size() == slice.parameters.size()) out.push_back(std::move(m));
  }
  return out;
}

bool all_linear(const AdapterConfig& config) {
  return config.targets.size() == 1 && config.targets[0] == "all-linear";
}

bool is_target(const LoadedModel& loaded, const AdapterConfig& config, const Module& module) {
  const std::string& name = module.name;
  if (all_linear(config)) {  // as in PEFT: every linear layer but the output layers
    const auto outputs = loaded.model->output_weights();
    return std::none_of(module.linears.begin(), module.linears.end(), [&](const Linear* l) {
      return std::find(outputs.begin(), outputs.end(), l->weight()) != outputs.end();
    });
  }
  return std::any_of(config.targets.begin(), config.targets.end(),
                     [&](const std::string& t) { return ends_with_module(name, t); });
}

// The slice of B (or of the magnitudes) that each Linear of a fused module gets.
NamedSlice rows_of(const Module& m, const std::vector<Parameter*>& parts) {
  return {m.name, parts, m.slice.groups, false};
}

// A parameter of this name and shape; reuses one that an earlier adapter left.
Parameter* declare(ParameterSet& set, const std::string& name, const Shape& shape) {
  Parameter* p = set.find(name);
  if (!p) return set.add(name, shape);
  p->shape = shape, p->value = Tensor();
  return p;
}

// Declares the adapter's parameters and attaches it to the module's Linears.
void attach(const LoadedModel& loaded, const AdapterConfig& config, const Module& m) {
  ParameterSet& set = loaded.model->parameters();
  const std::string prefix = "adapter." + m.name;
  Parameter* a = declare(set, prefix + ".lora_A", {config.rank, m.linears[0]->in()});
  for (size_t i = 0; i < m.linears.size(); ++i) {
    auto adapter = std::make_shared<Adapter>();
    const std::string part = m.linears.size() == 1 ? "" : fmt::format(".{}", i);
    adapter->a = a;
    adapter->b = declare(set, prefix + ".lora_B" + part, {m.linears[i]->out(), config.rank});
    if (config.dora) adapter->magnitude = declare(set, prefix + ".magnitude" + part, {m.linears[i]->out()});
    adapter->scale = config.scale();
    adapter->dropout = static_cast<float>(config.dropout);
    m.linears[i]->attach(adapter);
  }
}

Status freeze_base(const LoadedModel& loaded, const AdapterConfig& config, Device& device) {
  for (const auto& p : loaded.model->parameters().all()) p->trainable = p->name.starts_with("adapter.");
  for (const std::string& module : config.modules_to_save) {
    bool found = false;
    for (const auto& slice : expand(loaded.family->names(loaded.model->spec()), loaded.model->parameters())) {
      const size_t dot = slice.tensor_name.rfind('.');
      if (!ends_with_module(slice.tensor_name.substr(0, dot), module)) continue;
      for (Parameter* p : slice.parameters) {
        p->trainable = true;
        p->value = ops::decode_to_f32(device, p->value.to(device.memory()))
                       .clone();  // the base may be mapped or quantized
      }
      found = true;
    }
    if (!found)
      return error_at("adapter_config.json", "modules_to_save names {}, which the base does not have",
                      quote(module));
  }
  return Done{};
}

Status attach_all(const LoadedModel& loaded, const AdapterConfig& config, Device& device,
                  std::vector<Module>& target_modules) {
  for (Module& m : linear_modules(loaded)) {
    if (!is_target(loaded, config, m)) continue;
    attach(loaded, config, m);
    target_modules.push_back(m);
  }
  if (target_modules.empty())
    return error_at("adapter_config.json", "target_modules ({}) match no linear layer of the base",
                    fmt::join(config.targets, ", "));
  return freeze_base(loaded, config, device);
}

// "a.b.c" as "c", "b.c", "a.b.c".
std::vector<std::string> suffixes_of(const std::string& name) {
  std::vector<std::string> out;
  for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1))
    out.push_back(name.substr(dot + 1));
  out.push_back(name);
  return out;
}

// The shortest names that PEFT matches with the modules that have an adapter and with no other module. PEFT
// expands "all-linear" in its own models only; in a file it is a name like any other.
std::vector<std::string> target_names(const LoadedModel& loaded) {
  std::unordered_set<std::string> adapted_modules, other_suffixes;
  std::vector<std::string> names;
  for (const Module& m : linear_modules(loaded))
    if (m.linears[0]->adapter()) adapted_modules.insert(m.name), names.push_back(m.name);
  for (const NamedSlice& slice :
       expand(loaded.family->names(loaded.model->spec()), loaded.model->parameters()))
    for (size_t dot = slice.tensor_name.rfind('.'); dot != std::string::npos && dot > 0;
         dot = slice.tensor_name.rfind('.', dot - 1))
      if (const std::string module = slice.tensor_name.substr(0, dot); !adapted_modules.contains(module))
        for (const std::string& suffix : suffixes_of(module)) other_suffixes.insert(suffix);
  std::set<std::string> out;
  for (const std::string& name : names) {
    const auto suffixes = suffixes_of(name);
    if (std::any_of(suffixes.begin(), suffixes.end(), [&](const std::string& s) { return out.contains(s); }))
      continue;
    const auto unique_suffix = std::find_if(
        suffixes.begin(), suffixes.end(), [&](const std::string& s) { return !other_suffixes.contains(s); });
    out.insert(unique_suffix == suffixes.end() ? name : *unique_suffix);
  }
  return {out.begin(), out.end()};
}

Json task_type(const ModelSpec& spec) {
  switch (spec.head.kind) {
    case HeadKind::kCausalLm:
      return spec.encoder && spec.decoder ? "SEQ_2_SEQ_LM" : "CAUSAL_LM";
    case HeadKind::kSequenceClass:
      return "SEQ_CLS";
    case HeadKind::kTokenClass:
      return "TOKEN_CLS";
    case HeadKind::kQuestion:
      return "QUESTION_ANS";
    case HeadKind::kNone:
      return "FEATURE_EXTRACTION";
    default:
      return nullptr;  // PEFT has no name for it
  }
}

// The value of one tensor of the adapter's file, checked against the shape it must have.
Result<Tensor> read_tensor(const Safetensors& file, const std::string& name, const Shape& shape) {
  MAKAR_TRY(const Tensor t, file.tensor(name));
  if (!(t.shape() == shape))
    return error_at(file.place(), "tensor {} has shape {} where {} is expected", quote(name),
                    t.shape().text(), shape.text());
  return t.to(DType::kF32).clone();
}

}  // namespace

Result<AdapterConfig> read_adapter_config(const std::string& folder) {
  if (!path_exists(folder + "/adapter_config.json"))
    return error_of(Error::Kind::kNotFound, folder,
                    "{}; an adapter is a folder with adapter_config.json and adapter_model.safetensors, as "
                    "makar sft and PEFT write it: check the path of the adapter",
                    is_folder(folder) ? "has no adapter_config.json"
                    : is_file(folder) ? "is a file"
                                      : "no such adapter");
  MAKAR_TRY(const Config config, Config::read(folder, "adapter_config.json"));
  AdapterConfig out;
  MAKAR_TRY(const std::string type, config.choice("peft_type", {"LORA"}));
  MAKAR_TRY(out.rank, config.integer("r", 1, 65536));
  MAKAR_TRY(out.alpha, config.number("lora_alpha", 0, 1e9));
  MAKAR_TRY(out.dropout, config.number_or("lora_dropout", 0, 0, 0.999));
  MAKAR_TRY(out.rslora, config.boolean_or("use_rslora", false));
  MAKAR_TRY(out.dora, config.boolean_or("use_dora", false));
  MAKAR_TRY(const std::string bias, config.choice_or("bias", "none", {"none"}));
  for (const char* key : {"rank_pattern", "alpha_pattern"})
    if (config.json().contains(key) && !config.json()[key].empty())
      return error_of(Error::Kind::kUnsupported, config.place(), "field '{}' is not supported", key);
  if (config.json().contains("target_modules") && config.json()["target_modules"].is_string()) {
    MAKAR_TRY(const std::string target, config.text("target_modules"));
    out.targets = {target};
  } else {
    MAKAR_TRY(out.targets, config.texts("target_modules", 4096));
  }
  if (config.has("modules_to_save")) {
    MAKAR_TRY(out.modules_to_save, config.texts("modules_to_save", 4096));
  }
  out.json = config.json();
  return out;
}

float AdapterConfig::scale() const {
  return static_cast<float>(alpha /
                            (rslora ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank)));
}

Status add_adapter(const LoadedModel& loaded, const AdapterConfig& config, Device& device, uint64_t seed) {
  std::vector<Module> target_modules;
  MAKAR_RETURN_IF_ERROR(attach_all(loaded, config, device, target_modules));
  uint64_t stream = 0;
  for (const Module& m : target_modules) {
    Parameter* a = m.linears[0]->adapter()->a;
    a->value = Tensor::empty(a->shape);
    // Kaiming-uniform with a = sqrt(5), as PEFT initialises A: within 1 / sqrt(in).
    const float bound = 1.0f / std::sqrt(static_cast<float>(a->shape[1]));
    const Rng rng(seed, Purpose::kInit, ++stream + kFirstStream);
    for (int64_t i = 0; i < a->value.count(); ++i)
      a->value.f32()[i] = bound * (2.0f * rng.uniform(static_cast<uint64_t>(i)) - 1.0f);
    for (Linear* linear : m.linears) {
      linear->adapter()->b->value = Tensor::zeros(linear->adapter()->b->shape);
      if (Parameter* magnitude = linear->adapter()->magnitude) {
        Context ctx{device};
        const Tensor w = linear->weight()->value.to(device.memory());
        magnitude->value = ops::row_norms(ctx, ops::decode_to_f32(device, w));
      }
    }
  }
  return Done{};
}

Result<AdapterConfig> load_adapter(const LoadedModel& loaded, const std::string& folder, Device& device) {
  MAKAR_TRY(const AdapterConfig config, read_adapter_config(folder));
  MAKAR_TRY(const auto file, Safetensors::open(folder + "/adapter_model.safetensors"));
  std::vector<Module> target_modules;
  MAKAR_RETURN_IF_ERROR(attach_all(loaded, config, device, target_modules));
  size_t tensors_read = 0;
  for (const Module& m : target_modules) {
    const std::string prefix = kPrefix + m.name;
    Parameter* a = m.linears[0]->adapter()->a;
    MAKAR_TRY(a->value, read_tensor(*file, prefix + ".lora_A.weight", a->shape));
    std::vector<Parameter*> b, magnitude;
    for (const Linear* l : m.linears)
      b.push_back(l->adapter()->b), magnitude.push_back(l->adapter()->magnitude);
    const NamedSlice rows = rows_of(m, b);
    MAKAR_TRY(const Tensor stored_b, read_tensor(*file, prefix + ".lora_B.weight", rows.shape()));
    const auto parts = split_tensor(stored_b, rows);
    for (size_t i = 0; i < parts.size(); ++i) b[i]->value = parts[i];
    tensors_read += 2;
    if (config.dora) {
      const NamedSlice magnitude_rows = rows_of(m, magnitude);
      MAKAR_TRY(const Tensor values,
                read_tensor(*file, prefix + ".lora_magnitude_vector", magnitude_rows.shape()));
      const auto magnitude_parts = split_tensor(values, magnitude_rows);
      for (size_t i = 0; i < magnitude_parts.size(); ++i) magnitude[i]->value = magnitude_parts[i];
      ++tensors_read;
    }
  }
  for (const auto& slice : expand(loaded.family->names(loaded.model->spec()), loaded.model->parameters())) {
    if (!slice.parameters[0]->trainable || slice.parameters[0]->name.starts_with("adapter.")) continue;
    MAKAR_TRY(const Tensor stored, read_tensor(*file, kPrefix + slice.tensor_name, slice.shape()));
    const auto parts = split_tensor(stored, slice);
    for (size_t i = 0; i < parts.size(); ++i) slice.parameters[i]->value = parts[i];
    ++tensors_read;
  }
  if (tensors_read != file->names().size())
    return error_at(file->place(),
                    "has {} tensors but adapter_config.json describes {}; the two files are of different "
                    "adapters, or the "
                    "adapter has tensors that are not supported",
                    file->names().size(), tensors_read);
  return config;
}

Status save_adapter(const LoadedModel& loaded, const AdapterConfig& config, const std::string& folder) {
  MAKAR_RETURN_IF_ERROR(make_folder(folder));
  std::vector<NamedTensor> tensors;
  bool transposed = false;
  for (const Module& m : linear_modules(loaded)) {
    if (!m.linears[0]->adapter()) continue;
    transposed = transposed || m.slice.transpose;
    std::vector<Parameter*> b, magnitude;
    for (const Linear* l : m.linears)
      b.push_back(l->adapter()->b), magnitude.push_back(l->adapter()->magnitude);
    const auto join_parts = [&](const std::vector<Parameter*>& parts) {
      std::vector<Tensor> values;
      for (const Parameter* p : parts) values.push_back(p->value);
      return join_tensors(values, rows_of(m, parts));
    };
    tensors.push_back({kPrefix + m.name + ".lora_A.weight", m.linears[0]->adapter()->a->value});
    tensors.push_back({kPrefix + m.name + ".lora_B.weight", join_parts(b)});
    if (magnitude[0]) tensors.push_back({kPrefix + m.name + ".lora_magnitude_vector", join_parts(magnitude)});
  }
  for (auto& named : named_tensors(*loaded.model, *loaded.family, false,
                                   [](const Parameter& p) { return p.trainable ? p.value : Tensor(); }))
    tensors.push_back({kPrefix + named.name, named.tensor});
  MAKAR_RETURN_IF_ERROR(write_safetensors(folder + "/adapter_model.safetensors", tensors));
  Json json = config.json.is_object() ? config.json : Json::object();
  json["peft_type"] = "LORA";
  if (!json.contains("task_type")) json["task_type"] = task_type(loaded.model->spec());
  json["r"] = config.rank, json["lora_dropout"] = config.dropout, json["bias"] = "none";
  const bool integral = config.alpha == std::floor(config.alpha) && config.alpha < 1e9;
  json["lora_alpha"] = integral ? Json(static_cast<int64_t>(config.alpha)) : Json(config.alpha);
  json["use_rslora"] = config.rslora, json["use_dora"] = config.dora;
  json["target_modules"] = all_linear(config) ? target_names(loaded) : config.targets;
  json["fan_in_fan_out"] = transposed;  // the base stores [in, out]
  if (!config.modules_to_save.empty()) json["modules_to_save"] = config.modules_to_save;
  return write_file(folder + "/adapter_config.json", json.dump(2) + "\n");
}

void merge_adapter(const LoadedModel& loaded, Device& device) {
  Context ctx{device};
  loaded.model->parameters().to(device.memory());
  loaded.model->each_linear([&](const std::string&, Linear& linear) {
    if (!linear.adapter()) return;
    const DType type = linear.weight()->value.dtype();
    const Tensor merged = linear.merged(ctx);
    linear.weight()->value = is_block(type) ? merged : merged.host().to(type);
    linear.detach();
    linear.unpack();  // the packed weight is stale
  });
}

}  // namespace makar
