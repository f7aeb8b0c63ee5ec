#include "serve/service.h"

#include <algorithm>
#include <ctime>

#include "base/sha256.h"
#include "base/shown.h"
#include "serve/api/fields.h"
#include "serve/api/response_store.h"

namespace makar {
namespace {

constexpr int kWorkers = 2;
constexpr int64_t kBatchShare = 4, kMostBatchLines = 16;  // lines of batches for answers written at a time

// Takes as long whatever the key is: digests of one length are compared to their ends.
bool same_key(const std::string& digest, const std::string& given) {
  const std::string other = sha256_of(given);
  unsigned difference = digest.size() == other.size() ? 0 : 1;
  for (size_t i = 0; i < digest.size() && i < other.size(); ++i)
    difference |= static_cast<unsigned char>(digest[i]) ^ static_cast<unsigned char>(other[i]);
  return difference == 0;
}

std::string given_key(const HttpRequest& head) {
  const std::string bearer = head.header("authorization");
  if (bearer.size() > 7 && (bearer.starts_with("Bearer ") || bearer.starts_with("bearer ")))
    return bearer.substr(7);
  return head.header("x-api-key");
}

// "[::1]:8080" -> "::1"
std::string host_name(const std::string& host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

const std::vector<Service::Route>& Service::routes() {
  using S = Service;
  constexpr Dialect kO = Dialect::kOpenAi;
  static const std::vector<Route> table = {
      {"GET", "/health", kO, &S::health, nullptr, nullptr, true},
      {"GET", "/ready", kO, &S::ready, nullptr, nullptr, true},
      {"GET", "/metrics", kO, &S::counters},
      {"GET", "/v1/models", kO, &S::models},
      {"GET", "/v1/models/", kO, &S::models},
      {"POST", "/v1/chat/completions", kO, nullptr, read_chat_completion},
      {"POST", "/v1/completions", kO, nullptr, read_completion},
      {"POST", "/v1/responses", kO, nullptr, read_response},
      {"GET", "/v1/responses/", kO, &S::kept_response},
      {"DELETE", "/v1/responses/", kO, &S::forget_response},
      {"POST", "/v1/embeddings", kO, nullptr, nullptr, &S::embeddings},
      {"POST", "/v1/files", kO, nullptr, nullptr, nullptr, false, &S::add_file},
      {"GET", "/v1/files", kO, nullptr, nullptr, nullptr, false, &S::files},
      {"GET", "/v1/files/", kO, nullptr, nullptr, nullptr, false, &S::files},
      {"DELETE", "/v1/files/", kO, nullptr, nullptr, nullptr, false, &S::files},
      {"POST", "/v1/batches", kO, nullptr, nullptr, nullptr, false, &S::add_batch},
      {"GET", "/v1/batches", kO, nullptr, nullptr, nullptr, false, &S::batches},
      {"GET", "/v1/batches/", kO, nullptr, nullptr, nullptr, false, &S::batches},
      {"POST", "/v1/batches/", kO, nullptr, nullptr, nullptr, false, &S::batches},
      {"POST", "/v1/rerank", kO, nullptr, nullptr, &S::rerank},
      {"POST", "/rerank", kO, nullptr, nullptr, &S::rerank},
      {"POST", "/v1/moderations", kO, nullptr, nullptr, &S::moderations},
      {"POST", "/tokenize", kO, nullptr, nullptr, &S::tokenize},
      {"POST", "/detokenize", kO, nullptr, nullptr, &S::detokenize},
      {"POST", "/score", kO, nullptr, nullptr, &S::score},
      {"POST", "/v1/messages", Dialect::kAnthropic, nullptr, read_message},
      {"POST", "/v1/messages/count_tokens", Dialect::kAnthropic, nullptr, nullptr, &S::count_tokens},
      {"GET", "/api/tags", Dialect::kOllama, nullptr, nullptr, nullptr, false, &S::tags},
      {"GET", "/api/ps", Dialect::kOllama, nullptr, nullptr, nullptr, false, &S::loaded_tags},
      {"GET", "/api/version", Dialect::kOllama, &S::version},
      {"POST", "/api/show", Dialect::kOllama, nullptr, nullptr, &S::show},
      {"POST", "/api/chat", Dialect::kOllama, nullptr, read_ollama_chat},
      {"POST", "/api/generate", Dialect::kOllama, nullptr, read_ollama_generate},
      {"POST", "/api/embed", Dialect::kOllama, nullptr, nullptr, &S::ollama_embed},
  };
  return table;
}

const Service::Route* Service::find(const HttpRequest& request, bool& path_known) {
  path_known = false;
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  for (const Route& route : routes()) {
    const std::string_view path = route.path;
    const bool match = path.ends_with('/') ? request.path.starts_with(path) : request.path == path;
    if (!match) continue;
    path_known = true;
    if (method == route.method) return &route;
  }
  return nullptr;
}

Service::Service(ModelShelf& shelf, ServeOptions options)
    : shelf_(shelf),
      options_(std::move(options)),
      key_digest_(options_.key.empty() ? "" : sha256_of(options_.key)),
      created_(std::time(nullptr)),
      responses_(std::make_shared<ResponseStore>()),
      gate_(options_.parallel + options_.queue),
      workers_(kWorkers) {
  options_.key.clear();
  if (!options_.files) return;
  batches_.emplace(*options_.files);
  runner_ = std::make_unique<BatchRunner>(
      *options_.files, *batches_,
      [this](const std::string& path, const Json& body, std::shared_ptr<HttpReply> reply) {
        send_line(path, body, std::move(reply));
      },
      std::clamp<int64_t>(options_.parallel / kBatchShare, 1, kMostBatchLines));
}

// What is under way counts itself here when it ends: it is taken back while everything is there.
Service::~Service() {
  if (runner_) runner_->stop();
  workers_.stop();
  shelf_.close();
}

HttpResponse Service::broken(int status, const std::string& why) {
  ApiError error{status, why};
  if (status >= 500) error.type = "server_error";
  if (status == 503) error.retry_after = 1;
  return error_response(Dialect::kOpenAi, error);
}

std::optional<ApiError> Service::forbidden(const HttpRequest& head, const Route& route) const {
  if (!key_digest_.empty()) {
    if (route.open || same_key(key_digest_, given_key(head))) return std::nullopt;
    return ApiError{401, "a valid API key is needed: Authorization: Bearer KEY", "authentication_error",
                    std::nullopt, "invalid_api_key"};
  }
  // Without a key only this machine is served, and a page from elsewhere in its browser is not this machine.
  const std::string host = head.header("host"), origin = head.header("origin");
  if (!host.empty() && !is_loopback(host_name(host)))
    return ApiError{403, "without an API key the server answers to local names alone, not to " + shown(host),
                    "permission_error", std::nullopt, "forbidden_host"};
  if (!origin.empty() && !origin.ends_with("://" + host))
    return ApiError{403, "pages of other origins are not served without an API key", "permission_error",
                    std::nullopt, "forbidden_origin"};
  return std::nullopt;
}

ApiError Service::full() const {
  ApiError error{429, fmt::format("{} requests are waiting; try again later", gate_.inside()),
                 "rate_limit_error", std::nullopt, "queue_full"};
  error.retry_after = 1;
  return error;
}

std::optional<HttpResponse> Service::refuse(const HttpRequest& head) {
  bool known = false;
  const Route* route = find(head, known);
  std::optional<ApiError> error;
  if (!route) {
    static const Route closed{"", ""};
    error = forbidden(head, closed);
    if (!error && known)
      error = ApiError{405, fmt::format("{} is not allowed here", shown(head.method, 20)),
                       "invalid_request_error", std::nullopt, "method_not_allowed"};
    if (!error)
      error = ApiError{404, fmt::format("there is no {}", shown(head.path)), "invalid_request_error",
                       std::nullopt, "unknown_url"};
  } else if (!(error = forbidden(head, *route)) && route->admitted()) {
    if (draining_) {
      error = ApiError{503, "the server is stopping", "overloaded_error", std::nullopt, "stopping"};
      error->retry_after = 5;
    } else if (gate_.full()) {
      error = full();
    }
  }
  if (!error) return std::nullopt;
  metrics_.request(route ? route->path : "other", error->status, 0);
  HttpResponse out = error_response(route ? route->dialect : Dialect::kOpenAi, *error);
  const std::string id = request_id(head);
  out.headers.emplace_back("x-request-id", id);
  if (!route && known) {
    std::string allow;
    for (const Route& r : routes())
      if (head.path == r.path) allow += (allow.empty() ? "" : ", ") + std::string(r.method);
    if (!allow.empty()) out.headers.emplace_back("allow", allow);
  }
  if (options_.log)
    options_.log(dump({{"id", id},
                       {"remote", head.remote},
                       {"method", head.method.substr(0, 20)},
                       {"path", head.path.substr(0, 200)},
                       {"status", error->status}}));
  return out;
}

void Service::handle(HttpRequest request, std::shared_ptr<HttpReply> raw) {
  bool known = false;
  const Route* route = find(request, known);
  check(route != nullptr, "what has no route is refused before its body");
  const std::string id = request_id(request);
  auto reply =
      std::make_shared<LoggedReply>(std::move(raw), request, route->path, id, metrics_, options_.log);
  Call call{std::move(request), std::move(reply), {}};
  if (!route->admitted()) return (this->*route->handler)(call);
  call.ticket = gate_.enter();
  if (!call.ticket) return call.reply->send(error_response(route->dialect, full()));
  auto shared = std::make_shared<Call>(std::move(call));
  workers_.post([this, route, shared] {
    if (route->plain) return work(*route, *shared);
    admitted(*route, shared);
  });
}

// The body is read, then the model that it asks for is fetched, then the work begins.
void Service::admitted(const Route& route, const std::shared_ptr<Call>& call) {
  auto body = read_body(call->request.body);
  if (!body.ok()) return fail(*call, route.dialect, body.error());
  call->body = std::move(*body), call->request.body = {};
  const auto name = text_field(call->body, "model");
  if (!name.ok()) return fail(*call, route.dialect, name.error());
  const auto asked_on = std::this_thread::get_id();
  shelf_.ask(*name, [this, &route, call, asked_on](Result<ModelLease> model) {
    if (!model.ok()) return fail(*call, route.dialect, model.error());
    call->model = std::move(*model);
    if (std::this_thread::get_id() == asked_on) return work(route, *call);
    workers_.post([this, &route, call] { work(route, *call); });
  });
}

// Whatever happens in a request ends here.
void Service::work(const Route& route, Call& call) {
  try {
    if (route.plain)
      (this->*route.plain)(call);
    else if (route.reader)
      write(route, call);
    else
      (this->*route.worker)(call);
  } catch (const std::exception& e) {
    if (!call.reply) return;
    call.reply->failed(e.what());
    ApiError error{500, "internal error", "server_error"};
    call.reply->send(error_response(route.dialect, error));
  }
}

AskContext Service::context(const ModelLease& model) const {
  return {model.name,  options_.defaults, model.served().tokens, static_cast<int64_t>(std::time(nullptr)),
          random_id(), responses_};
}

void Service::write(const Route& route, Call& call) {
  const auto start = [&]() -> Status {
    const AskContext asked_in = context(call.model);
    MAKAR_TRY(Ask ask, route.reader(call.body, asked_in));
    ask.seed_given = ask.seed_given || options_.seed_given;
    ask.write.adapter = call.model.adapter, ask.write.priority = call.background ? -1 : 0;
    MAKAR_TRY(auto prompts, prepare(ask, call.model.served()));
    call.body = {};
    const auto time = time_of(call);
    Answering::start(std::move(ask), std::move(prompts), std::move(call.model), std::move(call.reply),
                     std::move(call.ticket), time);
    return Done{};
  };
  const Status started = start();
  if (started.ok() || !call.reply) return;
  fail(call, route.dialect, started.error());
}

void Service::answer(Call& call, const Json& body) const {
  HttpResponse response;
  response.body = dump(body) + "\n";
  call.reply->send(std::move(response));
}

void Service::health(Call& call) {
  const double seconds = shelf_.seconds_in_step();
  if (seconds < options_.hung_after) return answer(call, {{"status", "ok"}});
  call.reply->send(broken(503, fmt::format("the engine has been in one step for {:.0f} seconds", seconds)));
}

void Service::ready(Call& call) {
  if (!draining_) return answer(call, {{"status", "ready"}});
  call.reply->send(broken(503, "the server is stopping"));
}

void Service::models(Call& call) {
  const std::string prefix = "/v1/models/";
  const bool one = call.request.path.starts_with(prefix);
  const std::string asked = one ? call.request.path.substr(prefix.size()) : "";
  Json list = Json::array();
  for (const ShelfState& state : shelf_.list()) {
    const auto add = [&](const std::string& name, const Json& parent) {
      if (one && name != asked && name + ":latest" != asked) return;
      Json model = {{"id", name},
                    {"object", "model"},
                    {"created", created_},
                    {"owned_by", "makar"},
                    {"root", state.entry->name},
                    {"parent", parent},
                    {"loaded", state.active != nullptr}};
      if (state.active) model["max_model_len"] = state.active->served.context_limit();
      list.push_back(std::move(model));
    };
    add(state.entry->name, nullptr);
    for (const std::string& adapter : state.entry->adapters) add(adapter, state.entry->name);
  }
  if (!one) return answer(call, {{"object", "list"}, {"data", std::move(list)}});
  if (!list.empty()) return answer(call, list[0]);
  fail(call, Dialect::kOpenAi,
       error_of(Error::Kind::kNotFound, "model", "{} is not served here", shown(asked)));
}

void Service::counters(Call& call) {
  HttpResponse response;
  response.type = "text/plain; version=0.0.4";
  response.body = metrics_.text(shelf_.state(), gate_.inside());
  call.reply->send(std::move(response));
}

}  // namespace makar
