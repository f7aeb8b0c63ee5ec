// Routes of the web page: assets, stored data, model internals, engine state.
#include "base/resident.h"
#include "serve/api/fields.h"
#include "serve/dispatch.h"
#include "serve/page/assets.h"
#include "serve/routes/handlers.h"

namespace makar::routes {

void page_asset(ServeContext& server, Call& call) { call.reply->send(page_file(call.request)); }

void page_data(ServeContext& server, Call& call) {
  const std::string& path = call.request.path;
  const bool server_wide = path.starts_with("/makar/runs") || path.starts_with("/makar/results") ||
                           path.starts_with("/makar/agents") ||
                           (path.starts_with("/makar/ratings/") &&
                            (path.ends_with("/report") || path.ends_with("/preferences.jsonl")));
  if (server_wide && !server.access.may_see_all(call.request)) {
    const ApiError error{
        403,
        "training runs, results, agents and reports of ratings belong to the whole server; only keys "
        "marked admin in the key file may see them",
        "permission_error", std::nullopt, "admin_only"};
    return call.reply->send(error_response(Dialect::kOpenAi, error));
  }
  const auto needed = server.page.memory_of(call.request, call.owner);
  const Status fits = needed.ok() ? call.reply->take_memory(*needed, "the conversation") : needed.error();
  if (!fits.ok()) return send_error(call, fits.error());
  auto response = server.page.answer(call.request, call.owner);
  if (!response.ok()) return send_error(call, response.error());
  response->headers.emplace_back("cache-control", "no-store");
  response->headers.emplace_back("x-content-type-options", "nosniff");
  if (response->body_source)
    response->body_source = [&server, source = std::move(response->body_source)](const GivePiece& give) {
      const bool posted = server.workers.post([source, give] {
        try {
          source(give);
        } catch (const std::exception&) {
          give(std::nullopt);
        }
      });
      if (!posted) give(std::nullopt);
    };
  call.reply->send(std::move(*response));
}

void look(ServeContext& server, Call& call) {
  const auto request = [&]() -> Result<LookRequest> {
    MAKAR_TRY(LookRequest out, read_look(call.body));
    MAKAR_RETURN_IF_ERROR(prepare_look(out, call.model.served()));
    return out;
  }();
  if (!request.ok()) return send_error(call, request.error());
  const auto shared_call = std::make_shared<Call>(std::move(call));
  shared_call->reply->count(static_cast<int64_t>(request->source.size() + request->target.size()), 0);
  WorkItem item;
  item.caller = server.access.caller(shared_call->request), item.cancelled = shared_call->disconnected;
  const auto send = [shared_call](Result<Json> result) {
    if (!result.ok()) return send_error(*shared_call, result.error());
    send_json(*shared_call, *result);
  };
  if (!server.looks.post(std::move(item), *request, shared_call->model.served(), shared_call->model.adapter,
                         &shared_call->model.loop(), send))
    send(error_of(Error::Kind::kLimit, "time", "too many inspection requests are waiting; try again later"));
}

void engine_state(ServeContext& server, Call& call) {
  const EngineState engine = server.registry.state();
  const auto [prompt, generated] = server.metrics.tokens_so_far();
  const ResidentMemory memory = resident_memory();
  Json sequences = Json::array();
  if (server.access.may_see_all(call.request))  // other callers' sequences are private
    for (const EngineSequence& s : engine.sequences) sequences.push_back({s.tokens, s.cached, s.pages});
  Json cost;  // of all callers, or of this caller if it may not see all
  if (server.options.prices) {
    const bool all = server.access.may_see_all(call.request);
    const Cost sum =
        server.metrics.charged(all ? std::nullopt : std::optional(server.access.caller(call.request)));
    cost = {{"money", sum.money}, {"currency", server.options.prices->currency}, {"joules", sum.joules}};
  }
  send_json(call,
            {{"seconds",
              std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()},
             {"prompt_tokens", prompt},
             {"generated_tokens", generated},
             {"requests", {{"in_flight", server.gate.in_flight()}, {"max_in_flight", server.gate.places()}}},
             {"engine",
              {{"tasks", engine.tasks},
               {"steps", engine.steps},
               {"rows", engine.rows},
               {"reused", engine.reused_tokens},
               {"preempted", engine.preemptions},
               {"pages", engine.pages},
               {"max_pages", engine.max_pages},
               {"prefix_pages", engine.prefix_pages},
               {"page_tokens", KvCache::kPageRows},
               {"sequences", std::move(sequences)}}},
             {"cost", std::move(cost)},
             {"memory", {{"resident", memory.now}, {"peak", memory.peak}}}});
}

}  // namespace makar::routes
