#include "serve/serve_context.h"

#include <algorithm>
#include <ctime>

#include "serve/api/response_store.h"
#include "serve/dispatch.h"

namespace makar {
namespace {

constexpr int kShortWorkers = 3, kLongWorkers = 3;       // one caller may use all but one of each
constexpr int64_t kBatchShare = 4, kMaxBatchLines = 16;  // batch lines in flight: parallel / kBatchShare

}  // namespace

ServeContext::ServeContext(ModelRegistry& models, ServeOptions o)
    : registry(models),
      options(std::move(o)),
      access(options.access),
      created(std::time(nullptr)),
      page(options.page),
      memory(options.request_memory),
      responses(std::make_shared<ResponseStore>()),
      gate(options.parallel + options.queue),
      workers(kShortWorkers, kLongWorkers) {
  if (options.prices) metrics.set_prices(*options.prices, options.work_seconds);
  if (!options.files) return;
  batches.emplace(*options.files);
  batch_runner = std::make_unique<BatchRunner>(
      *options.files, *batches,
      [this](const BatchRecord& record, const Json& body, std::shared_ptr<HttpReply> reply) {
        dispatch_batch_line(*this, record, body, std::move(reply));
      },
      std::clamp<int64_t>(options.parallel / kBatchShare, 1, kMaxBatchLines));
  if (options.tuning.command) tuning = std::make_unique<TuningJobs>(*options.files, options.tuning);
}

// Requests in flight update the metrics and the gate when they end: stop them before members are destroyed.
ServeContext::~ServeContext() {
  if (tuning) tuning->stop();
  if (batch_runner) batch_runner->stop();
  looks.stop();
  workers.stop();
  registry.close();
}

}  // namespace makar
