#include "serve/page/runs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/quote.h"

namespace makar {
namespace {

constexpr size_t kMaxFigures = 32;  // of one validation
constexpr size_t kMaxRuns = 500, kMaxLogPieceBytes = size_t{1} << 20, kMaxSampleBytes = size_t{16} << 10;

std::string log_path(const std::string& folder, const std::string& name) {
  return folder + "/" + name + "/log.jsonl";
}

struct Log {
  int descriptor = -1;
  struct stat status = {};
  ~Log() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

Json number_at(const Json& line, const char* key) {
  const auto it = line.find(key);
  return it != line.end() && it->is_number() ? *it : Json(nullptr);
}

// Adds the figures of one line of the log to the response.
void add_line(const std::string& text, Json& out) {
  const auto line = parse_json(text, "log.jsonl", {kMaxLogPieceBytes, 8});
  if (!line.ok() || !line->is_object() || !number_at(*line, "step").is_number_integer()) return;
  const Json& step = (*line)["step"];
  if (line->contains("loss"))
    out["steps"].push_back({step, number_at(*line, "loss"), number_at(*line, "norm"), number_at(*line, "lr"),
                            number_at(*line, "seconds"), number_at(*line, "tokens")});
  if (const Json total = number_at(*line, "total"); total.is_number_integer()) out["total"] = total;
  if (line->contains("validation") && (*line)["validation"].is_object()) {
    Json figures = Json::object();
    for (const auto& [name, value] : (*line)["validation"].items())
      if (value.is_number() && figures.size() < kMaxFigures) figures[name] = value;
    out["validations"].push_back({{"step", step}, {"figures", std::move(figures)}});
  }
  if (line->contains("sample") && (*line)["sample"].is_string())
    out["samples"].push_back(
        {{"step", step},
         {"text", (*line)["sample"].get_ref<const std::string&>().substr(0, kMaxSampleBytes)}});
}

}  // namespace

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

Result<Json> list_runs(const std::string& folder) {
  struct RunEntry {
    std::string name;
    int64_t bytes, changed;
  };
  std::vector<RunEntry> runs;
  std::error_code code;
  size_t entries = 0;
  for (auto it = std::filesystem::directory_iterator(folder, code);
       !code && it != std::filesystem::directory_iterator() && ++entries < kMaxFolderEntries;
       it.increment(code)) {
    const std::string name = it->path().filename().string();
    struct stat status = {};
    if (is_plain_name(name) && ::stat(log_path(folder, name).c_str(), &status) == 0 &&
        S_ISREG(status.st_mode))
      runs.push_back({name, status.st_size, status.st_mtime});
  }
  std::sort(runs.begin(), runs.end(), [](const RunEntry& a, const RunEntry& b) {
    return a.changed != b.changed ? a.changed > b.changed : a.name < b.name;
  });
  Json out = Json::array();
  for (size_t i = 0; i < std::min(runs.size(), kMaxRuns); ++i)
    out.push_back({{"name", runs[i].name}, {"bytes", runs[i].bytes}, {"changed", runs[i].changed}});
  return out;
}

Result<Json> read_run(const std::string& folder, const std::string& name, int64_t offset, int64_t file) {
  if (!is_plain_name(name)) return error_of(Error::Kind::kNotFound, "run", "run {} not found", quote(name));
  const std::string path = log_path(folder, name);
  Log log;
  // O_NONBLOCK: opening a pipe must not block.
  log.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (log.descriptor < 0 || ::fstat(log.descriptor, &log.status) != 0 || !S_ISREG(log.status.st_mode))
    return error_of(Error::Kind::kNotFound, "run", "run {} not found", quote(name));
  // 48 bits: JSON numbers represent 53 exactly.
  const int64_t inode = static_cast<int64_t>(log.status.st_ino & 0xFFFFFFFFFFFF), size = log.status.st_size;
  const bool restarted = (file != 0 && file != inode) || offset > size || offset < 0;
  if (restarted) offset = 0;
  std::string text(kMaxLogPieceBytes, '\0');
  const ssize_t read_bytes = ::pread(log.descriptor, text.data(), text.size(), offset);
  if (read_bytes < 0) return io_error(name + "/log.jsonl", "read");
  text.resize(static_cast<size_t>(read_bytes));
  Json out = {{"name", name},
              {"file", inode},
              {"restarted", restarted},
              {"steps", Json::array()},
              {"validations", Json::array()},
              {"samples", Json::array()}};
  size_t at = 0;
  for (size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    add_line(text.substr(at, end - at), out);
  if (at == 0 && text.size() == kMaxLogPieceBytes)
    at = kMaxLogPieceBytes;  // skip a line longer than kMaxLogPieceBytes
  out["offset"] = offset + static_cast<int64_t>(at);
  out["more"] = text.size() == kMaxLogPieceBytes;
  out["changed"] = static_cast<int64_t>(log.status.st_mtime);
  return out;
}

}  // namespace makar
