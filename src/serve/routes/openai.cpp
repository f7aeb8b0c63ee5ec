// OpenAI's completions and list of models.
#include "base/quote.h"
#include "serve/routes/generate.h"
#include "serve/routes/handlers.h"
#include "serve/routes/stored.h"

namespace makar::routes {

void list_models(ServeContext& server, Call& call) {
  const std::string prefix = "/v1/models/";
  const bool single = call.request.path.starts_with(prefix);
  const std::string requested_name = single ? unescaped(call.request.path.substr(prefix.size())) : "";
  Json list = Json::array();
  for (const ModelState& state : server.registry.list()) {
    const auto add = [&](const std::string& name, const Json& parent) {
      if (single && name != requested_name && name + ":latest" != requested_name) return;
      Json model = {{"id", name},
                    {"object", "model"},
                    {"created", server.created},
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
    if (state.entry->name != server.registry.first()) continue;
    for (const auto& collection : server.options.collections) {
      const size_t size_before = list.size();
      add(collection->name(), state.entry->name);
      if (list.size() > size_before) list.back()["collection"] = true;
    }
  }
  if (!single) return send_json(call, {{"object", "list"}, {"data", std::move(list)}});
  if (!list.empty()) return send_json(call, list[0]);
  send_error(call, error_of(Error::Kind::kNotFound, "model", "{} is not served here", quote(requested_name)));
}

void chat_completion(ServeContext& server, Call& call) {
  if (call.collection) return answer_from_collection(server, call);
  generate_answer(server, call, read_chat_completion);
}

void completion(ServeContext& server, Call& call) { generate_answer(server, call, read_completion); }

}  // namespace makar::routes
