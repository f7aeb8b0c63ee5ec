#include "cli/model_path.h"

#include <cstdlib>
#include <filesystem>

#include "base/file.h"

namespace makar {

namespace fs = std::filesystem;

std::string model_name(const std::string& path) {
  const auto clean = fs::path(path).lexically_normal();
  const auto last = clean.has_filename() ? clean.filename() : clean.parent_path().filename();
  const auto name = last.extension() == ".gguf" ? last.stem() : last;
  return name.empty() || name == "." || name == ".." ? "makar" : name.string();
}

Result<std::string> model_folder() {
  if (const char* folder = std::getenv("MAKAR_MODELS"); folder && folder[0]) return std::string(folder);
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data && data[0] == '/') return std::string(data) + "/makar/models";
  const char* home = std::getenv("HOME");
  if (home && home[0] == '/') return std::string(home) + "/.local/share/makar/models";
  return error_of(Error::Kind::kNotFound, "HOME", "is not set; set MAKAR_MODELS to a folder for models");
}

std::string default_model() {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code).parent_path();
  if (code) return "";
  for (const char* location : {"../share/makar/world.gguf", "../models/world.gguf"})
    if (const std::string path = (program / location).lexically_normal().string(); is_file(path)) return path;
  return "";
}

std::string resolve_model(const std::string& name) {
  if (name.empty() || path_exists(name) || name[0] == '/' || name[0] == '.') return name;
  const auto folder = model_folder();
  if (!folder.ok()) return name;
  const std::string downloaded = *folder + "/" + name;
  return path_exists(downloaded) ? downloaded : name;
}

}  // namespace makar
