// The service: routes, keys, admission and dispatch. Health and counters are answered on the server thread;
// everything else is parsed by the workers and computed by the engine thread.
#pragma once
#include <map>

#include "serve/access.h"
#include "serve/answering.h"
#include "serve/files/batch_runner.h"
#include "serve/model_shelf.h"
#include "serve/page/look.h"
#include "serve/page/page.h"
#include "serve/workers.h"

namespace makar {

struct ServeOptions {
  AccessOptions access;
  int64_t parallel = 64;           // concurrent sequences in the engine
  int64_t queue = 128;             // further requests of one caller that may wait
  std::chrono::seconds time{600};  // limit per request
  double hung_after = 60;          // seconds; a longer step makes /health fail
  WriteOptions defaults;           // for fields absent from a request
  bool seed_given = false;
  PageOptions page;
  LogSink log;
  int64_t request_memory = int64_t{1} << 30;  // bytes of all requests in flight: JSON, prompts, answers
  FileStore* files = nullptr;  // null: file and batch routes are disabled; `no_files` is the reason
  std::string no_files;
};

class ResponseStore;

class Service : public HttpHandler {
 public:
  // The registry must outlive the service.
  Service(ModelShelf& shelf, ServeOptions options);
  ~Service() override;

  std::optional<HttpResponse> refuse(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) override;
  HttpResponse broken(int status, const std::string& why) override;
  void drain() { draining_ = true; }  // /ready fails from now on
  std::string caller(const HttpRequest& head) override { return access_.caller(head); }
  size_t max_body(const HttpRequest& head) override;
  Status open_store() { return page_.open_store(); }  // eagerly, to report errors at startup

 private:
  struct Call {
    HttpRequest request;
    std::shared_ptr<LoggedReply> reply;
    Gate::Ticket ticket;
    std::string owner = {};   // owner of the files and conversations it sees
    bool background = false;  // a batch line: lowest priority
    bool is_long = false;     // worker lane
    WorkBudget work = {};     // cost limit and deadline of preparation
    std::shared_ptr<std::atomic<bool>> gone =
        std::make_shared<std::atomic<bool>>(false);  // client disconnected
    Json body = {};                                  // parsed, after admission
    ModelLease model = {};                           // named in the body
  };
  using Handler = void (Service::*)(Call& call);
  using Reader = Result<Ask> (*)(const Json& body, const AskContext& context);
  // kOpen: on the server thread, no key needed. kAtOnce: on the server thread. kWorker: on a worker. kPage:
  // on a worker, exempt from rate limits because the page polls. kModel: on a worker with parsed body and
  // loaded model. kClass: as kModel, a classifier by default. kWrite: generates text.
  enum class Kind { kOpen, kAtOnce, kWorker, kPage, kModel, kClass, kWrite };
  struct Route {
    const char* method;
    const char* path;  // a trailing '/' matches all paths below
    Kind kind = Kind::kAtOnce;
    Handler handler = nullptr;
    Reader reader = nullptr;  // for kWrite, instead of a handler
    Dialect dialect = Dialect::kOpenAi;
    bool open() const { return kind == Kind::kOpen; }
    bool admitted() const { return kind != Kind::kOpen && kind != Kind::kAtOnce; }
  };
  static const std::vector<Route>& routes();  // in service_routes.cpp
  static const Route* find(const HttpRequest& request, bool& path_known);

  ApiError full(const std::string& caller) const;
  // Runs `step` on a worker; `bytes` of input select the lane.
  void post(const Route& route, const std::shared_ptr<Call>& call, size_t bytes,
            std::function<void(Call&)> step);
  void admitted(const Route& route, const std::shared_ptr<Call>& call);
  void guarded(const Route& route, Call& call, const std::function<void()>& step);
  void work(const Route& route, Call& call);
  void write(const Route& route, Call& call);
  void begin_writing(const Route& route, Call& call, Ask& ask);
  // Runs serialization on a short worker.
  Answering::Elsewhere on_worker(const std::string& caller);
  AskContext context(const Call& call) const;
  void answer(Call& call, const Json& body) const;

  void health(Call& call);  // in service_status.cpp
  void ready(Call& call);
  void models(Call& call);
  void counters(Call& call);

  void tags(Call& call);  // in service_ollama.cpp
  void loaded_tags(Call& call);
  void show(Call& call);
  void version(Call& call);

  // In service_files.cpp.
  void add_file(Call& call);
  void files(Call& call);
  void add_batch(Call& call);
  void batches(Call& call);
  void send_line(const BatchRecord& record, const Json& body, std::shared_ptr<HttpReply> reply);
  std::chrono::seconds time_of(const Call& call) const;

  void kept_response(Call& call);  // in service_responses.cpp
  void forget_response(Call& call);

  // In service_reading.cpp; called on a worker.
  void tokenize(Call& call);
  void detokenize(Call& call);
  void count_tokens(Call& call);
  void embeddings(Call& call);
  void ollama_embed(Call& call);
  void score(Call& call);
  void rerank(Call& call);  // in service_ranking.cpp
  void moderations(Call& call);
  void embed(Call& call, Dialect dialect,
             std::function<Json(const std::vector<std::vector<float>>&, int64_t tokens)> tell);
  void submit(std::shared_ptr<EngineTask> task, Call& call);
  void fail(Call& call, Dialect dialect, const Error& error) const;

  // In service_page.cpp.
  void page_files(Call& call);
  void page(Call& call);
  void look(Call& call);
  void engine(Call& call);

  ModelShelf& shelf_;
  ServeOptions options_;
  Access access_;
  const int64_t created_;
  std::atomic<bool> draining_{false};
  Page page_;
  RequestMemory memory_;
  ServeMetrics metrics_;
  std::shared_ptr<ResponseStore> responses_;
  Gate gate_;
  std::optional<BatchRecords> batches_;
  Workers workers_;  // stopped first, after batches and looks
  LookRunner looks_;
  std::unique_ptr<BatchRunner> runner_;
};

}  // namespace makar
