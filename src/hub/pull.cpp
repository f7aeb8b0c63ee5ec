#include "hub/pull.h"

#include <openssl/evp.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/file.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "hub/http_client.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxListingBytes = size_t{64} << 20;

// The Git object id of a file: SHA-1 of "blob SIZE\0" and the content.
Result<std::string> git_sha1_of(const std::string& path) {
  MAKAR_TRY(const std::string bytes, read_file(path));
  const std::string head = fmt::format("blob {}", bytes.size()) + '\0';
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> sum(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (!sum || EVP_DigestInit_ex(sum.get(), EVP_sha1(), nullptr) != 1 ||
      EVP_DigestUpdate(sum.get(), head.data(), head.size()) != 1 ||
      EVP_DigestUpdate(sum.get(), bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(sum.get(), digest, &length) != 1)
    return error_of(Error::Kind::kIo, path, "SHA-1 is not available");
  std::string hex;
  for (unsigned i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

// Whether the file has the size and the checksum that the hub lists; values that it does not list are not
// checked.
Result<bool> is_complete(const std::string& path, const HubFile& file) {
  std::error_code code;
  const auto size = fs::file_size(path, code);
  if (code || (file.size > 0 && size != file.size)) return false;
  if (!file.sha256.empty()) {
    MAKAR_TRY(const std::string sum, sha256_of_file(path));
    return sum == file.sha256;
  }
  if (!file.git_sha1.empty()) {
    MAKAR_TRY(const std::string sum, git_sha1_of(path));
    return sum == file.git_sha1;
  }
  return true;
}

Status fetch_file(const std::string& url, const std::string& target, const HubFile& file,
                  const PullOptions& options) {
  MAKAR_RETURN_IF_ERROR(make_folder(fs::path(target).parent_path().string()));
  const std::string part = target + ".part";
  const auto progress = [&](uint64_t bytes) {
    return !options.progress || options.progress(file.path, bytes, file.size);
  };
  Status last_status = Done{};
  for (int attempt = 0; attempt < options.attempts; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(250 << attempt));
    std::error_code code;
    if (const auto size = fs::file_size(part, code); !code && file.size > 0 && size > file.size)
      fs::remove(part, code);
    last_status = http_download({url, options.token}, part, progress);
    if (!last_status.ok()) {
      if (last_status.error().kind != Error::Kind::kIo) return last_status;
      continue;
    }
    MAKAR_TRY(const bool complete, is_complete(part, file));
    if (!complete) {
      const auto size = fs::file_size(part, code);
      if (!code && size < file.size) {
        last_status = error_of(Error::Kind::kIo, url, "only {} of {} bytes were received", size, file.size);
        continue;
      }
      fs::remove(part, code);
      last_status =
          error_of(Error::Kind::kInvalid, url,
                   "the checksum does not match; the file was removed. Try again, or another mirror");
      continue;
    }
    fs::rename(part, target, code);
    if (code) return error_of(Error::Kind::kIo, target, "cannot be renamed: {}", code.message());
    return Done{};
  }
  return last_status;
}

// Percent-encodes a file name for a URL.
std::string percent_encoded(const std::string& path) {
  std::string out;
  for (const unsigned char c : path)
    out += std::isalnum(c) || std::string_view("-_.~/").find(static_cast<char>(c)) != std::string_view::npos
               ? std::string(1, static_cast<char>(c))
               : fmt::format("%{:02X}", c);
  return out;
}

Result<PullResult> pull_url(const HubSource& source, const std::string& folder, const PullOptions& options) {
  const std::string path = source.url.substr(0, source.url.find_first_of("?#"));
  const std::string name = path.substr(path.rfind('/') + 1);
  PullResult out;
  out.path = folder + "/" + name;
  HubFile file;
  file.path = name;
  PullOptions request_options = options;
  request_options.token.clear();  // the token belongs to the hub, not to other hosts
  if (is_file(out.path)) {
    out.present.push_back(name);
  } else {
    MAKAR_RETURN_IF_ERROR(fetch_file(source.url, out.path, file, request_options));
    out.downloaded.push_back(name);
  }
  std::error_code code;
  out.bytes = fs::file_size(out.path, code);
  return out;
}

}  // namespace

std::string offline_advice(const HubSource& source, const std::string& folder, const std::string& endpoint) {
  if (source.repository.empty())
    return fmt::format("Without a network: download the files on another machine and copy them to {}/",
                       folder);
  return fmt::format(
      "Without access to {}: set HF_ENDPOINT to a mirror or https_proxy to a proxy, or download the files of "
      "{} on another machine and copy them to {}",
      endpoint, source.repository, folder);
}

Result<PullResult> pull(const HubSource& source, const std::string& folder, const PullOptions& options) {
  if (!source.url.empty()) return pull_url(source, folder, options);
  const std::string kind = source.dataset ? "datasets" : "models";
  const std::string endpoint = source.endpoint.empty() ? options.endpoint : source.endpoint;
  // The token goes to the configured endpoint only.
  PullOptions request_options = options;
  if (endpoint != options.endpoint) request_options.token.clear();
  const std::string listing_url = fmt::format("{}/api/{}/{}/revision/{}?blobs=true", endpoint, kind,
                                              source.repository, percent_encoded(source.revision));
  auto response = http_get({listing_url, request_options.token}, kMaxListingBytes);
  if (!response.ok() && response.error().kind == Error::Kind::kNotFound)
    return error_of(Error::Kind::kNotFound, endpoint, "no {} {} with revision {}",
                    source.dataset ? "dataset" : "model", source.repository, source.revision);
  if (!response.ok()) return response.error();
  MAKAR_TRY(const HubListing listing, parse_listing(*response, listing_url));
  MAKAR_TRY(const std::vector<HubFile> files, choose_files(listing, source));
  const std::string revision = listing.commit.empty() ? source.revision : listing.commit;
  PullResult out;
  out.path = folder, out.commit = listing.commit;
  for (const HubFile& file : files) {
    const std::string target = folder + "/" + file.path;
    bool complete = false;
    if (is_file(target)) {
      MAKAR_TRY(complete, is_complete(target, file));
    }
    if (!complete) {
      const std::string url =
          fmt::format("{}{}/{}/resolve/{}/{}", endpoint, source.dataset ? "/datasets" : "", source.repository,
                      percent_encoded(revision), percent_encoded(file.path));
      MAKAR_RETURN_IF_ERROR(fetch_file(url, target, file, request_options));
    }
    (complete ? out.present : out.downloaded).push_back(file.path);
    std::error_code code;
    if (const auto size = fs::file_size(target, code); !code) out.bytes += size;
  }
  return out;
}

}  // namespace makar
