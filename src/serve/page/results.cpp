#include "serve/page/results.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/quote.h"
#include "serve/page/runs.h"

namespace makar {
namespace {

constexpr size_t kMaxResults = 500, kMaxResultsBytes = size_t{16} << 20, kMaxResultRows = 5000;

Json number_or_null(const Json& object, const std::string& key) {
  return object.contains(key) && object[key].is_number() ? object[key] : Json();
}

// The entry of a task in a section of the file.
Json task_entry(const Json& file, const char* section, const std::string& task) {
  const auto found = file.find(section);
  if (found == file.end() || !found->is_object() || !found->contains(task)) return {};
  return (*found)[task];
}

}  // namespace

Result<Json> list_results(const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code code;
  size_t entries = 0;
  for (std::filesystem::directory_iterator it(folder, code), end;
       !code && it != end && ++entries < kMaxFolderEntries; it.increment(code)) {
    const std::string name = it->path().filename().string();
    struct stat status = {};
    if (is_plain_name(name) && ::stat((folder + "/" + name + "/results.json").c_str(), &status) == 0 &&
        S_ISREG(status.st_mode))
      found.emplace_back(-status.st_mtime, name);
  }
  std::sort(found.begin(), found.end());
  Json out = Json::array();
  for (size_t i = 0; i < std::min(found.size(), kMaxResults); ++i)
    out.push_back({{"name", found[i].second}, {"changed", -found[i].first}});
  return out;
}

Result<Json> read_results(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name + "/results.json";
  if (!is_plain_name(name) || !is_file(path))
    return error_of(Error::Kind::kNotFound, "results", "results {} not found", quote(name));
  MAKAR_TRY(const std::string text, read_file(path, kMaxResultsBytes));
  MAKAR_TRY(const Json file, parse_json(text, name + "/results.json", {kMaxResultsBytes, 64}));
  if (!file.is_object() || !file.contains("results") || !file["results"].is_object())
    return error_at(name + "/results.json", "is not a results file: expected an object with 'results'");
  Json rows = Json::array();
  for (const auto& [task, scores] : file["results"].items()) {
    if (!scores.is_object()) continue;
    for (const auto& [key, value] : scores.items()) {
      const size_t comma = key.find(',');
      if (comma == std::string::npos || key.find("_stderr,") != std::string::npos ||
          rows.size() == kMaxResultRows)
        continue;
      const std::string metric = key.substr(0, comma), filter = key.substr(comma + 1);
      const Json higher = task_entry(file, "higher_is_better", task),
                 samples = task_entry(file, "n-samples", task);
      const Json shots = task_entry(file, "n-shot", task);
      rows.push_back(
          {{"task", task},
           {"metric", metric},
           {"filter", filter},
           {"value", number_or_null(scores, key)},
           {"stderr", number_or_null(scores, metric + "_stderr," + filter)},
           {"higher_is_better", !higher.is_object() || !higher.contains(metric) || higher[metric] != false},
           {"shots", shots.is_number() ? shots : Json()},
           {"documents", samples.is_object() ? number_or_null(samples, "effective") : Json()}});
    }
  }
  Json model;
  if (const Json config = file.value("config", Json::object()); config.is_object()) {
    const Json arguments = config.contains("model_args") ? config["model_args"] : Json();
    if (arguments.is_object() && arguments.contains("model") && arguments["model"].is_string())
      model = arguments["model"];
  }
  return Json{{"name", name}, {"model", model}, {"rows", std::move(rows)}};
}

}  // namespace makar
