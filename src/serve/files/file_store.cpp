#include "serve/files/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/quote.h"
#include "serve/api/fields.h"
#include "serve/logged_reply.h"

namespace makar {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMaxFilenameBytes = 255;

// The client's file name without folders. It is only displayed, never used as a path.
Result<std::string> plain_name(const std::string& path) {
  const size_t slash = path.find_last_of("/\\");
  std::string name = slash == path.npos ? path : path.substr(slash + 1);
  if (name.empty() || name.size() > kMaxFilenameBytes)
    return error_at("file", "the file name must have 1 to {} bytes, got {}", kMaxFilenameBytes, name.size());
  if (std::any_of(name.begin(), name.end(), [](char c) { return (c >= 0 && c < 32) || c == 127; }))
    return error_at("file", "the file name contains control characters");
  return name;
}

bool is_metadata(const Json& metadata, const std::string& id) {
  return metadata.is_object() && metadata.value("id", Json()) == Json(id) && metadata.contains("bytes") &&
         metadata["bytes"].is_number_unsigned() && metadata.contains("created_at") &&
         metadata["created_at"].is_number_integer() && metadata.contains("purpose") &&
         metadata.contains("owner");
}

Json metadata_of(const std::string& owner, const std::string& id, const std::string& filename,
                 const std::string& purpose, size_t bytes) {
  return {{"id", id},
          {"object", "file"},
          {"bytes", bytes},
          {"created_at", static_cast<int64_t>(std::time(nullptr))},
          {"filename", filename},
          {"purpose", purpose},
          {"status", "processed"},
          {"owner", owner}};
}

// The metadata as shown to clients.
Json without_owner(Json metadata) {
  metadata.erase("owner");
  return metadata;
}

}  // namespace

Result<std::unique_ptr<FileStore>> FileStore::open(const std::string& folder, FileLimits limits) {
  std::unique_ptr<FileStore> store(new FileStore(folder, limits));
  if (!path_exists(folder)) return store;
  MAKAR_RETURN_IF_ERROR(store->lock());
  MAKAR_RETURN_IF_ERROR(store->load());
  return store;
}

FileStore::~FileStore() {
  if (lock_ >= 0) ::close(lock_);
}

Status FileStore::lock() {
  const std::string path = folder_ + "/lock";
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) return io_error(path, "open");
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return Done{};
  ::close(std::exchange(lock_, -1));
  return error_of(Error::Kind::kLimit, "`files`",
                  "another server uses this folder; give each server its own");
}

