// The service: routes, keys, admission, and who does what. Health and counters are answered on the server's
// thread, everything else is read by the workers and computed by the engine's thread.
#pragma once
#include <map>

#include "serve/access.h"
#include "serve/answering.h"
#include "serve/files/batch_runner.h"
#include "serve/model_shelf.h"
#include "serve/page/page.h"
#include "serve/workers.h"

namespace makar {

struct ServeOptions {
  AccessOptions access;
  int64_t parallel = 64;           // sequences in the engine at a time
  int64_t queue = 128;             // requests that may wait beside them
  std::chrono::seconds time{600};  // of a request
  double hung_after = 60;          // seconds: a step that takes longer makes /health fail
  WriteOptions defaults;           // what requests leave open
  bool seed_given = false;
  PageOptions page;
  LogSink log;
  FileStore* files = nullptr;  // of clients; none: their routes are closed, and `no_files` says why
  std::string no_files;
};

class ResponseStore;

class Service : public HttpHandler {
 public:
  // The shelf outlives it.
  Service(ModelShelf& shelf, ServeOptions options);
  ~Service() override;

  std::optional<HttpResponse> refuse(const HttpRequest& head) override;
  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) override;
  HttpResponse broken(int status, const std::string& why) override;
  void drain() { draining_ = true; }  // /ready says no
  size_t max_body(const HttpRequest& head) override;
  Status open_store() { return page_.open_store(); }  // before it is first needed

 private:
  struct Call {
    HttpRequest request;
    std::shared_ptr<LoggedReply> reply;
    Gate::Ticket ticket;
    std::string owner = {};   // whose files and conversations it sees
    bool background = false;  // of a batch: everybody else goes first
    Json body = {};           // of admitted ones
    ModelLease model = {};    // that the body asks for
  };
  using Handler = void (Service::*)(Call& call);
  using Reader = Result<Ask> (*)(const Json& body, const AskContext& context);
  // Answered at once (kOpen: without a key, too), by a worker as it came (kWorker; kPage: and uncounted, for
  // the page asks often), with its body read and its model at hand (kModel; kClass: a classifier where none
  // is named), or by what the model writes (kWrite).
  enum class Kind { kOpen, kAtOnce, kWorker, kPage, kModel, kClass, kWrite };
  struct Route {
    const char* method;
    const char* path;  // one that ends in '/' holds all below it
    Kind kind = Kind::kAtOnce;
    Handler handler = nullptr;
    Reader reader = nullptr;  // of kWrite, instead of a handler
    Dialect dialect = Dialect::kOpenAi;
    bool open() const { return kind == Kind::kOpen; }
    bool admitted() const { return kind != Kind::kOpen && kind != Kind::kAtOnce; }
  };
  static const std::vector<Route>& routes();  // in service_routes.cpp
  static const Route* find(const HttpRequest& request, bool& path_known);

  ApiError full() const;
  void admitted(const Route& route, const std::shared_ptr<Call>& call);
  void guarded(const Route& route, Call& call, const std::function<void()>& step);
  void work(const Route& route, Call& call);
  void write(const Route& route, Call& call);
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

  // In service_reading.cpp: on a worker.
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
  ServeMetrics metrics_;
  std::shared_ptr<ResponseStore> responses_;
  Gate gate_;
  std::optional<BatchRecords> batches_;
  Workers workers_;  // stopped before all others but the batches
  std::unique_ptr<BatchRunner> runner_;
};

}  // namespace makar
