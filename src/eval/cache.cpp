#include "eval/cache.h"

#include <unistd.h>

#include "base/file.h"

namespace makar {

Result<EvalCache> EvalCache::open(const std::string& path) {
  EvalCache out;
  out.path_ = path;
  if (path.empty()) return out;
  size_t complete_bytes = 0;  // of the file, up to the end of its last complete line
  if (is_file(path)) {
    MAKAR_TRY(const std::string text, read_file(path));
    uint64_t line = 0;
    for (size_t end; (end = text.find('\n', complete_bytes)) != std::string::npos; complete_bytes = end + 1) {
      const std::string place = fmt::format("{}:{}", path, ++line);
      auto parsed = parse_json(std::string_view(text).substr(complete_bytes, end - complete_bytes), place);
      Json entry = parsed.ok() ? std::move(*parsed) : Json();
      if (!entry.is_object() || !entry.contains("key") || !entry["key"].is_string() ||
          !entry.contains("responses") || !entry["responses"].is_array())
        return error_at(place, "is not an entry of an evaluation cache; delete the file to start again");
      out.values_[entry["key"]] = std::move(entry["responses"]);
    }
  }
  out.file_.reset(std::fopen(path.c_str(), "ab"));
  if (!out.file_) return io_error(path, "open");
  if (ftruncate(fileno(out.file_.get()), static_cast<off_t>(complete_bytes)) != 0)
    return io_error(path, "truncate");
  return out;
}

const Json* EvalCache::find(const std::string& key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

Status EvalCache::add(const std::string& key, const Json& responses) {
  values_[key] = responses;
  if (!file_) return Done{};
  const std::string line = Json({{"key", key}, {"responses", responses}}).dump() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size()) return io_error(path_, "write");
  return Done{};
}

Status EvalCache::flush() {
  if (file_ && (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0))
    return io_error(path_, "write");
  return Done{};
}

}  // namespace makar
