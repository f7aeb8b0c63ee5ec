#include "serve/service.h"

#include <algorithm>
#include <ctime>

#include "base/shown.h"
#include "serve/api/fields.h"
#include "serve/api/response_store.h"

namespace makar {
namespace {

constexpr int kShortWorkers = 3, kLongWorkers = 3;  // one caller may use all but one of each
constexpr size_t kShortBytes = size_t{64} << 10;    // input size handled in milliseconds
constexpr std::chrono::seconds kPreparationTime{30};
constexpr int64_t kBatchShare = 4, kMostBatchLines = 16;  // batch lines in flight: parallel / kBatchShare
// Temporary memory per body byte during tokenization: copies of texts, characters, 8-byte ids.
constexpr int64_t kMemoryPerByte = 24;

// Memory of a request during generation: ids (in the request and in the engine), conversation, texts.
int64_t held_memory(const Ask& ask, const std::vector<std::vector<int64_t>>& prompts) {
  constexpr int64_t kToken = 32, kByte = 2;
  int64_t bytes = ask.chat ? json_memory(dump(ask.chat->messages)) + json_memory(dump(ask.chat->tools)) : 0;
  for (const auto& ids : prompts) bytes += kToken * static_cast<int64_t>(ids.size());
  for (const PromptInput& prompt : ask.prompts)
    if (const auto* text = std::get_if<std::string>(&prompt))
      bytes += kByte * static_cast<int64_t>(text->size());
  return bytes;
}

// An upper bound of the memory of answers until sent: tokens with log-probabilities, echoed prompts, and the
// JSON of both.
int64_t answer_memory(const Ask& ask, const std::vector<std::vector<int64_t>>& prompts) {
  constexpr int64_t kToken = 128, kLogprob = 512, kAlternative = 256, kEchoedByte = 6;
  const int64_t per_token =
      kToken + (ask.write.logprobs < 0 ? 0 : kLogprob + kAlternative * ask.write.logprobs);
  const int64_t answers = std::max({ask.write.answers, ask.write.best_of, ask.write.beams, int64_t{1}});
  int64_t bytes = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto tokens = static_cast<int64_t>(prompts[i].size());
    int64_t one = ask.write.max_new_tokens * per_token;
    if (ask.echo) {
      const auto* text = i < ask.prompts.size() ? std::get_if<std::string>(&ask.prompts[i]) : nullptr;
      one += tokens * per_token + kEchoedByte * (text ? static_cast<int64_t>(text->size()) : 16 * tokens);
    }
    bytes += answers * one;
  }
  return bytes;
}

}  // namespace

Service::Service(ModelShelf& shelf, ServeOptions options)
    : shelf_(shelf),
      options_(std::move(options)),
      access_(std::move(options_.access)),
      created_(std::time(nullptr)),
      page_(options_.page),
      memory_(options_.request_memory),
      responses_(std::make_shared<ResponseStore>()),
      gate_(options_.parallel + options_.queue),
      workers_(kShortWorkers, kLongWorkers) {
  if (!options_.files) return;
  batches_.emplace(*options_.files);
  runner_ = std::make_unique<BatchRunner>(
      *options_.files, *batches_,
      [this](const BatchRecord& record, const Json& body, std::shared_ptr<HttpReply> reply) {
        send_line(record, body, std::move(reply));
      },
      std::clamp<int64_t>(options_.parallel / kBatchShare, 1, kMostBatchLines));
}

// Requests in flight update the metrics and the gate when they end: stop them before members are destroyed.
Service::~Service() {
  if (runner_) runner_->stop();
  looks_.stop();
  workers_.stop();
  shelf_.close();
}

namespace {

// The error format for a path without a route.
Dialect dialect_of(std::string_view path) {
  if (path.starts_with("/api/")) return Dialect::kOllama;
  return path.starts_with("/v1/messages") ? Dialect::kAnthropic : Dialect::kOpenAi;
}

}  // namespace

HttpResponse Service::broken(int status, const std::string& why) {
  ApiError error{status, why};
  if (status >= 500) error.type = "server_error";
  if (status == 503) error.retry_after = 1;
  return error_response(Dialect::kOpenAi, error);
}

ApiError Service::full(const std::string& caller) const {
  ApiError error{429,
                 fmt::format("{} requests are waiting, {} of them yours; try again later", gate_.inside(),
                             gate_.inside(caller)),
                 "rate_limit_error", std::nullopt, "queue_full"};
  error.retry_after = 1;
  return error;
}

