#include "formats/weights.h"

#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "formats/torch_file.h"

namespace makar {
namespace {

constexpr const char* kSafetensors = "model.safetensors";
constexpr const char* kSafetensorsIndex = "model.safetensors.index.json";
constexpr const char* kPickle = "pytorch_model.bin";
constexpr const char* kPickleIndex = "pytorch_model.bin.index.json";
constexpr JsonLimits kIndexLimits = {.bytes = size_t{64} << 20, .depth = 8};

// The error for a folder without supported weights: names the other weights that it has, and the cure.
Error no_weights_error(const std::string& folder) {
  const auto has = [&](const std::string& file) { return is_file(folder + "/" + file); };
  const auto expected =
      fmt::format("has neither {} nor {}, nor {}", kSafetensors, kSafetensorsIndex, kPickle);
  for (const char* other : {"tf_model.h5", "flax_model.msgpack"})
    if (has(other))
      return error_of(Error::Kind::kUnsupported, folder,
                      "{}; found {}: load it in transformers and save it as safetensors", expected, other);
  if (has("adapter_model.safetensors"))
    return error_of(
        Error::Kind::kUnsupported, folder,
        "{}; found adapter_model.safetensors: this is an adapter; pass the folder of its base model",
        expected);
  std::error_code code;
  std::string found;
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end && found.empty();
       it.increment(code))
    if (const auto path = it->path(); path.extension() == ".safetensors" || path.extension() == ".gguf")
      found = path.filename().string();
  if (!found.empty())
    return error_of(Error::Kind::kNotFound, folder, "{}; found {}: rename it if it contains the whole model",
                    expected, quote(found));
  return error_of(Error::Kind::kNotFound, folder,
                  "{}; check that this is a model folder and that its download is complete", expected);
}

Result<std::shared_ptr<const TensorFile>> open_file(const std::string& path) {
  if (path.ends_with(".bin")) {
    MAKAR_TRY(auto file, TorchFile::open(path));
    return std::shared_ptr<const TensorFile>(std::move(file));
  }
  MAKAR_TRY(auto file, Safetensors::open(path));
  return std::shared_ptr<const TensorFile>(std::move(file));
}

// A shard must be a file of the index's kind inside the folder.
Status check_shard_name(const std::string& index, const std::string& tensor, const std::string& shard) {
  const char* kind = index.ends_with(kPickleIndex) ? ".bin" : ".safetensors";
  const auto refuse = [&](const char* why) {
    return error_at(index, "weight_map: tensor {} is in the file {}, which {}", quote(tensor), quote(shard),
                    why);
  };
  if (shard.empty()) return refuse("is empty; expected the name of a shard");
  if (shard.find('/') != shard.npos || shard.find('\\') != shard.npos || shard.find("..") != shard.npos)
    return refuse("is not a plain file name; shards must be in the folder of the index");
  if (shard.find('\0') != shard.npos || shard.size() > 255) return refuse("is not a valid file name");
  if (!shard.ends_with(kind)) return refuse(fmt::format("is not a {} file", kind).c_str());
  return Done{};
}

// The name of a file without its folder.
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

using WeightMap = std::map<std::string, std::string>;  // tensor to shard

Result<WeightMap> read_index(const std::string& index) {
  MAKAR_TRY(const Json json, read_json(index, kIndexLimits));
  if (!json.is_object()) return error_at(index, "must be a JSON object, found {}", json.type_name());
  const auto field = json.find("weight_map");
  if (field == json.end())
    return error_at(index, "has no field 'weight_map' from tensor names to shard files");
  if (!field->is_object())
    return error_at(index, "weight_map must be an object, found {}", field->type_name());
  WeightMap map;
  for (const auto& [tensor, shard] : field->items()) {
    if (!shard.is_string())
      return error_at(index, "weight_map: the file of tensor {} must be a string, found {}", quote(tensor),
                      shard.type_name());
    MAKAR_RETURN_IF_ERROR(check_shard_name(index, tensor, shard.get_ref<const std::string&>()));
    map.emplace(tensor, shard.get<std::string>());
  }
  if (map.empty()) return error_at(index, "weight_map is empty; expected the shard of every tensor");
  return map;
}

Status check_shards_exist(const std::string& folder, const std::string& index,
                          const std::set<std::string>& shards) {
  size_t missing = 0;
  std::string first_missing;
  for (const auto& shard : shards)
    if (!path_exists(folder + "/" + shard) && missing++ == 0) first_missing = shard;
  if (missing == 0) return Done{};
  return error_of(Error::Kind::kNotFound, index,
                  "names {} shards but {} of them are not in the folder, first {}; download them",
                  shards.size(), missing, quote(first_missing));
}

}  // namespace

bool WeightFiles::present(const std::string& folder) {
  for (const char* name : {kSafetensors, kSafetensorsIndex, kPickle, kPickleIndex})
    if (path_exists(folder + "/" + name)) return true;
  return false;
}

Result<WeightFiles> WeightFiles::open(const std::string& folder) {
  if (is_file(folder))
    return error_at(folder, "is a file; expected a model folder with config.json and weights");
  if (!is_folder(folder))
    return error_of(Error::Kind::kNotFound, folder, "no such file or folder; check the path of the model");
  for (const auto& [single, index] :
       {std::pair(kSafetensors, kSafetensorsIndex), std::pair(kPickle, kPickleIndex)}) {
    if (const std::string path = folder + "/" + single; path_exists(path)) {
      MAKAR_TRY(auto file, open_file(path));
      WeightFiles weights;
      weights.place_ = path;
      weights.add(std::move(file));
      return weights;
    }
    if (const std::string path = folder + "/" + index; path_exists(path)) return open_sharded(folder, path);
  }
  return no_weights_error(folder);
}

