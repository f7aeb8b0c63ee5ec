#include "models/source.h"

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "formats/gguf_split.h"
#include "models/gguf_config.h"

namespace makar {
namespace {

// The only GGUF file (or the first file of the only split model) of a folder without config.json; "" when
// there is none, or more than one.
std::string only_gguf(const std::string& folder) {
  if (path_exists(folder + "/config.json")) return "";
  std::string gguf_path;
  std::error_code code;
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    if (it->path().extension() != ".gguf" || is_further_gguf_part(it->path().string())) continue;
    if (!gguf_path.empty()) return "";
    gguf_path = it->path().string();
  }
  return gguf_path;
}

// An error if the folder contains an adapter instead of a model.
Status check_not_adapter(const std::string& folder) {
  if (path_exists(folder + "/config.json") || !is_file(folder + "/adapter_config.json")) return Done{};
  std::string base = "MODEL";
  if (const auto json = read_json(folder + "/adapter_config.json"); json.ok() && json->is_object())
    if (const Json name = json->value("base_model_name_or_path", Json()); name.is_string() && !name.empty())
      base = name.get<std::string>();
  return error_at(
      folder,
      "is an adapter, not a model: use it with its base model (-m {} --lora {}), or merge it first (makar "
      "merge -m {} --lora {} -o FOLDER)",
      base, folder, base, folder);
}

// Decides by name or by the first bytes: a downloaded blob may have any name.
bool is_gguf(const std::string& path) {
  if (!is_file(path)) return false;
  if (path.ends_with(".gguf")) return true;
  const auto map = MappedFile::open(path);
  return map.ok() && (*map)->bytes().size() >= 4 && std::memcmp((*map)->bytes().data(), "GGUF", 4) == 0;
}

}  // namespace

Result<ModelSource> ModelSource::open(const std::string& path) {
  ModelSource source;
  source.path = is_folder(path) ? only_gguf(path) : is_gguf(path) ? path : "";
  if (source.path.empty()) {
    source.path = path;
    MAKAR_RETURN_IF_ERROR(check_not_adapter(path));
    MAKAR_TRY(source.config, Config::read(path));
    return source;
  }
  MAKAR_TRY(const Gguf::File file, Gguf::open(source.path));
  return of(file);
}

Result<ModelSource> ModelSource::of(Gguf::File file) {
  ModelSource source;
  source.path = file->place();
  MAKAR_TRY(source.config, gguf_config(*file));
  source.gguf = std::move(file);
  return source;
}

Result<WeightFiles> ModelSource::weights() const {
  if (gguf) return WeightFiles::of(gguf);
  MAKAR_TRY(WeightFiles files, WeightFiles::open(path));
  MAKAR_TRY(const auto scheme, read_prequantized_scheme(config));
  if (scheme) MAKAR_RETURN_IF_ERROR(files.combine_prequantized(*scheme));
  return files;
}

}  // namespace makar
