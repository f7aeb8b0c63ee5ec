// Shared by all routes of a server: its options, models, limits, stores and threads.
#pragma once
#include "serve/access.h"
#include "serve/collection.h"
#include "serve/files/batch_runner.h"
#include "serve/gate.h"
#include "serve/logged_reply.h"
#include "serve/model_registry.h"
#include "serve/page/look.h"
#include "serve/page/page.h"
#include "serve/tuning/tuning_jobs.h"
#include "serve/workers.h"

namespace makar {

struct ServeOptions {
  AccessOptions access;
  int64_t parallel = 64;                 // concurrent sequences in the engine
  int64_t queue = 128;                   // further requests of one caller that may wait
  std::chrono::seconds time_limit{600};  // per request
  double hung_after = 60;                // seconds; a longer step makes /health fail
  TextGenerationOptions defaults;        // for fields absent from a request
  bool has_seed = false;                 // `defaults` has an explicit seed
  PageOptions page;
  std::shared_ptr<const OutputFilter> filter;  // filters answers; null: none
  LogSink log;
  int64_t request_memory = int64_t{1} << 30;  // bytes of all requests in flight: JSON, prompts, answers
  std::vector<std::shared_ptr<ServedCollection>> collections;  // the first model answers from them
  std::optional<PriceTable> prices;
  std::function<double()> work_seconds;  // computing time of all engines; takes no lock; set with prices
  FileStore* files = nullptr;            // null: file and batch routes are disabled
  std::string files_disabled_reason;     // for the errors of those routes
  TuningOptions tuning;                  // without a command: fine-tuning is disabled
};

class ResponseStore;

struct ServeContext {
  // The registry must outlive the context.
  ServeContext(ModelRegistry& models, ServeOptions o);
  ~ServeContext();

  ModelRegistry& registry;
  const ServeOptions options;
  Access access;
  const int64_t created;  // seconds since 1970
  std::atomic<bool> draining{false};
  Page page;
  RequestMemory memory;
  ServeMetrics metrics;
  std::shared_ptr<ResponseStore> responses;
  Gate gate;
  std::optional<BatchRecords> batches;
  Workers workers;  // stopped by the destructor before any member is destroyed
  LookRunner looks;
  std::unique_ptr<BatchRunner> batch_runner;
  std::unique_ptr<TuningJobs> tuning;  // null: fine-tuning is disabled
};

}  // namespace makar
