// OpenAI's responses: generation, and the stored ones below /v1/responses/.
#include "serve/api/fields.h"
#include "serve/api/response_store.h"
#include "serve/routes/generate.h"
#include "serve/routes/handlers.h"
#include "serve/routes/stored.h"

namespace makar::routes {
namespace {

constexpr std::string_view kRoot = "/v1/responses/";

}  // namespace

void create_response(ServeContext& server, Call& call) { generate_answer(server, call, read_response); }

void stored_response(ServeContext& server, Call& call) {
  const auto [id, subresource] = below(call.request.path, kRoot);
  const bool items = subresource == "input_items";
  if (!subresource.empty() && !items)
    return send_error(
        call, error_of(Error::Kind::kNotFound, "path", "the only resource below a response is input_items"));
  const auto found =
      items ? server.responses->input(call.owner, id) : server.responses->response(call.owner, id);
  if (!found.ok()) return send_error(call, found.error());
  HttpResponse response;
  response.body = dump(**found);
  if (items) response.body = "{\"object\":\"list\",\"data\":" + response.body + ",\"has_more\":false}";
  response.body += "\n";
  call.reply->send(std::move(response));
}

void delete_response(ServeContext& server, Call& call) {
  const std::string id = below(call.request.path, kRoot).first;
  const Status removed = server.responses->remove(call.owner, id);
  if (!removed.ok()) return send_error(call, removed.error());
  send_json(call, {{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace makar::routes
