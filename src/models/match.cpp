#include "models/match.h"

#include <algorithm>
#include <unordered_set>

#include "base/quote.h"
#include "models/gguf_architecture.h"

namespace makar {
namespace {

// The name in a file: with the family's prefix, or without it when the file has only the body.
class FileNames {
 public:
  FileNames(const WeightFiles& files, const Family& family) : prefix_(files.gguf() ? "" : family.prefix) {
    if (prefix_.empty()) return;
    const auto& names = files.names();
    bare_ = std::none_of(names.begin(), names.end(),
                         [&](const std::string& n) { return n.starts_with(prefix_); });
  }
  std::string operator()(const std::string& name) const {
    return bare_ && name.starts_with(prefix_) ? name.substr(prefix_.size()) : name;
  }

 private:
  std::string prefix_;
  bool bare_ = false;
};

bool ignored(const Family& family, const WeightFiles& files, const std::string& name) {
  if (files.gguf()) return name == "rope_freqs.weight";  // already read into the config

  return std::any_of(family.ignored.begin(), family.ignored.end(),
                     [&](const std::string& end) { return name.ends_with(end); });
}

// Fused experts are stored as [experts, out, in]; makar concatenates them to [experts * out, in].
bool fits(const Shape& file, const NamedSlice& slice) {
  const Shape want = slice.shape();
  if (file == want) return true;
  return file.rank() == 3 && want.rank() == 2 && !slice.transpose && file[0] > 0 && file[2] == want[1] &&
         static_cast<int64_t>(slice.ours.size()) % file[0] == 0 && file[1] == want[0] / file[0] &&
         want[0] % file[0] == 0;
}

const char* description_of(const WeightFiles& files) { return files.gguf() ? "the metadata" : "config.json"; }

Status check_tensor(const NamedSlice& slice, const std::string& name, const WeightFiles& files) {
  const auto* entry = files.entry(name);
  if (!entry)
    return error_of(Error::Kind::kNotFound, files.place(),
                    "tensor {} is missing: {} requires it with shape {}; the weights are incomplete or "
                    "belong to another model",
                    quote(name), description_of(files), slice.shape().text());
  const bool block = files.gguf() && is_block(entry->dtype);
  if (!block && (!is_float(entry->dtype) || entry->dtype == DType::kF64))
    return error_of(
        Error::Kind::kUnsupported, files.place_of(name),
        "tensor {} has type {}; expected f32, f16 or bf16: save the model again in one of these types",
        quote(name), makar::name(entry->dtype));
  if (!fits(entry->shape, slice))
    return error_at(files.place_of(name),
                    "tensor {} has shape {} but {} requires {}; one of the two belongs to another model",
                    quote(name), entry->shape.text(), description_of(files), slice.shape().text());
  return Done{};
}

}  // namespace

Result<std::vector<MatchedTensor>> match_weights(const LoadedModel& loaded, const WeightFiles& files) {
  const Family& family = *loaded.family;
  const Model& model = *loaded.model;
  const FileNames file_name(files, family);
  const GgufArchitecture* gguf = files.gguf() ? gguf_architecture_of(model.spec().family) : nullptr;
  auto slices = expand(gguf ? gguf->names(model.spec()) : family.names(model.spec()), model.parameters());
  // A file may use other names: those of transformers in memory (fused experts, renamed layers), or those of
  // older or newer GGUF converters.
  std::vector<std::vector<NameRule> (*)(const ModelSpec&)> others;
  if (gguf)
    others = gguf->other_names;
  else if (family.names_in_memory)
    others = {family.names_in_memory};
  const auto missing = [&](const std::vector<NamedSlice>& list) {
    return std::any_of(list.begin(), list.end(), [&](const NamedSlice& s) {
      return !s.ours[0]->optional && !files.has(file_name(s.theirs));
    });
  };
  if (!others.empty() && missing(slices))
    for (const auto& names : others)
      if (auto other = expand(names(model.spec()), model.parameters()); !missing(other)) {
        slices = std::move(other);
        break;
      }
  std::vector<MatchedTensor> out;
  std::unordered_set<std::string> used;
  for (NamedSlice& slice : slices) {
    const std::string name = file_name(slice.theirs);
    if (slice.ours[0]->optional && !files.has(name)) continue;
    MAKAR_CHECK_OK(check_tensor(slice, name, files));
    used.insert(name);
    out.push_back({std::move(slice), name});
  }
  for (const std::string& name : files.names())
    if (!used.contains(name) && !ignored(family, files, name))
      return error_at(files.place_of(name),
                      "tensor {} is not part of a {} model; {} and the weights do not match", quote(name),
                      model.spec().architecture, description_of(files));
  return out;
}

Status check_depth(const ModelSpec& spec, const Config& config, const WeightFiles& files) {
  int64_t layers = 0;
  for (const auto* stack : {&spec.encoder, &spec.decoder})
    if (*stack) layers += (*stack)->groups > 0 ? (*stack)->groups : (*stack)->layers();
  const auto tensors = static_cast<int64_t>(files.names().size());
  if (layers <= tensors) return Done{};
  return error_at(config.place(),
                  "requires {} layers but {} has only {} tensors; the weights are incomplete or belong "
                  "to another model",
                  layers, files.place(), tensors);
}

}  // namespace makar
