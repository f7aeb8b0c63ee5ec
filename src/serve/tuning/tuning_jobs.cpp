#include "serve/tuning/tuning_jobs.h"

#include "base/quote.h"
#include "serve/tuning/job.h"

namespace makar {
namespace {

constexpr int kMaxStarts = 4;  // of a process that is stopped from outside
constexpr std::chrono::seconds kRestartPause{1};

}  // namespace

TuningJobs::TuningJobs(FileStore& files, TuningOptions options)
    : files_(files),
      options_(std::move(options)),
      records_(files.folder(), options_.limits),
      identities_(options_.identity) {
  publish_earlier();
  thread_ = std::thread([this] { run(); });
}

void TuningJobs::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status TuningJobs::serve_model(const TuningRecord& record) {
  MAKAR_TRY(const TuningBase base, options_.base(record.job["model"].get<std::string>()));
  if (!record.base.hash.empty()) {
    MAKAR_TRY(const BaseIdentity now, identities_.of(base.path, record.base));
    if (now.hash != record.base.hash)
      return error_at("model", "the files of {} have changed since the training", quote(base.name));
  }
  return options_.publish(record.model(), base, records_.folder(record.id()).run());
}

Status TuningJobs::publish(const TuningRecord& record) {
  const Status served = serve_model(record);
  if (served.ok()) return Done{};
  const Error error(
      served.error().kind, "",
      fmt::format("the fine-tuned model {} is not served: {}", record.model(), served.error().text()));
  options_.log("makar: " + error.text());
  return error;
}

void TuningJobs::publish_earlier() {
  for (const TuningRecord& record : records_.all()) {
    if (!record.has_model()) continue;
    if (const Status published = publish(record); !published.ok())
      records_.add_event(record.id(), tuning_event("warn", published.error().text()));
  }
}

Result<Json> TuningJobs::create(const std::string& owner, const Json& body) {
  MAKAR_TRY(Json job, new_tuning_job(body));
  MAKAR_TRY(const TuningBase base, options_.base(job["model"].get<std::string>()));
  job["model"] = base.name;
  std::string data[2];
  for (const auto& [key, path] : {std::pair("training_file", &data[0]), {"validation_file", &data[1]}}) {
    if (job[key].is_null()) continue;
    const auto metadata = files_.find(owner, job[key].get<std::string>());
    if (!metadata.ok()) return Error{metadata.error().kind, key, metadata.error().message};
    if ((*metadata)["purpose"] != "fine-tune")
      return error_at(key, "is a file for {}; upload one with the purpose fine-tune",
                      quote((*metadata)["purpose"].get<std::string>()));
    MAKAR_TRY(*path, files_.path(owner, job[key].get<std::string>()));
  }
  MAKAR_TRY(Json created, records_.create(owner, job, data[0], data[1]));
  { const std::lock_guard lock(mutex_); }  // the thread is waiting, or looks for a job after this
  wake_.notify_all();
  return created;
}

Result<Json> TuningJobs::cancel(const std::string& owner, const std::string& id) {
  MAKAR_TRY(Json job, records_.cancel(owner, id));
  { const std::lock_guard lock(mutex_); }
  wake_.notify_all();
  return job;
}

Result<std::vector<Json>> TuningJobs::events(const std::string& owner, const std::string& id) const {
  MAKAR_RETURN_IF_ERROR(find(owner, id));
  return records_.folder(id).events();
}

Result<std::vector<Json>> TuningJobs::checkpoints(const std::string& owner, const std::string& id) const {
  MAKAR_RETURN_IF_ERROR(find(owner, id));
  return records_.folder(id).checkpoints();
}

Status TuningJobs::delete_model(const std::string& owner, const std::string& name) {
  return records_.delete_model(owner, name, options_.unpublish);
}

bool TuningJobs::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

bool TuningJobs::wait(const std::string& id, std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, time, [&] { return stopping_ || records_.is_over(id); });
}

void TuningJobs::run() {
  clean_earlier();
  for (;;) {
    std::optional<std::string> next;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || (next = records_.next()).has_value(); });
      if (stopping_) return;
    }
    work(*next);
  }
}

// Deletes the files of ended jobs that a killed server left.
void TuningJobs::clean_earlier() {
  const auto end = std::chrono::steady_clock::now() + kRunLockTimeout;
  for (const TuningRecord& record : records_.all()) {
    if (!record.is_over()) continue;
    const JobFolder folder = records_.folder(record.id());
    while (folder.run_locked() && !stopping() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(kRunLockPoll);
    if (stopping()) return;
    folder.clean(record.has_model());
  }
}

RunOutcome TuningJobs::run_process(const std::string& id) {
  for (int starts = 1;; ++starts) {
    TuningRun process(records_, options_, identities_, id,
                      [&](std::chrono::milliseconds time) { return wait(id, time); });
    const RunOutcome outcome = process.run();
    if (outcome.end != RunEnd::kEndedEarly) return outcome;
    if (starts == kMaxStarts)
      return {RunEnd::kFailed, fmt::format("other programs stopped the process {} times", starts)};
    if (wait(id, kRestartPause)) return {RunEnd::kStopped};
  }
}

void TuningJobs::work(const std::string& id) {
  const RunOutcome outcome = run_process(id);
  const auto record = records_.get(id);
  if (!record) return;
  if (outcome.end == RunEnd::kFailed) records_.fail(id, outcome.error);
  if (outcome.end == RunEnd::kFinished) {
    const std::string name =
        fmt::format("ft:{}:{}:{}", record->job["model"].get<std::string>(),
                    record->job["suffix"].get<std::string>(), id.substr(id.find('-') + 1, 8));
    records_.succeed(id, name, [&](const TuningRecord& done) { return publish(done); });
  }
  // A job that is not over continues with the next server.
  if (const auto now = records_.get(id); now && now->is_over()) records_.folder(id).clean(now->has_model());
}

}  // namespace makar
