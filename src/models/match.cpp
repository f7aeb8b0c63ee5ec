#include "models/match.h"

#include <algorithm>
#include <unordered_set>

#include "base/quote.h"
#include "models/gguf_rope.h"

namespace makar {
namespace {

// The name in a file: with the family's prefix, or without it when the file has only the body.
class FileNames {
 public:
  FileNames(const WeightFiles& files, const Family& family) : prefix_(files.gguf() ? "" : family.prefix) {
    if (prefix_.empty()) return;
    const auto& names = files.names();
    without_prefix_ = std::none_of(names.begin(), names.end(),
                                   [&](const std::string& n) { return n.starts_with(prefix_); });
  }
  std::string operator()(const std::string& name) const {
    return without_prefix_ && name.starts_with(prefix_) ? name.substr(prefix_.size()) : name;
  }

 private:
  std::string prefix_;
  bool without_prefix_ = false;
};

bool is_ignored(const Family& family, const WeightFiles& files, const std::string& name) {
  if (files.gguf()) return is_rope_tensor(name);  // already read into the config
  return std::any_of(family.ignored.begin(), family.ignored.end(), [&](const std::string& part) {
    return part.ends_with('.') ? name.starts_with(part) : name.ends_with(part);
  });
}

// The names of a GGUF file are those of its layout, which one tensor identifies.
NameTable names_of(const Family& family, const WeightFiles& files) {
  if (!files.gguf()) return family.names;
  for (const GgufLayout& layout : family.gguf->layouts)
    if (files.has(layout.tensor)) return layout.names;
  return family.gguf->names;
}

// GGUF drops leading dimensions of 1.
bool same_shape(const Shape& file, const Shape& expected) {
  const int extra = expected.rank() - file.rank();
  return extra >= 0 && file.count() == expected.count() &&
         std::equal(file.begin(), file.end(), expected.begin() + extra);
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
  if (!same_shape(entry->shape, slice.shape()))
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
  auto slices = expand(names_of(family, files)(model.spec()), model.parameters());
  // A folder may have the family's other names: those of transformers in memory (fused experts, renamed
  // layers), or of its older versions.
  const auto missing = [&](const std::vector<NamedSlice>& list) {
    return std::any_of(list.begin(), list.end(), [&](const NamedSlice& s) {
      return !s.parameters[0]->optional && !files.has(file_name(s.tensor_name));
    });
  };
  if (!files.gguf() && family.names_in_memory && missing(slices))
    if (auto other = expand(family.names_in_memory(model.spec()), model.parameters()); !missing(other))
      slices = std::move(other);
  std::vector<MatchedTensor> out;
  std::unordered_set<std::string> matched_names;
  for (NamedSlice& slice : slices) {
    const std::string name = file_name(slice.tensor_name);
    if (slice.parameters[0]->optional && !files.has(name)) continue;
    if (files.is_prequantized(name)) slice.transpose = false;
    MAKAR_RETURN_IF_ERROR(check_tensor(slice, name, files));
    matched_names.insert(name);
    out.push_back({std::move(slice), name});
  }
  for (const std::string& name : files.names())
    if (!matched_names.contains(name) && !is_ignored(family, files, name))
      return error_at(files.place_of(name),
                      "tensor {} is not part of a {} model; {} and the weights do not match", quote(name),
                      model.spec().architecture, description_of(files));
  return out;
}

Status check_depth(const ModelSpec& spec, const Config& config, const WeightFiles& files) {
  int64_t layers = 0;
  for (const auto* stack : {&spec.encoder, &spec.decoder})
    if (*stack) layers += (*stack)->distinct_layers();
  const auto tensors = static_cast<int64_t>(files.names().size());
  if (layers <= tensors) return Done{};
  return error_at(config.place(),
                  "requires {} layers but {} has only {} tensors; the weights are incomplete or belong "
                  "to another model",
                  layers, files.place(), tensors);
}

}  // namespace makar
