// Uploaded files.
#include <fcntl.h>
#include <unistd.h>

#include "base/quote.h"
#include "serve/api/fields.h"
#include "serve/api/multipart.h"
#include "serve/routes/handlers.h"
#include "serve/routes/stored.h"

namespace makar::routes {
namespace {

constexpr size_t kContentPieceBytes = size_t{256} << 10;

// A response that streams the file from disk.
Result<HttpResponse> content_of(const std::string& path, size_t bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error(path, "open");
  const std::shared_ptr<void> closer(nullptr, [fd](void*) { ::close(fd); });
  HttpResponse response;
  response.type = "application/octet-stream", response.body_source_bytes = bytes;
  response.body_source = [closer, fd](const GivePiece& give) {
    std::string piece(kContentPieceBytes, '\0');
    const ssize_t n = ::read(fd, piece.data(), piece.size());
    if (n < 0) return give(std::nullopt);
    piece.resize(static_cast<size_t>(n));
    give(std::move(piece));
  };
  return response;
}

bool is_purpose(const std::string& purpose) {
  for (const char* known : {"batch", "fine-tune", "assistants", "user_data", "evals", "vision"})
    if (purpose == known) return true;
  return false;
}

// The file and the purpose of an upload.
Result<std::pair<FormPart, std::string>> read_upload(const HttpRequest& request) {
  MAKAR_TRY(const std::string boundary, form_boundary(request.header("content-type")));
  MAKAR_TRY(const std::vector<FormPart> parts, read_form(request.body, boundary));
  std::optional<FormPart> file;
  std::string purpose;
  for (const FormPart& part : parts) {
    if (part.name == "file") file = part;
    if (part.name == "purpose") purpose = std::string(part.data.substr(0, 100));
  }
  if (!file || !file->filename)
    return error_at("file", "is missing; expected a part of the form with a file name");
  if (!is_purpose(purpose))
    return error_at("purpose", "expected batch, fine-tune, assistants, user_data, evals or vision, got {}",
                    quote(purpose));
  return std::pair{*file, purpose};
}

}  // namespace

void upload_file(ServeContext& server, Call& call) {
  const auto added = [&]() -> Result<Json> {
    MAKAR_RETURN_IF_ERROR(files_enabled(server.options));
    MAKAR_TRY(const auto upload, read_upload(call.request));
    return server.options.files->add(call.owner, *upload.first.filename, upload.second, upload.first.data);
  }();
  call.request.body = {};
  if (!added.ok()) return send_error(call, added.error());
  send_json(call, *added);
}

void files(ServeContext& server, Call& call) {
  const auto [id, subresource] = below(call.request.path, "/v1/files/");
  const auto found = [&, id = id, subresource = subresource]() -> Result<HttpResponse> {
    MAKAR_RETURN_IF_ERROR(files_enabled(server.options));
    FileStore& store = *server.options.files;
    Json out;
    if (id.empty() && subresource.empty()) {
      const std::string purpose = query_value(call.request.query, "purpose").value_or("");
      std::vector<Json> all = store.list(call.owner);
      if (!purpose.empty())
        std::erase_if(all, [&](const Json& metadata) { return metadata["purpose"] != Json(purpose); });
      MAKAR_TRY(out, list_page(std::move(all), call.request.query, kMaxListed));
    } else if (call.request.method == "DELETE") {
      if (!subresource.empty()) return no_subresource("a file");
      if (server.batches->uses_file(id))
        return error_at("file_id", "a batch reads the file; cancel the batch first");
      MAKAR_RETURN_IF_ERROR(store.remove(call.owner, id));
      out = {{"id", id}, {"object", "file"}, {"deleted", true}};
    } else {
      MAKAR_TRY(out, store.find(call.owner, id));
      if (subresource == "content") {
        MAKAR_TRY(const std::string path, store.path(call.owner, id));
        return content_of(path, out["bytes"].get<size_t>());
      }
      if (!subresource.empty()) return no_subresource("a file");
    }
    return HttpResponse{200, dump(out) + "\n"};
  }();
  if (!found.ok()) return send_error(call, found.error());
  call.reply->send(*found);
}

}  // namespace makar::routes
