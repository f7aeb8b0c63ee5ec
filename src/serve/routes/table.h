// The route table: which handler answers which method and path, and what happens before it is called.
#pragma once
#include "serve/call.h"
#include "serve/serve_context.h"

namespace makar {

using RouteHandler = void (*)(ServeContext& server, Call& call);

// kOpen: on the server thread, no key needed. kImmediate: on the server thread. kWorker: on a worker. kPage:
// on a worker, exempt from rate limits because the page polls. kModel: on a worker, with parsed body and
// loaded model. kClassifier: as kModel; without a model in the body, the server's classifier.
enum class RouteKind { kOpen, kImmediate, kWorker, kPage, kModel, kClassifier };

struct Route {
  const char* method;
  const char* path;  // a trailing '/' matches all paths below
  RouteKind kind;
  RouteHandler handler;
  Dialect dialect = Dialect::kOpenAi;

  bool open() const { return kind == RouteKind::kOpen; }
  // Passes the gate and runs on a worker.
  bool admitted() const { return kind != RouteKind::kOpen && kind != RouteKind::kImmediate; }
  bool runs_model() const { return kind == RouteKind::kModel || kind == RouteKind::kClassifier; }
};

const std::vector<Route>& route_table();
// The route of a request, or null; `path_known`: the path exists, perhaps with other methods.
const Route* find_route(const HttpRequest& request, bool& path_known);

}  // namespace makar
