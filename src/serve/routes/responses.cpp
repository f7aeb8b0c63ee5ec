// Stored responses: routes under /v1/responses/.
#include "serve/api/fields.h"
#include "serve/api/response_store.h"
#include "serve/service.h"

namespace makar {
namespace {

// "/v1/responses/resp_1/input_items" -> {"resp_1", "input_items"}
std::pair<std::string, std::string> parts_of(const std::string& path) {
  const std::string rest = path.substr(std::string_view("/v1/responses/").size());
  const size_t slash = rest.find('/');
  return {rest.substr(0, slash), slash == std::string::npos ? "" : rest.substr(slash + 1)};
}

}  // namespace

void Service::kept_response(Call& call) {
  const auto [id, what] = parts_of(call.request.path);
  const bool items = what == "input_items";
  if (!what.empty() && !items)
    return fail(
        call, Dialect::kOpenAi,
        error_of(Error::Kind::kNotFound, "path", "a response has input_items below it, nothing else"));
  const auto found = items ? responses_->input(call.owner, id) : responses_->response(call.owner, id);
  if (!found.ok()) return fail(call, Dialect::kOpenAi, found.error());
  HttpResponse response;
  response.body = dump(**found);
  if (items) response.body = "{\"object\":\"list\",\"data\":" + response.body + ",\"has_more\":false}";
  response.body += "\n";
  call.reply->send(std::move(response));
}

void Service::forget_response(Call& call) {
  const std::string id = parts_of(call.request.path).first;
  const Status gone = responses_->remove(call.owner, id);
  if (!gone.ok()) return fail(call, Dialect::kOpenAi, gone.error());
  answer(call, {{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace makar
