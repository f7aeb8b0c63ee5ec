#include "models/source.h"

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "formats/gguf_split.h"
#include "models/gguf_config.h"

namespace makar {
namespace {

// The only GGUF file (or the first of the only model in several) of a folder without a config.json; "" when
// there is none, or several to choose from.
std::string only_gguf(const std::string& folder) {
  if (is_there(folder + "/config.json")) return "";
  std::string found;
  std::error_code code;
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    if (it->path().extension() != ".gguf" || is_further_gguf_part(it->path().string())) continue;
    if (!found.empty()) return "";
    found = it->path().string();
  }
  return found;
}

// By its name, or by its first bytes: a downloaded blob may have any name.
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
  return WeightFiles::open(path);
}

}  // namespace makar