// Metadata is written first and deleted last, so metadata without data is an interrupted upload: delete it.
Status FileStore::load() {
  std::error_code failed;
  for (fs::directory_iterator it(folder_, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string path = it->path().string(), id = it->path().stem().string();
    if (!id.starts_with("file-") || it->path().extension() != ".json") continue;
    const auto metadata = read_json(path, {1 << 16, 8});
    if (!is_file(data_path(id))) {
      ::unlink(path.c_str());
    } else if (metadata.ok() && is_metadata(*metadata, id)) {
      bytes_ += (*metadata)["bytes"].get<size_t>();
      files_[id] = *metadata;
    }
  }
  if (failed) return error_of(Error::Kind::kIo, folder_, "{}", failed.message());
  return Done{};
}

Status FileStore::prepare() {
  const std::lock_guard guard(mutex_);
  if (lock_ >= 0) return Done{};
  MAKAR_RETURN_IF_ERROR(make_folder(folder_));
  if (::chmod(folder_.c_str(), 0700) != 0) return io_error(folder_, "set permissions");
  MAKAR_RETURN_IF_ERROR(lock());
  return load();
}

// Adds a file; `write_data` writes its bytes.
Status FileStore::insert(Json metadata, const std::function<Status()>& write_data) {
  const std::string id = metadata["id"];
  MAKAR_RETURN_IF_ERROR(write_file(metadata_path(id), dump(metadata)));
  if (const Status written = write_data(); !written.ok()) {
    ::unlink(metadata_path(id).c_str());
    return written.error();
  }
  bytes_ += metadata["bytes"].get<size_t>();
  files_[id] = std::move(metadata);
  return Done{};
}

Result<Json> FileStore::add(const std::string& owner, const std::string& filename, const std::string& purpose,
                            std::string_view bytes) {
  MAKAR_TRY(const std::string name, plain_name(filename));
  if (bytes.size() > limits_.bytes)
    return error_of(Error::Kind::kLimit, "file", "has {} bytes; the limit is {}", bytes.size(),
                    limits_.bytes);
  MAKAR_RETURN_IF_ERROR(prepare());
  const std::string id = new_id();
  {
    const std::lock_guard guard(mutex_);
    size_t own_files = 0, own_bytes = 0;
    for (const auto& [other, metadata] : files_)
      if (metadata["owner"] == Json(owner)) ++own_files, own_bytes += metadata["bytes"].get<size_t>();
    const size_t divisor = limits_.owner_divisor(owner);
    if (own_files >= limits_.files / divisor || own_bytes + bytes.size() > limits_.total_bytes / divisor)
      return error_of(Error::Kind::kLimit, "file",
                      "{} files of {} bytes are stored; the limits are {} files and {} bytes: delete some",
                      own_files, own_bytes, limits_.files / divisor, limits_.total_bytes / divisor);
    if (files_.size() >= limits_.files || bytes_ + bytes.size() > limits_.total_bytes)
      return error_of(Error::Kind::kLimit, "file",
                      "the server stores {} files of {} bytes and accepts no more", files_.size(), bytes_);
    MAKAR_RETURN_IF_ERROR(insert(metadata_of(owner, id, name, purpose, bytes.size()),
                                 [&] { return write_file(data_path(id), bytes); }));
  }
  return find(owner, id);
}

void FileStore::remove_orphans(const std::set<std::string>& ids) {
  std::vector<std::string> orphans;
  std::error_code failed;
  for (fs::directory_iterator it(folder_, failed), end; !failed && it != end; it.increment(failed)) {
    const fs::path& path = it->path();
    const bool part = path.extension() == ".part" && path.stem().string().starts_with("file-");
    const bool temporary = path.extension() == ".tmp";
    if (temporary || (part && !ids.contains(path.stem().string()))) orphans.push_back(path.string());
  }
  for (const std::string& path : orphans) ::unlink(path.c_str());
}

Status FileStore::adopt(const std::string& owner, const std::string& id, const std::string& filename,
                        const std::string& purpose) {
  const std::lock_guard guard(mutex_);
  if (files_.contains(id)) return Done{};
  std::error_code failed;
  const auto bytes = fs::file_size(part_path(id), failed);
  if (failed) return error_of(Error::Kind::kIo, part_path(id), "{}", failed.message());
  return insert(metadata_of(owner, id, filename, purpose, bytes), [&]() -> Status {
    if (::rename(part_path(id).c_str(), data_path(id).c_str()) != 0) return io_error(part_path(id), "move");
    return Done{};
  });
}

std::string FileStore::new_id() { return "file-" + random_id(); }

Result<Json> FileStore::find(const std::string& owner, const std::string& id) const {
  const std::lock_guard guard(mutex_);
  const auto it = files_.find(id);
  if (it == files_.end() || it->second["owner"] != Json(owner))
    return error_of(Error::Kind::kNotFound, "file_id", "file {} not found", quote(id));
  return without_owner(it->second);
}

Result<std::string> FileStore::path(const std::string& owner, const std::string& id) const {
  MAKAR_TRY(const Json metadata, find(owner, id));
  return data_path(metadata["id"].get<std::string>());
}

Status FileStore::remove(const std::string& owner, const std::string& id) {
  MAKAR_TRY(const Json metadata, find(owner, id));
  const std::lock_guard guard(mutex_);
  if (files_.erase(id) == 0) return Done{};
  bytes_ -= metadata["bytes"].get<size_t>();
  for (const std::string& path : {data_path(id), metadata_path(id)})
    if (::unlink(path.c_str()) != 0) return io_error(path, "delete");
  return Done{};
}

std::vector<Json> FileStore::list(const std::string& owner) const {
  std::vector<Json> out;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [id, metadata] : files_)
      if (metadata["owner"] == Json(owner)) out.push_back(without_owner(metadata));
  }
  sort_newest_first(out);
  return out;
}

void sort_newest_first(std::vector<Json>& objects) {
  std::stable_sort(objects.begin(), objects.end(), [](const Json& a, const Json& b) {
    return a["created_at"].get<int64_t>() > b["created_at"].get<int64_t>();
  });
}

}  // namespace makar
