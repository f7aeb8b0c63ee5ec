#include "train/model_identity.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "text/hash.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

bool counts(const fs::path& file) {
  const std::string extension = file.extension().string(), name = file.filename().string();
  return extension == ".safetensors" || extension == ".gguf" || extension == ".bin" || extension == ".pt" ||
         extension == ".pth" || extension == ".npz" || extension == ".jinja" || name == "config.json" ||
         name == "adapter_config.json" || name == "tokenizer.json" || name == "tokenizer_config.json";
}

// The hash of each part goes into a SHA-256, which alone would be slower than the disk.
Status add_file(const std::string& path, Sha256& sum) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return io_error(path, "open");
  std::string part(size_t{1} << 20, '\0');
  while (in) {
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    if (in.bad()) return io_error(path, "read");
    const uint64_t hash = hash_bytes(std::string_view(part).substr(0, static_cast<size_t>(in.gcount())));
    sum.add(std::as_bytes(std::span(&hash, 1)));
  }
  return Done{};
}

}  // namespace

Result<std::string> model_identity(const std::string& path) {
  Sha256 sum;
  if (!is_folder(path)) {
    MAKAR_RETURN_IF_ERROR(add_file(path, sum));
    return sum.hex();
  }
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::directory_iterator it(path, failed), end; !failed && it != end; it.increment(failed))
    if (counts(it->path()) && it->is_regular_file(failed)) files.push_back(it->path());
  if (failed) return error_of(Error::Kind::kIo, path, "cannot be listed: {}", failed.message());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    sum.add(file.filename().string());
    MAKAR_RETURN_IF_ERROR(add_file(file.string(), sum));
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
