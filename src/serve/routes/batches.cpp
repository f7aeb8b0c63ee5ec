// Batches of requests.
#include "serve/api/fields.h"
#include "serve/routes/handlers.h"
#include "serve/routes/stored.h"

namespace makar::routes {

void create_batch(ServeContext& server, Call& call) {
  const auto created = [&]() -> Result<Json> {
    MAKAR_RETURN_IF_ERROR(files_enabled(server.options));
    MAKAR_TRY(const Json body, read_body(call.request.body));
    return server.batches->create(call.owner, body);
  }();
  if (!created.ok()) return send_error(call, created.error());
  server.batch_runner->wake();
  send_json(call, *created);
}

void batches(ServeContext& server, Call& call) {
  const auto [id, subresource] = below(call.request.path, "/v1/batches/");
  const bool cancel = call.request.method == "POST";
  const auto found = [&, id = id, subresource = subresource]() -> Result<Json> {
    MAKAR_RETURN_IF_ERROR(files_enabled(server.options));
    if (subresource != (cancel ? "cancel" : "")) return no_subresource("a batch");
    if (cancel) return server.batches->cancel(call.owner, id);
    if (!id.empty()) return server.batches->find(call.owner, id);
    return list_page(server.batches->list(call.owner), call.request.query, 20);
  }();
  if (!found.ok()) return send_error(call, found.error());
  if (cancel) server.batch_runner->wake();
  send_json(call, *found);
}

}  // namespace makar::routes
