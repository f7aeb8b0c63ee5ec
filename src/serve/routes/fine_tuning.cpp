// Fine-tuning jobs and their models.
#include <algorithm>

#include "base/quote.h"
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

// Whether the program's command line names the model, so that no request can delete it.
bool is_on_command_line(const ServeContext& server, const std::string& name) {
  for (const ModelState& state : server.registry.list()) {
    if (!state.entry->adapter_folder.empty()) continue;
    const auto& adapters = state.entry->adapters;
    if (state.entry->name == name || std::find(adapters.begin(), adapters.end(), name) != adapters.end())
      return true;
  }
  for (const auto& collection : server.options.collections)
    if (collection->name() == name) return true;
  return false;
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
    if (id.empty() && subresource.empty())
      return list_page(server.tuning->list(call.owner), call.request.query, 20);
    if (subresource.empty()) return server.tuning->find(call.owner, id);
    if (subresource != "events" && subresource != "checkpoints") return no_subresource("a fine-tuning job");
    MAKAR_TRY(std::vector<Json> all, subresource == "events" ? server.tuning->events(call.owner, id)
                                                             : server.tuning->checkpoints(call.owner, id));
    return list_page(std::move(all), call.request.query, 20);
  }();
  found.ok() ? send_json(call, *found) : send_error(call, found.error());
}

void delete_model(ServeContext& server, Call& call) {
  const std::string name =
      unescaped(std::string_view(call.request.path).substr(std::string_view("/v1/models/").size()));
  const auto deleted = [&]() -> Status {
    if (is_on_command_line(server, name))
      return error_of(Error::Kind::kUnsupported, "model",
                      "{} is a model of the server's command line; only fine-tuned models can be deleted",
                      quote(name));
    MAKAR_RETURN_IF_ERROR(tuning_enabled(server));
    return server.tuning->delete_model(call.owner, name);
  }();
  if (!deleted.ok()) return send_error(call, deleted.error());
  send_json(call, {{"id", name}, {"object", "model"}, {"deleted", true}});
}

}  // namespace makar::routes
