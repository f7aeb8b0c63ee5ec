#include "serve/service.h"

#include <algorithm>
#include <ctime>

#include "base/shown.h"
#include "serve/api/fields.h"
#include "serve/api/response_store.h"

namespace makar {
namespace {

constexpr int kWorkers = 2;
constexpr int64_t kBatchShare = 4, kMostBatchLines = 16;  // lines of batches for answers written at a time

}  // namespace

Service::Service(ModelShelf& shelf, ServeOptions options)
    : shelf_(shelf),
      options_(std::move(options)),
      access_(std::move(options_.access)),
      created_(std::time(nullptr)),
      page_(options_.page),
      responses_(std::make_shared<ResponseStore>()),
      gate_(options_.parallel + options_.queue),
      workers_(kWorkers) {
  if (!options_.files) return;
  batches_.emplace(*options_.files);
  runner_ = std::make_unique<BatchRunner>(
      *options_.files, *batches_,
      [this](const BatchRecord& record, const Json& body, std::shared_ptr<HttpReply> reply) {
        send_line(record, body, std::move(reply));
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

ApiError Service::full() const {
  ApiError error{429, fmt::format("{} requests are waiting; try again later", gate_.inside()),
                 "rate_limit_error", std::nullopt, "queue_full"};
  error.retry_after = 1;
  return error;
}

std::optional<HttpResponse> Service::refuse(const HttpRequest& head) {
  bool known = false;
  const Route* route = find(head, known);
  if (auto answer = access_.preflight(head)) return answer;
  const std::string caller = access_.caller(head);
  std::optional<ApiError> error;
  if (!route) {
    error = access_.forbidden(head, false);
    if (!error && known)
      error = ApiError{405, fmt::format("{} is not allowed here", shown(head.method, 20)),
                       "invalid_request_error", std::nullopt, "method_not_allowed"};
    if (!error)
      error = ApiError{404, fmt::format("there is no {}", shown(head.path)), "invalid_request_error",
                       std::nullopt, "unknown_url"};
  } else if (!(error = access_.forbidden(head, route->open())) && route->admitted()) {
    if (draining_) {
      error = ApiError{503, "the server is stopping", "overloaded_error", std::nullopt, "stopping"};
      error->retry_after = 5;
    } else if (gate_.full()) {
      error = full();
    } else if (route->kind != Kind::kPage) {
      error = access_.limits().take(caller);
    }
  }
  if (!error) return std::nullopt;
  metrics_.request(route ? route->path : "other", error->status, 0);
  HttpResponse out = error_response(route ? route->dialect : Dialect::kOpenAi, *error);
  const std::string id = request_id(head);
  out.headers.emplace_back("x-request-id", id);
  for (auto& header : access_.headers(head, error->status == 429)) out.headers.push_back(std::move(header));
  if (!route && known) {
    std::string allow;
    for (const Route& r : routes())
      if (head.path == r.path) allow += (allow.empty() ? "" : ", ") + std::string(r.method);
    if (!allow.empty()) out.headers.emplace_back("allow", allow);
  }
  if (options_.log)
    options_.log(dump({{"id", id},
                       {"remote", head.remote},
                       {"caller", caller},
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
  reply->set_caller(access_.caller(request), access_.limits(), access_.headers(request, route->admitted()));
  std::string owner = access_.owner(request);
  Call call{std::move(request), std::move(reply), {}, std::move(owner)};
  if (!route->admitted()) return (this->*route->handler)(call);
  call.ticket = gate_.enter();
  if (!call.ticket) return call.reply->send(error_response(route->dialect, full()));
  auto shared = std::make_shared<Call>(std::move(call));
  workers_.post([this, route, shared] { guarded(*route, *shared, [&] { admitted(*route, shared); }); });
}

// The body is read, then the model that it asks for is fetched, then the work begins.
void Service::admitted(const Route& route, const std::shared_ptr<Call>& call) {
  if (route.kind == Kind::kWorker || route.kind == Kind::kPage) return work(route, *call);
  auto body = read_body(call->request.body);
  if (!body.ok()) return fail(*call, route.dialect, body.error());
  call->body = std::move(*body), call->request.body = {};
  auto name = text_field(call->body, "model");
  if (name.ok() && name->empty() && route.kind == Kind::kClass) {
    name = shelf_.classifier();
    if (name->empty())
      name = error_of(Error::Kind::kUnsupported, "model",
                      "no model here classifies texts; one is served beside others with --add-model");
  }
  if (!name.ok()) return fail(*call, route.dialect, name.error());
  const auto asked_on = std::this_thread::get_id();
  shelf_.ask(*name, [this, &route, call, asked_on](Result<ModelLease> model) {
    if (!model.ok()) return fail(*call, route.dialect, model.error());
    call->model = std::move(*model);
    if (std::this_thread::get_id() == asked_on) return work(route, *call);
    workers_.post([this, &route, call] { guarded(route, *call, [&] { work(route, *call); }); });
  });
}

void Service::work(const Route& route, Call& call) {
  if (route.reader)
    write(route, call);
  else
    (this->*route.handler)(call);
}

// Whatever happens in a request ends here.
void Service::guarded(const Route& route, Call& call, const std::function<void()>& step) {
  try {
    step();
  } catch (const std::exception& e) {
    if (!call.reply) return;
    call.reply->failed(e.what());
    ApiError error{500, "internal error", "server_error"};
    call.reply->send(error_response(route.dialect, error));
  }
}

AskContext Service::context(const Call& call) const {
  const ModelLease& model = call.model;
  return {model.name,
          options_.defaults,
          model.served().tokens,
          static_cast<int64_t>(std::time(nullptr)),
          random_id(),
          responses_,
          call.owner};
}

void Service::write(const Route& route, Call& call) {
  const auto start = [&]() -> Status {
    const AskContext asked_in = context(call);
    MAKAR_TRY(Ask ask, route.reader(call.body, asked_in));
    ask.seed_given = ask.seed_given || options_.seed_given;
    ask.write.adapter = call.model.adapter, ask.write.priority = call.background ? -1 : 0;
    ask.write.salt = access_.caller(call.request);  // nobody can probe another's prompts by their speed
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

}  // namespace makar