Result<WeightFiles> WeightFiles::open_sharded(const std::string& folder, const std::string& index) {
  MAKAR_TRY(const WeightMap map, read_index(index));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map) shards.insert(shard);
  MAKAR_RETURN_IF_ERROR(check_shards_exist(folder, index, shards));

  WeightFiles weights;
  weights.place_ = index;
  for (const auto& shard : shards) {
    MAKAR_TRY(auto file, open_file(folder + "/" + shard));
    for (const auto& name : file->names()) {
      const auto index_entry = map.find(name);
      if (index_entry == map.end())
        return error_at(file->place(),
                        "has tensor {}, which is not in the weight_map of {}; index and shards come from "
                        "different saves",
                        quote(name), name_of(index));
      // A tensor that is missing from its shard is reported below; here it can only be a second copy.
      if (index_entry->second != shard)
        return error_at(file->place(),
                        "has tensor {}, which {} maps to {}; a tensor must be in one shard only", quote(name),
                        name_of(index), quote(index_entry->second));
    }
    weights.add(std::move(file));
  }
  for (const auto& [tensor, shard] : map)
    if (!weights.has(tensor))
      return error_of(Error::Kind::kNotFound, folder + "/" + shard,
                      "has no tensor {}, which {} maps to it; index and "
                      "shards come from different saves",
                      quote(tensor), name_of(index));
  return weights;
}

void WeightFiles::add(std::shared_ptr<const TensorFile> file) {
  for (const auto& name : file->names()) {
    const bool added = where_.emplace(name, files_.size()).second;
    check(added, "a tensor is in two files");
    names_.push_back(name);
  }
  files_.push_back(std::move(file));
}

WeightFiles WeightFiles::of(Gguf::File file) {
  WeightFiles weights;
  weights.place_ = file->place();
  for (const GgufTensor& t : file->tensors()) {
    weights.where_.emplace(t.name, weights.names_.size());
    weights.names_.push_back(t.name);
    weights.gguf_entries_.push_back({t.dtype, t.shape, t.begin, t.end});
  }
  weights.gguf_ = std::move(file);
  return weights;
}

const TensorFile::Entry* WeightFiles::stored_entry(const std::string& name) const {
  const auto it = where_.find(name);
  if (it == where_.end()) return nullptr;
  return gguf_ ? &gguf_entries_[it->second] : files_[it->second]->entry(name);
}

Result<Tensor> WeightFiles::stored_tensor(const std::string& name) const {
  const auto it = where_.find(name);
  if (it != where_.end() && gguf_) return gguf_->view(*gguf_->find(name));
  if (it != where_.end()) return files_[it->second]->tensor(name);
  return error_of(Error::Kind::kNotFound, place_, "has no tensor {}{}", quote(name),
                  names_.size() <= kMaxNamesToSuggest ? did_you_mean(name, names_) : "");
}

Status WeightFiles::combine_prequantized(const PrequantizedScheme& scheme) {
  MAKAR_TRY(prequantized_,
            find_prequantized(
                scheme, names_, [&](const std::string& n) { return stored_entry(n); }, place_));
  scheme_ = scheme;
  std::set<std::string> parts;
  for (auto& [name, matrix] : prequantized_) {
    if (const auto state = matrix.parts.find("state"); state != matrix.parts.end()) {
      MAKAR_TRY(const Tensor text, stored_tensor(state->second));
      MAKAR_TRY(matrix.shape, four_bit_shape(text, place_ + ": " + state->second));
    }
    prequantized_entries_[name] = {DType::kF32, matrix.shape, 0, 0};
    for (const auto& [role, part] : matrix.parts) parts.insert(part);
  }
  std::erase_if(names_, [&](const std::string& n) { return parts.count(n) != 0; });
  for (const auto& [name, matrix] : prequantized_) names_.push_back(name);
  return Done{};
}

const TensorFile::Entry* WeightFiles::entry(const std::string& name) const {
  const auto it = prequantized_entries_.find(name);
  return it != prequantized_entries_.end() ? &it->second : stored_entry(name);
}

Result<Tensor> WeightFiles::tensor(const std::string& name) const {
  const auto it = prequantized_.find(name);
  if (it == prequantized_.end()) return stored_tensor(name);
  std::map<std::string, Tensor> parts;
  for (const auto& [role, part] : it->second.parts) {
    MAKAR_TRY(Tensor t, stored_tensor(part));
    parts[role] = std::move(t);
  }
  return decode_prequantized(*scheme_, it->second, parts, place_of(name));
}

std::string WeightFiles::type_of(const std::string& name) const {
  const auto it = prequantized_.find(name);
  return it == prequantized_.end() ? makar::name(stored_entry(name)->dtype) : it->second.type;
}

const std::string& WeightFiles::place_of(const std::string& name) const {
  if (const auto found = prequantized_.find(name); found != prequantized_.end() && !where_.count(name))
    return place_of(found->second.parts.begin()->second);
  const auto it = where_.find(name);
  return it == where_.end() || gguf_ ? place_ : files_[it->second]->place();
}

size_t WeightFiles::total_bytes() const {
  size_t bytes = gguf_ ? gguf_->data_bytes() : 0;
  for (const auto& file : files_) bytes += file->data_bytes();
  return bytes;
}

}  // namespace makar
