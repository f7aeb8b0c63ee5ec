#include "serve/tuning/base_identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/quote.h"
#include "base/sha256.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

Result<std::string> stamp_of_files(const std::string& path) {
  std::vector<std::string> files;
  std::error_code failed;
  if (!is_folder(path)) files.push_back(path);
  if (files.empty())
    for (fs::directory_iterator it(path, failed), end; !failed && it != end; it.increment(failed))
      files.push_back(it->path().string());
  if (failed) return error_of(Error::Kind::kIo, path, "cannot be listed: {}", failed.message());
  std::sort(files.begin(), files.end());
  Sha256 sum;
  for (const std::string& file : files) {
    struct stat s = {};
    if (::stat(file.c_str(), &s) != 0) return io_error(file, "read");
    if (S_ISREG(s.st_mode))
      sum.add(
          fmt::format("{}\n{} {} {} {}\n", file, s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec));
  }
  return sum.hex();
}

}  // namespace

Json base_json(const BaseIdentity& base) {
  return {{"path", base.path}, {"stamp", base.stamp}, {"hash", base.hash}};
}

BaseIdentity read_base(const Json& json) {
  BaseIdentity out;
  if (!json.is_object()) return out;
  for (const auto& [key, member] :
       {std::pair("path", &out.path), std::pair("stamp", &out.stamp), std::pair("hash", &out.hash)})
    if (json.contains(key) && json[key].is_string()) *member = json[key].get<std::string>();
  return out;
}

Result<BaseIdentity> BaseIdentities::of(const std::string& path, const BaseIdentity& known) {
  MAKAR_TRY(const std::string stamp, stamp_of_files(path));
  const auto same = [&](const BaseIdentity& other) {
    return other.path == path && other.stamp == stamp && !other.hash.empty();
  };
  if (same(known)) return known;
  const std::lock_guard lock(mutex_);
  if (const auto found = computed_.find(path); found != computed_.end() && same(found->second))
    return found->second;
  MAKAR_TRY(const std::string hash, hash_(path, [&] { return stopped_.load(); }));
  return computed_[path] = BaseIdentity{path, stamp, hash};
}

// Errors name the model instead of its files: clients see them.
Result<BaseIdentity> BaseIdentities::check(const std::string& name, const std::string& path,
                                           const BaseIdentity& known, const char* since) {
  const auto now = of(path, known);
  if (!now.ok())
    return error_of(Error::Kind::kNotFound, "model", "the files of {} cannot be read: {}", quote(name),
                    now.error().message);
  if (known.hash.empty() || known.hash == now->hash) return now;
  return error_of(Error::Kind::kNotFound, "model", "the files of {} have changed since {}", quote(name),
                  since);
}

}  // namespace makar
