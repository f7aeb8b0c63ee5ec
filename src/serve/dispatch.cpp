#include "serve/dispatch.h"

#include <thread>

#include "base/quote.h"
#include "serve/api/fields.h"
#include "serve/routes/table.h"

namespace makar {
namespace {

constexpr std::chrono::seconds kPreparationTimeLimit{30};
constexpr std::chrono::hours kBatchLineTimeLimit{24};
// Temporary memory per body byte during tokenization: copies of texts, characters, 8-byte ids.
constexpr int64_t kMemoryPerByte = 24;

// An exception ends only its own request. Its text names source locations, so it goes only to the log.
void guarded(Call& call, const std::function<void()>& step) {
  try {
    step();
  } catch (const std::exception& e) {
    if (!call.reply) return;
    call.reply->failed(e.what());
    ApiError error{500, "internal error", "server_error"};
    call.reply->send(error_response(call.route->dialect, error));
  }
}

// The name of the model in the body; for a classifier route, the server's classifier by default.
Result<std::string> model_name_of(ServeContext& server, const Call& call) {
  MAKAR_TRY(std::string name, text_field(call.body, "model"));
  if (!name.empty() || call.route->kind != RouteKind::kClassifier) return name;
  name = server.registry.classifier();
  if (name.empty())
    return error_of(Error::Kind::kUnsupported, "model",
                    "no model of this server classifies texts; add one with --add-model");
  return name;
}

// Routes that accept the name of a collection: chat, and tokens and inspections of the model that answers.
bool serves_collections(const Route& route) {
  for (const char* path : {"/v1/chat/completions", "/tokenize", "/detokenize", "/makar/look"})
    if (std::string_view(route.path) == path) return true;
  return false;
}

void prepare_and_handle(ServeContext& server, const std::shared_ptr<Call>& call) {
  const Route& route = *call->route;
  const std::string& text = call->request.body;
  const bool json = route.runs_model() || !call->request.header("content-type").starts_with("multipart/");
  const Status reserved =
      call->reply->take_memory((json ? json_memory(text) : 0) + (route.runs_model() ? kMemoryPerByte : 0) *
                                                                    static_cast<int64_t>(text.size()),
                               "its parsed body");
  if (!reserved.ok()) return send_error(*call, reserved.error());
  if (!route.runs_model()) return route.handler(server, *call);
  auto body = read_body(call->request.body);
  if (!body.ok()) return send_error(*call, body.error());
  call->body = std::move(*body), call->request.body = {};
  const auto name = model_name_of(server, *call);
  if (!name.ok()) return send_error(*call, name.error());
  for (const auto& collection : server.options.collections)
    if (collection->name() == *name) call->collection = collection;
  if (call->collection && !serves_collections(route))
    return send_error(*call, error_of(Error::Kind::kUnsupported, "model",
                                      "{} is a collection; use it with /v1/chat/completions", quote(*name)));
  const auto this_thread = std::this_thread::get_id();
  server.registry.acquire(
      call->collection ? "" : *name, [&server, call, this_thread](Result<ModelLease> model) {
        if (!model.ok()) return send_error(*call, model.error());
        call->model = std::move(*model);
        if (call->collection) call->model.name = call->collection->name();
        if (std::this_thread::get_id() == this_thread) return call->route->handler(server, *call);
        post_step(server, call, 0, [&server](Call& posted) { posted.route->handler(server, posted); });
      });
}

}  // namespace

void post_step(ServeContext& server, const std::shared_ptr<Call>& call, size_t bytes,
               std::function<void(Call&)> step) {
  WorkItem item;
  item.caller = server.access.caller(call->request), item.bytes = bytes, item.cancelled = call->disconnected;
  item.is_long = call->is_long = call->is_long || bytes > kMaxShortBytes;
  item.run = [call, step = std::move(step)] {
    call->work = WorkBudget(WorkBudget::kUnlimited, WorkBudget::Clock::now() + kPreparationTimeLimit,
                            call->disconnected);
    guarded(*call, [&] { step(*call); });
  };
  server.workers.post(std::move(item));
}

void dispatch(ServeContext& server, const std::shared_ptr<Call>& call) {
  post_step(server, call, call->request.body.size(),
            [&server, call](Call&) { prepare_and_handle(server, call); });
}

void dispatch_batch_line(ServeContext& server, const BatchRecord& record, const Json& body,
                         std::shared_ptr<HttpReply> reply) {
  HttpRequest request;
  request.method = "POST", request.path = record.batch["endpoint"], request.body = dump(body);
  request.remote = "batch " + record.owner;
  bool path_known = false;
  const Route* route = find_route(request, path_known);
  check(route && route->runs_model(), "the endpoint of a batch is a route that reads JSON and runs a model");
  auto logged = std::make_shared<LoggedReply>(std::move(reply), request, route->path, request_id(request),
                                              server.metrics, server.options.log, server.memory);
  auto call = std::make_shared<Call>();
  call->request = std::move(request), call->route = route, call->reply = std::move(logged);
  call->owner = record.owner, call->background = true;
  dispatch(server, call);
}

void submit_task(ServeContext& server, std::shared_ptr<EngineTask> task, Call& call) {
  call.reply->on_disconnect([cancelled = task->cancelled, active = std::weak_ptr(call.model.active)] {
    *cancelled = true;
    if (const auto model = active.lock()) model->loop.wake();
  });
  task->deadline = EngineTask::Clock::now() + time_limit(server, call);
  task->adapter = call.model.adapter, task->salt = server.access.caller(call.request);
  task->priority = call.background ? -1 : 0;
  task->run_on_worker = on_worker(server, task->salt);
  call.model.loop().submit(std::move(task));
}

std::function<void(std::function<void()>)> on_worker(ServeContext& server, const std::string& caller) {
  return [&server, caller](std::function<void()> run) {
    server.workers.post(WorkItem{std::move(run), caller});
  };
}

std::chrono::seconds time_limit(const ServeContext& server, const Call& call) {
  return call.background ? kBatchLineTimeLimit : server.options.time_limit;
}

}  // namespace makar
