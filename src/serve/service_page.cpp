// Routes of the page: its files, what it keeps, what it looks at.
#include "base/resident.h"
#include "serve/api/fields.h"
#include "serve/page/assets.h"
#include "serve/page/look.h"
#include "serve/service.h"

namespace makar {

void Service::page_files(Call& call) { call.reply->send(page_file(call.request)); }

void Service::page(Call& call) {
  auto response = page_.answer(call.request, access_.owner(call.request));
  if (!response.ok()) return fail(call, Dialect::kOpenAi, response.error());
  response->headers.emplace_back("cache-control", "no-store");
  response->headers.emplace_back("x-content-type-options", "nosniff");
  call.reply->send(std::move(*response));
}

void Service::look(Call& call) {
  const auto asked = [&]() -> Result<LookAsk> {
    MAKAR_TRY(LookAsk ask, read_look(call.body));
    MAKAR_CHECK_OK(prepare_look(ask, call.model.served()));
    return ask;
  }();
  if (!asked.ok()) return fail(call, Dialect::kOpenAi, asked.error());
  const auto held = std::make_shared<Call>(std::move(call));
  held->reply->count(static_cast<int64_t>(asked->source.size() + asked->target.size()), 0);
  auto task = std::make_shared<LookTask>(*asked, held->model.served(), [this, held](Result<Json> found) {
    if (!found.ok()) return fail(*held, Dialect::kOpenAi, found.error());
    answer(*held, *found);
  });
  submit(std::move(task), *held);
}

void Service::engine(Call& call) {
  const EngineState engine = shelf_.state();
  const auto [prompt, written] = metrics_.tokens_so_far();
  const ResidentMemory memory = resident_memory();
  Json sequences = Json::array();
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
