// Responses that are kept, under /v1/responses/.
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
  const auto found = [&, id = id, what = what]() -> Result<Json> {
    if (what.empty()) return responses_->response(call.owner, id);
    if (what != "input_items")
      return error_of(Error::Kind::kNotFound, "path", "a response has input_items below it, nothing else");
    MAKAR_TRY(Json items, responses_->input(call.owner, id));
    return Json{{"object", "list"}, {"data", std::move(items)}, {"has_more", false}};
  }();
  if (!found.ok()) return fail(call, Dialect::kOpenAi, found.error());
  answer(call, *found);
}

void Service::forget_response(Call& call) {
  const std::string id = parts_of(call.request.path).first;
  const Status gone = responses_->remove(call.owner, id);
  if (!gone.ok()) return fail(call, Dialect::kOpenAi, gone.error());
  answer(call, {{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace makar
