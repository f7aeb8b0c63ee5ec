#include "train/model_identity.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "formats/gguf.h"
#include "formats/gguf_split.h"
#include "text/hash.h"
#include "text/read/read.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

// Whether a model's weights, configuration, tokenizer, template or end of text depend on a file of its
// folder.
bool counts(const fs::path& file, bool has_config) {
  const std::string extension = file.extension().string(), name = file.filename().string();
  if (name == "config.json" || name == "adapter_config.json" || name == "generation_config.json") return true;
  const auto& tokenizer = tokenizer_file_names();
  if (std::find(tokenizer.begin(), tokenizer.end(), name) != tokenizer.end()) return true;
  return extension == ".safetensors" || (extension == ".bin" && name.starts_with("pytorch_model")) ||
         (extension == ".gguf" && !has_config);
}

// The hash of each part goes into a SHA-256, which alone would be slower than the disk.
Status add_file(const std::string& path, Sha256& sum, const std::function<bool()>& stop) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return io_error(path, "open");
  std::string part(size_t{1} << 20, '\0');
  while (in) {
    if (stop && stop()) return error_of(Error::Kind::kIo, path, "reading was stopped");
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    if (in.bad()) return io_error(path, "read");
    const uint64_t hash = hash_bytes(std::string_view(part).substr(0, static_cast<size_t>(in.gcount())));
    sum.add(std::as_bytes(std::span(&hash, 1)));
  }
  return Done{};
}

// The files of the model that a single path names: a GGUF model may be split.
Result<std::vector<std::string>> files_of(const std::string& path) {
  std::vector<std::string> out = {path};
  if (!path.ends_with(".gguf")) return out;
  MAKAR_TRY(const auto map, MappedFile::open(path));
  MAKAR_TRY(const Gguf::File file, Gguf::parse(map->bytes(), map, path));
  MAKAR_TRY(const std::vector<std::string> others, gguf_split_paths(file->fields(), path));
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

}  // namespace

Result<std::string> model_identity(const std::string& path, const std::function<bool()>& stop) {
  Sha256 sum;
  if (!is_folder(path)) {
    MAKAR_TRY(const std::vector<std::string> parts, files_of(path));
    for (const std::string& part : parts) MAKAR_RETURN_IF_ERROR(add_file(part, sum, stop));
    return sum.hex();
  }
  const bool has_config = is_file(path + "/config.json");
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::directory_iterator it(path, failed), end; !failed && it != end; it.increment(failed))
    if (counts(it->path(), has_config) && it->is_regular_file(failed)) files.push_back(it->path());
  if (failed) return error_of(Error::Kind::kIo, path, "cannot be listed: {}", failed.message());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    sum.add(file.filename().string());
    MAKAR_RETURN_IF_ERROR(add_file(file.string(), sum, stop));
  }
  return sum.hex();
}

Status add_model_files(Json& identity, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    MAKAR_TRY(identity["files"][path], model_identity(path));
  }
  return Done{};
}

}  // namespace makar
