// Status routes: health, models, counters.
#include "base/quote.h"
#include "serve/api/fields.h"
#include "serve/service.h"

namespace makar {

void Service::health(Call& call) {
  const double seconds = registry_.seconds_in_step();
  if (seconds < options_.hung_after) return answer(call, {{"status", "ok"}});
  call.reply->send(broken(503, fmt::format("the engine has been in one step for {:.0f} seconds", seconds)));
}

void Service::ready(Call& call) {
  if (!draining_) return answer(call, {{"status", "ready"}});
  call.reply->send(broken(503, "the server is stopping"));
}

void Service::models(Call& call) {
  const std::string prefix = "/v1/models/";
  const bool one = call.request.path.starts_with(prefix);
  const std::string asked = one ? call.request.path.substr(prefix.size()) : "";
  Json list = Json::array();
  for (const ModelState& state : registry_.list()) {
    const auto add = [&](const std::string& name, const Json& parent) {
      if (one && name != asked && name + ":latest" != asked) return;
      Json model = {{"id", name},
                    {"object", "model"},
                    {"created", created_},
                    {"owned_by", "makar"},
                    {"root", state.entry->name},
                    {"parent", parent},
                    {"loaded", state.active != nullptr},
                    {"generates", state.entry->generates}};
      if (state.active) model["max_model_len"] = state.active->served.context_limit();
      list.push_back(std::move(model));
    };
    add(state.entry->name, nullptr);
    for (const std::string& adapter : state.entry->adapters) add(adapter, state.entry->name);
  }
  if (!one) return answer(call, {{"object", "list"}, {"data", std::move(list)}});
  if (!list.empty()) return answer(call, list[0]);
  fail(call, Dialect::kOpenAi,
       error_of(Error::Kind::kNotFound, "model", "{} is not served here", quote(asked)));
}

void Service::counters(Call& call) {
  HttpResponse response;
  response.type = "text/plain; version=0.0.4";
  response.body = metrics_.text(registry_.state(), gate_.inside());
  call.reply->send(std::move(response));
}

}  // namespace makar
