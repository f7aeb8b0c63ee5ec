// Routes of the web page: assets, stored data, model internals, engine state.
#include "base/resident.h"
#include "serve/api/fields.h"
#include "serve/page/assets.h"
#include "serve/page/look.h"
#include "serve/service.h"

namespace makar {

void Service::page_files(Call& call) { call.reply->send(page_file(call.request)); }

void Service::page(Call& call) {
  if (call.request.path.starts_with("/makar/runs") && !access_.sees_all(call.request)) {
    const ApiError error{
        403,
        "training runs belong to the whole server; with several keys, only those marked admin "
        "in the key file see them",
        "permission_error", std::nullopt, "admin_only"};
    return call.reply->send(error_response(Dialect::kOpenAi, error));
  }
  const auto needed = page_.memory_of(call.request, call.owner);
  const Status fits = needed.ok() ? call.reply->take_memory(*needed, "the conversation") : needed.error();
  if (!fits.ok()) return fail(call, Dialect::kOpenAi, fits.error());
  auto response = page_.answer(call.request, call.owner);
  if (!response.ok()) return fail(call, Dialect::kOpenAi, response.error());
  response->headers.emplace_back("cache-control", "no-store");
  response->headers.emplace_back("x-content-type-options", "nosniff");
  if (response->more)
    response->more = [this, source = std::move(response->more)](const GivePiece& give) {
      const bool posted = workers_.post([source, give] {
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

void Service::look(Call& call) {
  const auto asked = [&]() -> Result<LookRequest> {
    MAKAR_TRY(LookRequest request, read_look(call.body));
    MAKAR_CHECK_OK(prepare_look(request, call.model.served()));
    return request;
  }();
  if (!asked.ok()) return fail(call, Dialect::kOpenAi, asked.error());
  const auto held = std::make_shared<Call>(std::move(call));
  held->reply->count(static_cast<int64_t>(asked->source.size() + asked->target.size()), 0);
  WorkItem item;
  item.caller = access_.caller(held->request), item.cancelled = held->gone;
  const auto send = [this, held](Result<Json> found) {
    if (!found.ok()) return fail(*held, Dialect::kOpenAi, found.error());
    answer(*held, *found);
  };
  if (!looks_.post(std::move(item), *asked, held->model.served(), held->model.adapter, send))
    send(error_of(Error::Kind::kLimit, "time", "too many looks inside are waiting; try again later"));
}

void Service::engine(Call& call) {
  const EngineState engine = registry_.state();
  const auto [prompt, written] = metrics_.tokens_so_far();
  const ResidentMemory memory = resident_memory();
  Json sequences = Json::array();
  if (access_.sees_all(call.request))  // other callers' sequences are private
    for (const EngineSequence& s : engine.sequences) sequences.push_back({s.tokens, s.cached, s.pages});
  answer(call, {{"seconds",
                 std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()},
                {"prompt_tokens", prompt},
                {"written_tokens", written},
                {"requests", {{"inside", gate_.inside()}, {"places", gate_.places()}}},
                {"engine",
                 {{"tasks", engine.tasks},
                  {"steps", engine.steps},
                  {"rows", engine.rows},
                  {"reused", engine.reused},
                  {"preempted", engine.preempted},
                  {"pages", engine.pages},
                  {"max_pages", engine.max_pages},
                  {"prefix_pages", engine.prefix_pages},
                  {"page_tokens", KvCache::kPageRows},
                  {"sequences", std::move(sequences)}}},
                {"memory", {{"resident", memory.now}, {"peak", memory.peak}}}});
}

}  // namespace makar
