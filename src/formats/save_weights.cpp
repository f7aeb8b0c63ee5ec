// Saves the weights of a model folder: one safetensors file, or shards and their index.
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "formats/weights.h"

namespace makar {
namespace {

using Shard = std::span<const NamedTensor>;

// Splits tensors into shards of at most `limit` bytes; a larger tensor gets a shard of its own.
std::vector<Shard> split_into_shards(Shard tensors, size_t limit) {
  std::vector<Shard> shards;
  size_t begin = 0, bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t tensor_bytes = tensors[i].tensor.bytes();
    if (i > begin && bytes + tensor_bytes > limit) {
      shards.push_back(tensors.subspan(begin, i - begin));
      begin = i, bytes = 0;
    }
    bytes += tensor_bytes;
  }
  shards.push_back(tensors.subspan(begin));
  return shards;
}

Status write_index(const std::string& path, const std::vector<Shard>& shards,
                   const std::vector<std::string>& files) {
  size_t total = 0;
  Json map = Json::object();
  auto& fields = static_cast<std::vector<Json::object_t::value_type>&>(map.get_ref<Json::object_t&>());
  for (size_t s = 0; s < shards.size(); ++s)
    for (const auto& [name, tensor] : shards[s]) {
      total += tensor.bytes();
      fields.emplace_back(name, files[s]);  // names are unique: skip the linear search of ordered_json
    }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
  return write_file(path, dump(index, 2) + "\n");
}

// model-00001-of-00003.safetensors, the single file, or the index of an earlier save.
bool is_weight_file(const std::string& name) {
  return name == "model.safetensors" || name == "model.safetensors.index.json" ||
         (name.starts_with("model-") && name.find("-of-") != name.npos && name.ends_with(".safetensors"));
}

Status remove_earlier_files(const std::string& folder, const std::set<std::string>& new_files) {
  std::error_code code;
  std::vector<std::filesystem::path> stale;
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    if (const auto name = it->path().filename().string(); is_weight_file(name) && !new_files.count(name))
      stale.push_back(it->path());
  for (const auto& path : stale)
    if (!std::filesystem::remove(path, code) && code)
      return error_of(Error::Kind::kIo, path.string(), "cannot remove this file of an earlier save: {}",
                      code.message());
  return Done{};
}

}  // namespace

Status save_weights(const std::string& folder, std::span<const NamedTensor> tensors, size_t max_shard_bytes) {
  std::set<std::string_view> names;  // write_safetensors checks one file at a time
  for (const auto& t : tensors)
    if (!names.insert(t.name).second) return error_at(folder, "tensor '{}' is given twice", t.name);
  MAKAR_RETURN_IF_ERROR(make_folder(folder));
  const std::vector<Shard> shards = split_into_shards(tensors, max_shard_bytes);
  if (shards.size() == 1) {
    MAKAR_RETURN_IF_ERROR(write_safetensors(folder + "/model.safetensors", tensors));
    return remove_earlier_files(folder, {"model.safetensors"});
  }
  std::vector<std::string> files;
  std::set<std::string> new_files = {"model.safetensors.index.json"};
  for (size_t s = 0; s < shards.size(); ++s) {
    files.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, shards.size()));
    new_files.insert(files.back());
    MAKAR_RETURN_IF_ERROR(write_safetensors(folder + "/" + files[s], shards[s]));
  }
  MAKAR_RETURN_IF_ERROR(write_index(folder + "/model.safetensors.index.json", shards, files));
  return remove_earlier_files(folder, new_files);
}

}  // namespace makar
