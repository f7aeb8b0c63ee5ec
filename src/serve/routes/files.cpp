// Routes for uploaded files and batches.
#include <fcntl.h>
#include <unistd.h>

#include "base/quote.h"
#include "serve/api/fields.h"
#include "serve/api/multipart.h"
#include "serve/service.h"

namespace makar {
namespace {

constexpr size_t kFormBytes = size_t{64} << 10;  // form overhead in addition to the file
constexpr size_t kPiece = size_t{256} << 10;
constexpr int64_t kMostListed = 10000;
constexpr std::chrono::hours kBatchTime{24};

// "/v1/files/file-1/content" -> {"file-1", "content"}
std::pair<std::string, std::string> below(const std::string& path, std::string_view root) {
  if (path.size() <= root.size()) return {};
  const std::string rest = path.substr(root.size());
  const size_t slash = rest.find('/');
  return {rest.substr(0, slash), slash == rest.npos ? "" : rest.substr(slash + 1)};
}

// The value of a key in "a=1&b=2"; no unescaping, the values here need none.
std::string query_value(const std::string& query, const std::string& key) {
  for (size_t at = 0; at < query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const std::string pair = query.substr(at, end - at);
    if (pair.starts_with(key + "=")) return pair.substr(key.size() + 1);
    at = end + 1;
  }
  return {};
}

// Pagination: `limit` entries after the one with id `after`.
Result<Json> page_of(std::vector<Json> all, const std::string& query, int64_t fallback) {
  const std::string limit = query_value(query, "limit"), after = query_value(query, "after");
  const bool digits = limit.size() <= 6 && limit.find_first_not_of("0123456789") == limit.npos;
  const int64_t most = limit.empty() ? fallback : digits ? std::stoll(limit) : -1;
  if (most < 1 || most > kMostListed)
    return error_at("limit", "must be 1 to {}, got {}", kMostListed, quote(limit));
  if (query_value(query, "order") == "asc") std::reverse(all.begin(), all.end());
  size_t from = 0;
  if (!after.empty()) {
    while (from < all.size() && all[from]["id"] != Json(after)) ++from;
    if (from == all.size()) return error_of(Error::Kind::kNotFound, "after", "there is no {}", quote(after));
    ++from;
  }
  const size_t to = std::min(all.size(), from + static_cast<size_t>(most));
  Json data = Json::array();
  for (size_t i = from; i < to; ++i) data.push_back(std::move(all[i]));
  const Json first = data.empty() ? Json() : data.front()["id"],
             last = data.empty() ? Json() : data.back()["id"];
  return Json{{"object", "list"},
              {"data", std::move(data)},
              {"first_id", first},
              {"last_id", last},
              {"has_more", to < all.size()}};
}

// A response that streams the file from disk.
Result<HttpResponse> content_of(const std::string& path, size_t bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error(path, "open");
  const std::shared_ptr<void> held(nullptr, [fd](void*) { ::close(fd); });
  HttpResponse response;
  response.type = "application/octet-stream", response.more_bytes = bytes;
  response.more = [held, fd](const GivePiece& give) {
    std::string piece(kPiece, '\0');
    const ssize_t n = ::read(fd, piece.data(), piece.size());
    if (n < 0) return give(std::nullopt);
    piece.resize(static_cast<size_t>(n));
    give(std::move(piece));
  };
  return response;
}

Error no_such_thing(const char* what) {
  return error_of(Error::Kind::kNotFound, "path", "there is no such thing below {}", what);
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
  if (!file || !file->filename) return error_at("file", "is missing: a part of the form with a filename");
  if (!is_purpose(purpose))
    return error_at("purpose", "expected batch, fine-tune, assistants, user_data, evals or vision, got {}",
                    quote(purpose));
  return std::pair{*file, purpose};
}

}  // namespace

size_t Service::max_body(const HttpRequest& head) {
  const bool upload = options_.files && head.method == "POST" && head.path == "/v1/files";
  return upload ? options_.files->limits().bytes + kFormBytes : 0;
}

std::chrono::seconds Service::time_of(const Call& call) const {
  return call.background ? kBatchTime : options_.time;
}

void Service::add_file(Call& call) {
  const auto added = [&]() -> Result<Json> {
    if (!options_.files) return error_of(Error::Kind::kUnsupported, "files", "{}", options_.no_files);
    MAKAR_TRY(const auto upload, read_upload(call.request));
    return options_.files->add(call.owner, *upload.first.filename, upload.second, upload.first.data);
  }();
  call.request.body = {};
  if (!added.ok()) return fail(call, Dialect::kOpenAi, added.error());
  answer(call, *added);
}

void Service::files(Call& call) {
  const auto [id, what] = below(call.request.path, "/v1/files/");
  const auto found = [&, id = id, what = what]() -> Result<HttpResponse> {
    if (!options_.files) return error_of(Error::Kind::kUnsupported, "files", "{}", options_.no_files);
    FileStore& store = *options_.files;
    Json out;
    if (id.empty() && what.empty()) {
      const std::string purpose = query_value(call.request.query, "purpose");
      std::vector<Json> all = store.list(call.owner);
      if (!purpose.empty())
        std::erase_if(all, [&](const Json& facts) { return facts["purpose"] != Json(purpose); });
      MAKAR_TRY(out, page_of(std::move(all), call.request.query, kMostListed));
    } else if (call.request.method == "DELETE") {
      if (!what.empty()) return no_such_thing("a file");
      if (batches_->reads(id)) return error_at("file_id", "a batch reads the file; cancel the batch first");
      MAKAR_CHECK_OK(store.remove(call.owner, id));
      out = {{"id", id}, {"object", "file"}, {"deleted", true}};
    } else {
      MAKAR_TRY(out, store.find(call.owner, id));
      if (what == "content") {
        MAKAR_TRY(const std::string path, store.path(call.owner, id));
        return content_of(path, out["bytes"].get<size_t>());
      }
      if (!what.empty()) return no_such_thing("a file");
    }
    return HttpResponse{200, dump(out) + "\n"};
  }();
  if (!found.ok()) return fail(call, Dialect::kOpenAi, found.error());
  call.reply->send(*found);
}

void Service::add_batch(Call& call) {
  const auto created = [&]() -> Result<Json> {
    if (!options_.files) return error_of(Error::Kind::kUnsupported, "files", "{}", options_.no_files);
    MAKAR_TRY(const Json body, read_body(call.request.body));
    return batches_->create(call.owner, body);
  }();
  if (!created.ok()) return fail(call, Dialect::kOpenAi, created.error());
  runner_->wake();
  answer(call, *created);
}

void Service::batches(Call& call) {
  const auto [id, what] = below(call.request.path, "/v1/batches/");
  const bool cancel = call.request.method == "POST";
  const auto found = [&, id = id, what = what]() -> Result<Json> {
    if (!options_.files) return error_of(Error::Kind::kUnsupported, "files", "{}", options_.no_files);
    if (what != (cancel ? "cancel" : "")) return no_such_thing("a batch");
    if (cancel) return batches_->cancel(call.owner, id);
    if (!id.empty()) return batches_->find(call.owner, id);
    return page_of(batches_->list(call.owner), call.request.query, 20);
  }();
  if (!found.ok()) return fail(call, Dialect::kOpenAi, found.error());
  if (cancel) runner_->wake();
  answer(call, *found);
}

// A batch line is an ordinary request that does not occupy a gate slot.
void Service::send_line(const BatchRecord& record, const Json& body, std::shared_ptr<HttpReply> reply) {
  HttpRequest request;
  request.method = "POST", request.path = record.batch["endpoint"], request.body = dump(body);
  request.remote = "batch " + record.owner;
  bool known = false;
  const Route* route = find(request, known);
  check(route && (route->kind == Kind::kWrite || route->kind == Kind::kModel || route->kind == Kind::kClass),
        "the endpoint of a batch is a route that reads JSON and runs a model");
  auto logged = std::make_shared<LoggedReply>(std::move(reply), request, route->path, request_id(request),
                                              metrics_, options_.log, memory_);
  auto call = std::make_shared<Call>();
  call->request = std::move(request), call->reply = std::move(logged);
  call->owner = record.owner, call->background = true;
  post(*route, call, call->request.body.size(), [this, route, call](Call&) { admitted(*route, call); });
}

}  // namespace makar