std::optional<HttpResponse> Service::refuse(const HttpRequest& head) {
  bool known = false;
  const Route* route = find(head, known);
  if (auto answer = access_.preflight(head)) return answer;
  const std::string caller = access_.caller(head);
  std::optional<ApiError> error;
  if (!route) {
    error = access_.forbidden(head, false);
    if (!error && known)
      error = ApiError{405, fmt::format("{} is not allowed here", shown(head.method, 20)),
                       "invalid_request_error", std::nullopt, "method_not_allowed"};
    if (!error)
      error = ApiError{404, fmt::format("there is no {}", shown(head.path)), "invalid_request_error",
                       std::nullopt, "unknown_url"};
  } else if (!(error = access_.forbidden(head, route->open())) && route->admitted()) {
    if (draining_) {
      error = ApiError{503, "the server is stopping", "overloaded_error", std::nullopt, "stopping"};
      error->retry_after = 5;
    } else if (!gate_.admits(caller)) {
      error = full(caller);
    } else if (route->kind != Kind::kPage) {
      error = access_.limits().take(caller);
    }
  }
  if (!error) return std::nullopt;
  metrics_.request(route ? route->path : "other", error->status, 0);
  HttpResponse out = error_response(route ? route->dialect : dialect_of(head.path), *error);
  const std::string id = request_id(head);
  out.headers.emplace_back("x-request-id", id);
  for (auto& header : access_.headers(head, error->status == 429)) out.headers.push_back(std::move(header));
  if (!route && known) {
    std::string allow;
    for (const Route& r : routes())
      if (head.path == r.path) allow += (allow.empty() ? "" : ", ") + std::string(r.method);
    if (!allow.empty()) out.headers.emplace_back("allow", allow);
  }
  if (options_.log)
    options_.log(dump({{"id", id},
                       {"remote", head.remote},
                       {"caller", caller},
                       {"method", head.method.substr(0, 20)},
                       {"path", head.path.substr(0, 200)},
                       {"status", error->status}}));
  return out;
}

void Service::handle(HttpRequest request, std::shared_ptr<HttpReply> raw) {
  bool known = false;
  const Route* route = find(request, known);
  check(route != nullptr, "what has no route is refused before its body");
  const std::string id = request_id(request);
  auto reply = std::make_shared<LoggedReply>(std::move(raw), request, route->path, id, metrics_, options_.log,
                                             memory_);
  reply->set_caller(access_.caller(request), access_.limits(), access_.headers(request, route->admitted()));
  std::string owner = access_.owner(request);
  Call call{std::move(request), std::move(reply), {}, std::move(owner)};
  if (!route->admitted()) return (this->*route->handler)(call);
  const std::string caller = access_.caller(call.request);
  call.ticket = gate_.enter(caller);
  if (!call.ticket) return call.reply->send(error_response(route->dialect, full(caller)));
  auto shared = std::make_shared<Call>(std::move(call));
  shared->reply->on_gone([gone = shared->gone] { *gone = true; });
  post(*route, shared, shared->request.body.size(),
       [this, route, shared](Call&) { admitted(*route, shared); });
}

void Service::post(const Route& route, const std::shared_ptr<Call>& call, size_t bytes,
                   std::function<void(Call&)> step) {
  WorkItem item;
  item.caller = access_.caller(call->request), item.bytes = bytes, item.cancelled = call->gone;
  item.is_long = call->is_long = call->is_long || bytes > kShortBytes;
  item.run = [this, &route, call, step = std::move(step)] {
    call->work = WorkBudget(WorkBudget::kUnlimited, WorkBudget::Clock::now() + kPreparationTime, call->gone);
    guarded(route, *call, [&] { step(*call); });
  };
  workers_.post(std::move(item));
}

