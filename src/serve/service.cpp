#include "serve/service.h"

#include "base/quote.h"
#include "serve/api/fields.h"
#include "serve/dispatch.h"
#include "serve/routes/table.h"

namespace makar {
namespace {

constexpr size_t kMaxFormOverheadBytes = size_t{64} << 10;  // of a form, in addition to the file

// The error format for a path without a route.
Dialect dialect_of(std::string_view path) {
  if (path.starts_with("/api/")) return Dialect::kOllama;
  return path.starts_with("/v1/messages") ? Dialect::kAnthropic : Dialect::kOpenAi;
}

ApiError queue_full(const Gate& gate, const std::string& caller) {
  ApiError error{429,
                 fmt::format("{} requests are in flight, {} of them yours; try again later", gate.in_flight(),
                             gate.in_flight(caller)),
                 "rate_limit_error", std::nullopt, "queue_full"};
  error.retry_after = 1;
  return error;
}

ApiError no_route(const HttpRequest& head, bool path_known) {
  if (path_known)
    return {405, fmt::format("{} is not allowed for {}", quote(head.method, 20), quote(head.path)),
            "invalid_request_error", std::nullopt, "method_not_allowed"};
  return {404, fmt::format("no route for {}", quote(head.path)), "invalid_request_error", std::nullopt,
          "unknown_url"};
}

// The error of a request that is refused by its headers; none if it is admitted.
std::optional<ApiError> refusal(ServeContext& server, const HttpRequest& head, const Route* route,
                                bool path_known) {
  if (auto error = server.access.forbidden(head, route && route->open())) return error;
  if (!route) return no_route(head, path_known);
  if (!route->admitted()) return std::nullopt;
  if (server.draining) {
    ApiError error{503, "the server is stopping", "overloaded_error", std::nullopt, "stopping"};
    error.retry_after = 5;
    return error;
  }
  const std::string caller = server.access.caller(head);
  if (!server.gate.admits(caller)) return queue_full(server.gate, caller);
  if (route->kind == RouteKind::kPage) return std::nullopt;
  return server.access.limits().take(caller);
}

}  // namespace

HttpResponse Service::error_reply(int status, const std::string& why) {
  ApiError error{status, why};
  if (status >= 500) error.type = "server_error";
  if (status == 503) error.retry_after = 1;
  return error_response(Dialect::kOpenAi, error);
}

size_t Service::max_body(const HttpRequest& head) {
  const FileStore* files = context_.options.files;
  const bool upload = files && head.method == "POST" && head.path == "/v1/files";
  return upload ? files->limits().bytes + kMaxFormOverheadBytes : 0;
}

std::optional<HttpResponse> Service::refuse(const HttpRequest& head) {
  bool path_known = false;
  const Route* route = find_route(head, path_known);
  if (auto answer = context_.access.preflight(head)) return answer;
  const auto error = refusal(context_, head, route, path_known);
  if (!error) return std::nullopt;
  context_.metrics.request(route ? route->path : "other", error->status, 0);
  HttpResponse out = error_response(route ? route->dialect : dialect_of(head.path), *error);
  const std::string id = request_id(head);
  out.headers.emplace_back("x-request-id", id);
  for (auto& header : context_.access.headers(head, error->status == 429))
    out.headers.push_back(std::move(header));
  if (!route && path_known) {
    std::string allow;
    for (const Route& r : route_table())
      if (head.path == r.path) allow += (allow.empty() ? "" : ", ") + std::string(r.method);
    if (!allow.empty()) out.headers.emplace_back("allow", allow);
  }
  if (context_.options.log)
    context_.options.log(dump({{"id", id},
                               {"remote", head.remote},
                               {"caller", context_.access.caller(head)},
                               {"method", head.method.substr(0, 20)},
                               {"path", head.path.substr(0, kMaxLoggedPathBytes)},
                               {"status", error->status}}));
  return out;
}

void Service::handle(HttpRequest request, std::shared_ptr<HttpReply> http_reply) {
  bool path_known = false;
  const Route* route = find_route(request, path_known);
  check(route != nullptr, "a request without a route is refused before its body is read");
  Access& access = context_.access;
  auto reply = std::make_shared<LoggedReply>(std::move(http_reply), request, route->path, request_id(request),
                                             context_.metrics, context_.options.log, context_.memory);
  reply->set_caller(access.caller(request), access.limits(), access.headers(request, route->admitted()));
  std::string owner = access.owner(request);
  Call call{std::move(request), route, std::move(reply), std::move(owner)};
  if (!route->admitted()) return route->handler(context_, call);
  const std::string caller = access.caller(call.request);
  call.ticket = context_.gate.enter(caller);
  if (!call.ticket)
    return call.reply->send(error_response(route->dialect, queue_full(context_.gate, caller)));
  const auto shared = std::make_shared<Call>(std::move(call));
  shared->reply->on_disconnect([disconnected = shared->disconnected] { *disconnected = true; });
  dispatch(context_, shared);
}

}  // namespace makar
