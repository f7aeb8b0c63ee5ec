// Health, readiness and counters.
#include "serve/routes/handlers.h"

namespace makar::routes {
namespace {

HttpResponse unavailable(std::string why) {
  ApiError error{503, std::move(why), "server_error"};
  error.retry_after = 1;
  return error_response(Dialect::kOpenAi, error);
}

}  // namespace

void health(ServeContext& server, Call& call) {
  const double seconds = server.registry.seconds_in_step();
  if (seconds < server.options.hung_after) return send_json(call, {{"status", "ok"}});
  call.reply->send(unavailable(fmt::format("the engine has been in one step for {:.0f} seconds", seconds)));
}

void ready(ServeContext& server, Call& call) {
  if (!server.draining) return send_json(call, {{"status", "ready"}});
  call.reply->send(unavailable("the server is stopping"));
}

void metrics(ServeContext& server, Call& call) {
  HttpResponse response;
  response.type = "text/plain; version=0.0.4";
  response.body = server.metrics.text(server.registry.state(), server.gate.in_flight(),
                                      server.access.may_see_all(call.request)
                                          ? std::nullopt
                                          : std::optional(server.access.caller(call.request)));
  call.reply->send(std::move(response));
}

}  // namespace makar::routes
