// Fine-tuning jobs.
#include "serve/api/fields.h"
#include "serve/routes/handlers.h"
#include "serve/routes/stored.h"

namespace makar::routes {
namespace {

Status tuning_enabled(const ServeContext& server) {
  MAKAR_RETURN_IF_ERROR(files_enabled(server.options));
  if (server.tuning) return Done{};
  return error_of(Error::Kind::kUnsupported, "fine_tuning",
                  "the server does not accept fine-tuning jobs; start it with --fine-tuning");
}

}  // namespace

void create_tuning_job(ServeContext& server, Call& call) {
  const auto created = [&]() -> Result<Json> {
    MAKAR_RETURN_IF_ERROR(tuning_enabled(server));
    MAKAR_TRY(const Json body, read_body(call.request.body));
    return server.tuning->create(call.owner, body);
  }();
  created.ok() ? send_json(call, *created) : send_error(call, created.error());
}

void tuning_jobs(ServeContext& server, Call& call) {
  const auto [id, subresource] = below(call.request.path, "/v1/fine_tuning/jobs/");
  const auto found = [&, id = id, subresource = subresource]() -> Result<Json> {
    MAKAR_RETURN_IF_ERROR(tuning_enabled(server));
    if (call.request.method == "POST") {
      if (subresource != "cancel") return no_subresource("a fine-tuning job");
      return server.tuning->cancel(call.owner, id);
    }
    if (id.empty()) return list_page(server.tuning->list(call.owner), call.request.query, 20);
    if (subresource.empty()) return server.tuning->find(call.owner, id);
    if (subresource != "events" && subresource != "checkpoints") return no_subresource("a fine-tuning job");
    MAKAR_TRY(std::vector<Json> all, subresource == "events" ? server.tuning->events(call.owner, id)
                                                             : server.tuning->checkpoints(call.owner, id));
    return list_page(std::move(all), call.request.query, 20);
  }();
  found.ok() ? send_json(call, *found) : send_error(call, found.error());
}

}  // namespace makar::routes
