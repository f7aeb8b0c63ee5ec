#include "serve/tuning/tuning_jobs.h"

#include "base/file.h"
#include "base/quote.h"
#include "serve/tuning/job.h"
#include "serve/tuning/job_process.h"

namespace makar {
namespace {

constexpr int kMaxStarts = 4;  // of a process that is stopped from outside
constexpr std::chrono::seconds kRestartPause{1};
constexpr const char* kSince = "the training";

}  // namespace

TuningJobs::TuningJobs(FileStore& files, TuningOptions options)
    : files_(files),
      options_(std::move(options)),
      records_(files.folder(), options_.limits),
      identities_(std::make_shared<BaseIdentities>(options_.identity)) {
  for (const std::string& file : records_.unreadable())
    options_.log(fmt::format("makar: {} is left out: it is not the record of a fine-tuning job", file));
  publish_earlier();
  thread_ = std::thread([this] { run(); });
}

void TuningJobs::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  identities_->stop();
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<TuningBase> TuningJobs::base_of(const TuningRecord& record) {
  MAKAR_TRY(TuningBase base, options_.base(record.job["model"].get<std::string>()));
  for (const char* file : {"adapter_model.safetensors", "adapter_config.json"})
    if (!is_file(records_.folder(record.id()).run() + "/" + file))
      return error_of(Error::Kind::kNotFound, "adapter", "its file {} is missing", file);
  MAKAR_TRY(const BaseIdentity now, identities_->check(base.name, base.path, record.base, kSince));
  records_.set_base(record.id(), now);
  return base;
}

Status TuningJobs::publish(const TuningRecord& record, const Result<TuningBase>& base) {
  const auto published = [&]() -> Status {
    if (!base.ok()) return base.error();
    const auto check = [identities = identities_, base = *base, known = record.base]() -> Status {
      MAKAR_RETURN_IF_ERROR(identities->check(base.name, base.path, known, kSince));
      return Done{};
    };
    return options_.publish({record.model(), *base, records_.folder(record.id()).run(), check});
  }();
  if (published.ok()) return Done{};
  const Error error(
      published.error().kind, "",
      fmt::format("the fine-tuned model {} is not served: {}", record.model(), published.error().text()));
  options_.log("makar: " + error.text());
  return error;
}

void TuningJobs::publish_earlier() {
  for (const TuningRecord& record : records_.all()) {
    if (!record.has_model()) continue;
    if (const Status published = publish(record, base_of(record)); !published.ok())
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
  for (const TuningRecord& record : records_.all())  // files that a killed server left
    if (record.is_over()) clean(record.id());
  const auto skipped = [&](const std::string& id) {
    const auto found = postponed_.find(id);
    return found != postponed_.end() && std::chrono::steady_clock::now() < found->second;
  };
  for (;;) {
    std::optional<std::string> next;
    {
      std::unique_lock lock(mutex_);
      const auto ready = [&] { return stopping_ || (next = records_.next(skipped)).has_value(); };
      if (!wake_.wait_for(lock, options_.retry_time, ready)) continue;
      if (stopping_) return;
    }
    try {
      work(*next);
    } catch (const std::exception& e) {
      if (!records_.fail(*next, fmt::format("internal error: {}", e.what()))) postpone(*next, e.what());
      clean(*next);
    }
  }
}

void TuningJobs::clean(const std::string& id) {
  const auto record = records_.get(id);
  if (!record || !record->is_over()) return;
  const JobFolder folder = records_.folder(id);
  if (end_earlier_process(
          folder, options_.stop_time, [] { return true; }, [&] { return stopping(); }))
    folder.clean(record->has_model());
}

void TuningJobs::postpone(const std::string& id, const std::string& why) {
  postponed_[id] = std::chrono::steady_clock::now() + options_.retry_time;
  if (!warned_.insert(id + why).second) return;
  records_.add_event(id, tuning_event("warn", "The job waits: " + why));
  options_.log(fmt::format("makar: the fine-tuning job {} waits: {}", id, why));
}

RunOutcome TuningJobs::run_process(const std::string& id) {
  for (int starts = 1;; ++starts) {
    TuningRun process(records_, options_, *identities_, id,
                      [&](std::chrono::milliseconds time) { return wait(id, time); });
    const RunOutcome outcome = process.run();
    if (outcome.end != RunEnd::kEndedEarly) return outcome;
    if (starts == kMaxStarts)
      return {RunEnd::kFailed, fmt::format("other programs stopped the process {} times", starts)};
    if (wait(id, kRestartPause)) return {RunEnd::kStopped};
  }
}

bool TuningJobs::succeed(const TuningRecord& record) {
  const auto base = base_of(record);
  if (stopping()) return false;  // hashing the base was stopped; the next server publishes the model
  const std::string id = record.id();
  const std::string name =
      fmt::format("ft:{}:{}:{}", record.job["model"].get<std::string>(),
                  record.job["suffix"].get<std::string>(), id.substr(id.find('-') + 1, 8));
  return records_.succeed(id, name, [&](const TuningRecord& done) { return publish(done, base); });
}

void TuningJobs::work(const std::string& id) {
  const RunOutcome outcome = run_process(id);
  const auto record = records_.get(id);
  if (!record) return;
  bool stored = true;
  if (outcome.end == RunEnd::kFailed) stored = records_.fail(id, outcome.error);
  if (outcome.end == RunEnd::kFinished) stored = succeed(*record);
  // A job that is not over continues with the next server, or later.
  if (records_.is_over(id)) return clean(id);
  if (stopping()) return;
  if (outcome.end == RunEnd::kWaiting) postpone(id, outcome.error);
  if (!stored) postpone(id, "the end of the job cannot be stored");
}

}  // namespace makar