// Parses the body, loads the requested model, then runs the handler.
void Service::admitted(const Route& route, const std::shared_ptr<Call>& call) {
  const std::string& text = call->request.body;
  const bool model = route.kind != Kind::kWorker && route.kind != Kind::kPage;
  const bool json = model || !call->request.header("content-type").starts_with("multipart/");
  const Status fits = call->reply->take_memory(
      (json ? json_memory(text) : 0) + (model ? kMemoryPerByte : 0) * static_cast<int64_t>(text.size()),
      "what is made of its body");
  if (!fits.ok()) return fail(*call, route.dialect, fits.error());
  if (!model) return work(route, *call);
  auto body = read_body(call->request.body);
  if (!body.ok()) return fail(*call, route.dialect, body.error());
  call->body = std::move(*body), call->request.body = {};
  auto name = text_field(call->body, "model");
  if (name.ok() && name->empty() && route.kind == Kind::kClass) {
    name = shelf_.classifier();
    if (name->empty())
      name = error_of(Error::Kind::kUnsupported, "model",
                      "no model of this server classifies texts; add one with --add-model");
  }
  if (!name.ok()) return fail(*call, route.dialect, name.error());
  const auto asked_on = std::this_thread::get_id();
  shelf_.ask(*name, [this, &route, call, asked_on](Result<ModelLease> model) {
    if (!model.ok()) return fail(*call, route.dialect, model.error());
    call->model = std::move(*model);
    if (std::this_thread::get_id() == asked_on) return work(route, *call);
    post(route, call, 0, [this, &route](Call& own) { work(route, own); });
  });
}

void Service::work(const Route& route, Call& call) {
  if (route.reader)
    write(route, call);
  else
    (this->*route.handler)(call);
}

// An exception ends only its own request. Its text names source locations, so it goes only to the log.
void Service::guarded(const Route& route, Call& call, const std::function<void()>& step) {
  try {
    step();
  } catch (const std::exception& e) {
    if (!call.reply) return;
    call.reply->failed(e.what());
    ApiError error{500, "internal error", "server_error"};
    call.reply->send(error_response(route.dialect, error));
  }
}

AskContext Service::context(const Call& call) const {
  const ModelLease& model = call.model;
  return {model.name,
          options_.defaults,
          model.served().tokens,
          static_cast<int64_t>(std::time(nullptr)),
          random_id(),
          responses_,
          call.owner};
}

void Service::write(const Route& route, Call& call) {
  const AskContext asked_in = context(call);
  auto ask = route.reader(call.body, asked_in);
  if (!ask.ok()) return fail(call, route.dialect, ask.error());
  call.body = {};
  const size_t bytes = preparation_bytes(*ask);
  if (call.is_long || bytes <= kShortBytes) return begin_writing(route, call, *ask);
  const auto held = std::make_shared<Call>(std::move(call));
  post(route, held, bytes,
       [this, &route, kept = std::make_shared<Ask>(std::move(*ask))](Call& own) {
         begin_writing(route, own, *kept);
       });
}

Answering::Elsewhere Service::on_worker(const std::string& caller) {
  return [this, caller](std::function<void()> run) { workers_.post(WorkItem{std::move(run), caller}); };
}

void Service::begin_writing(const Route& route, Call& call, Ask& ask) {
  ask.seed_given = ask.seed_given || options_.seed_given;
  ask.write.adapter = call.model.adapter, ask.write.priority = call.background ? -1 : 0;
  ask.write.salt = access_.caller(call.request);  // no prefix sharing between callers: prevents timing probes
  auto prompts = prepare(ask, call.model.served(), call.work);
  if (!prompts.ok()) return fail(call, route.dialect, prompts.error());
  call.reply->shrink_memory(held_memory(ask, *prompts));
  const Status fits = call.reply->take_memory(answer_memory(ask, *prompts), "its answers");
  if (!fits.ok()) return fail(call, route.dialect, fits.error());
  if (ask.write.constraint)
    ask.write.constraint->compute_on([this, caller = ask.write.salt,
                                      active = std::weak_ptr(call.model.active)](std::function<void()> run) {
      WorkItem item{[run = std::move(run), active] {
                      run();
                      if (const auto model = active.lock()) model->loop.wake();
                    },
                    caller};
      item.is_long = true;
      return workers_.post(std::move(item));
    });
  const auto time = time_of(call);
  const std::string caller = ask.write.salt;
  Answering::start(std::move(ask), std::move(*prompts), std::move(call.model), std::move(call.reply),
                      std::move(call.ticket), time, on_worker(caller));
}

void Service::answer(Call& call, const Json& body) const {
  if (call.model.active && call.model.active->files_lost())
    return fail(call, Dialect::kOpenAi, call.model.active->files_lost_error());
  HttpResponse response;
  response.body = dump(body) + "\n";
  call.reply->send(std::move(response));
}

}  // namespace makar
