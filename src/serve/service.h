// The service: admits requests by their headers and passes them to their routes (routes/table.h). Health and
// counters are answered on the server thread; everything else is parsed by the workers and computed by the
// engine thread.
#pragma once
#include "serve/serve_context.h"

namespace makar {

class Service : public HttpHandler {
 public:
  // The registry must outlive the service.
  Service(ModelRegistry& registry, ServeOptions options) : context_(registry, std::move(options)) {}

  std::optional<HttpResponse> refuse(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) override;
  HttpResponse error_reply(int status, const std::string& why) override;
  void drain() { context_.draining = true; }  // /ready fails from now on
  std::string caller(const HttpRequest& head) override { return context_.access.caller(head); }
  size_t max_body(const HttpRequest& head) override;
  Status open_store() { return context_.page.open_store(); }  // eagerly, to report errors at startup

 private:
  ServeContext context_;
};

}  // namespace makar
