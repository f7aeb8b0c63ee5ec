#include "hub/http_client.h"

#include <curl/curl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/file.h"

namespace makar {
namespace {

constexpr long kConnectSeconds = 20, kStallSeconds = 60, kMaxRedirects = 10;

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
using CurlHandle = std::unique_ptr<CURL, CurlDeleter>;

Result<CurlHandle> make_handle(const HttpClientRequest& request, char* message) {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  CurlHandle handle(ready ? curl_easy_init() : nullptr);
  if (!handle) return error_of(Error::Kind::kIo, request.url, "libcurl cannot be initialised");
  CURL* curl = handle.get();
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, request.redirects ? 1L : 0L);
  if (request.seconds > 0) curl_easy_setopt(curl, CURLOPT_TIMEOUT, static_cast<long>(request.seconds));
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kMaxRedirects);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "makar");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
  if (!request.token.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, request.token.c_str());
  }
  return handle;
}

Error status_error(const HttpClientRequest& request, long status) {
  if (status == 404) return error_of(Error::Kind::kNotFound, request.url, "does not exist (status 404)");
  if (status == 401 || status == 403)
    return error_of(Error::Kind::kUnsupported, request.url, "access is denied (status {}); {}", status,
                    request.token.empty()
                        ? "if it is private or has terms to accept, set HF_TOKEN to an access token"
                        : "the token of HF_TOKEN does not give access");
  return error_of(Error::Kind::kIo, request.url, "the server answered with status {}", status);
}

Error transfer_error(const HttpClientRequest& request, CURLcode code, const char* message) {
  return error_of(Error::Kind::kIo, request.url, "{}", message[0] ? message : curl_easy_strerror(code));
}

struct MemoryTarget {
  std::string body;
  size_t limit;
};

size_t add_to_memory(char* data, size_t, size_t size, void* target) {
  auto& memory = *static_cast<MemoryTarget*>(target);
  if (memory.body.size() + size > memory.limit) return 0;
  memory.body.append(data, size);
  return size;
}

// Runs the request with `memory` as the target of the body.
Status receive(CURL* curl, const HttpClientRequest& request, MemoryTarget& memory, const char* message) {
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, add_to_memory);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &memory);
  const CURLcode code = curl_easy_perform(curl);
  if (code == CURLE_WRITE_ERROR)
    return error_of(Error::Kind::kLimit, request.url, "the response has more than {} bytes", memory.limit);
  if (code != CURLE_OK) return transfer_error(request, code, message);
  return Done{};
}

struct FileTarget {
  CURL* curl;
  std::FILE* file;
  uint64_t resumed = 0, bytes = 0;  // size of the file at the start, and now
  bool started = false, write_ok = true, cancelled = false;
  const std::function<bool(uint64_t)>& progress;
};

size_t add_to_file(char* data, size_t, size_t size, void* target) {
  auto& t = *static_cast<FileTarget*>(target);
  long status = 0;
  curl_easy_getinfo(t.curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200 && status != 206) return size;  // ignore the body of an error
  if (!t.started) {
    t.started = true;
    if (status == 200 && t.resumed > 0) {  // the server does not resume: it sends the whole file
      if (std::fseek(t.file, 0, SEEK_SET) != 0 || ftruncate(fileno(t.file), 0) != 0)
        return t.write_ok = false, 0;
      t.bytes = 0;
    }
  }
  if (std::fwrite(data, 1, size, t.file) != size) return t.write_ok = false, 0;
  t.bytes += size;
  if (t.progress && !t.progress(t.bytes)) return t.cancelled = true, 0;
  return size;
}

}  // namespace

Result<std::string> http_get(const HttpClientRequest& request, size_t limit) {
  char message[CURL_ERROR_SIZE] = "";
  MAKAR_TRY(const CurlHandle handle, make_handle(request, message));
  MemoryTarget memory{{}, limit};
  MAKAR_RETURN_IF_ERROR(receive(handle.get(), request, memory, message));
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status != 200) return status_error(request, status);
  return std::move(memory.body);
}

Result<HttpClientResponse> http_post_json(const HttpClientRequest& request, const std::string& body,
                                          size_t limit, int64_t seconds) {
  char message[CURL_ERROR_SIZE] = "";
  MAKAR_TRY(const CurlHandle handle, make_handle(request, message));
  MemoryTarget memory{{}, limit};
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"), &curl_slist_free_all);
  curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle.get(), CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(handle.get(), CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle.get(), CURLOPT_LOW_SPEED_TIME,
                   static_cast<long>(seconds));  // generating text may take long
  MAKAR_RETURN_IF_ERROR(receive(handle.get(), request, memory, message));
  HttpClientResponse out;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &out.status);
  out.body = std::move(memory.body);
  return out;
}

Status http_download(const HttpClientRequest& request, const std::string& path,
                     const std::function<bool(uint64_t)>& progress) {
  char message[CURL_ERROR_SIZE] = "";
  MAKAR_TRY(const CurlHandle handle, make_handle(request, message));
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), missing ? "wb" : "r+b"),
                                                             &std::fclose);
  if (!file || std::fseek(file.get(), 0, SEEK_END) != 0) return io_error(path, "open");
  FileTarget target{handle.get(), file.get(), missing ? 0 : size, missing ? 0 : size, false, true,
                    false,        progress};
  curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, add_to_file);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &target);
  const std::string range = fmt::format("{}-", target.resumed);
  if (target.resumed > 0) curl_easy_setopt(handle.get(), CURLOPT_RANGE, range.c_str());
  const CURLcode code = curl_easy_perform(handle.get());
  if (!target.write_ok) return io_error(path, "write");
  if (std::fflush(file.get()) != 0 || fsync(fileno(file.get())) != 0) return io_error(path, "write");
  if (target.cancelled) return error_of(Error::Kind::kIo, request.url, "the download was cancelled");
  if (code != CURLE_OK) return transfer_error(request, code, message);
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status == 416) return Done{};  // the file is already complete; the caller verifies it
  if (status != 200 && status != 206) return status_error(request, status);
  return Done{};
}

}  // namespace makar
