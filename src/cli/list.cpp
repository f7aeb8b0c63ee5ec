// makar list: the downloaded models.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "models/inspect.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

struct ListedModel {
  std::string name, path, architecture, problem;
  uint64_t bytes = 0;
  int64_t parameters = 0;
};

uint64_t bytes_below(const fs::path& path) {
  std::error_code code;
  if (fs::is_regular_file(path, code)) return fs::file_size(path, code);
  uint64_t sum = 0;
  for (fs::recursive_directory_iterator it(path, code), end; !code && it != end; it.increment(code))
    if (std::error_code entry_code; it->is_regular_file(entry_code)) sum += it->file_size(entry_code);
  return sum;
}

ListedModel describe_model(const fs::path& path, const fs::path& root) {
  ListedModel out;
  out.name = path.lexically_relative(root).string(), out.path = path.string();
  out.bytes = bytes_below(path);
  const auto inspection = inspect_model(out.path, {});
  if (inspection.ok())
    out.architecture = inspection->spec.architecture, out.parameters = inspection->parameters;
  else
    out.problem = inspection.error().message;
  return out;
}

// A model is a folder with a config.json, or a GGUF file. `depth`: levels of folders to search; 3 reach a
// GGUF file in OWNER/NAME.
void find_models(const fs::path& folder, const fs::path& root, int depth, std::vector<ListedModel>& out) {
  std::error_code code;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    entries.push_back(it->path());
  std::sort(entries.begin(), entries.end());
  for (const fs::path& path : entries) {
    if (path.extension() == ".gguf" && is_file(path.string())) out.push_back(describe_model(path, root));
    if (!is_folder(path.string())) continue;
    if (is_file((path / "config.json").string()))
      out.push_back(describe_model(path, root));
    else if (depth > 1)
      find_models(path, root, depth - 1, out);
  }
}

}  // namespace

int run_list(const std::vector<std::string>& arguments) {
  bool json = false;
  Options options("list", "List the downloaded models.", "makar list");
  options.group("Output");
  options.add("--json", &json, "print one JSON object per model");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto folder = model_folder();
  if (!folder.ok()) return report(folder.error());
  std::vector<ListedModel> models;
  find_models(*folder, *folder, 3, models);
  if (models.empty() && !json)
    fmt::print("there are no models in {}; makar pull OWNER/NAME downloads one\n", *folder);
  size_t width = 0;
  for (const ListedModel& m : models) width = std::max(width, m.name.size());
  for (const ListedModel& m : models) {
    if (json) {
      Json out = {{"name", m.name}, {"path", m.path}, {"bytes", m.bytes}};
      if (m.problem.empty())
        out["architecture"] = m.architecture, out["parameters"] = m.parameters;
      else
        out["problem"] = m.problem;
      fmt::print("{}\n", dump(out));
      continue;
    }
    fmt::print("{:<{}}  {:>9.1f} MB  {}\n", m.name, width, static_cast<double>(m.bytes) * 1e-6,
               m.problem.empty() ? fmt::format("{:.1f}M parameters, {}",
                                               static_cast<double>(m.parameters) * 1e-6, m.architecture)
                                 : "cannot be read: " + m.problem);
  }
  return 0;
}

}  // namespace makar
