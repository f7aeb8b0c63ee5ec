#include "serve/tuning/tuning_run.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/replace.h"
#include "serve/tuning/job.h"
#include "serve/tuning/job_process.h"
#include "serve/tuning/start_limited.h"

namespace makar {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kRunPoll{300}, kEndPoll{100};
constexpr std::chrono::seconds kSaveInterval{10};

}  // namespace

TuningRun::TuningRun(TuningRecords& records, const TuningOptions& options, BaseIdentities& identities,
                     std::string id, Wait wait)
    : records_(records),
      options_(options),
      identities_(identities),
      id_(std::move(id)),
      folder_(records.folder(id_)),
      wait_(std::move(wait)) {}

RunOutcome TuningRun::run() {
  RunOutcome out = run_process();
  if (out.end == RunEnd::kFailed && is_disk_full(out.error)) out.end = RunEnd::kWaiting;
  out.error = without_paths(out.error);
  return out;
}

RunOutcome TuningRun::run_process() {
  const auto record = records_.get(id_);
  if (!record) return {RunEnd::kStopped};
  record_ = *record;
  const auto is_over = [&] { return records_.is_over(id_); };
  if (!end_earlier_process(folder_, options_.stop_time, is_over, [&] { return wait_({}) && !is_over(); }))
    return {RunEnd::kWaiting, "the process of an earlier server does not end"};
  start_ = saved_ = Clock::now();
  step_ = folder_.last_step_with_event("train_loss");
  validation_ = folder_.last_step_with_event("valid_loss");
  if (folder_.run_finished()) {
    report_log();
    return {RunEnd::kFinished};
  }
  const auto command = prepare();
  if (!command.ok()) return {RunEnd::kWaiting, command.error().text()};
  if (!records_.start(id_))
    return {is_over() ? RunEnd::kStopped : RunEnd::kWaiting, "the job cannot be stored"};
  start_ = saved_ = Clock::now();
  if (const std::string error = exceeded_limit(); !error.empty()) return {RunEnd::kFailed, error};
  const auto process =
      start_limited(*command, {folder_.path(), folder_.output(), folder_.process_stat(), options_.memory});
  if (!process.ok()) return {RunEnd::kFailed, process.error().text()};
  return watch(*process);
}

// The base must be the same at every start: a run does not continue on other weights. Returns the command.
Result<std::vector<std::string>> TuningRun::prepare() {
  MAKAR_TRY(base_, options_.base(record_.job["model"].get<std::string>()));
  MAKAR_TRY(const BaseIdentity identity,
            identities_.check(base_.name, base_.path, record_.base, "the job started"));
  records_.set_base(id_, identity);
  MAKAR_TRY(const std::string link, link_base(folder_.path(), base_.path));
  return options_.command(record_.job, {base_.name, link},
                          folder_.files(!record_.job["validation_file"].is_null()));
}

// Clients see the names that they know, and no paths of the server.
std::string TuningRun::without_paths(std::string text) const {
  std::error_code failed;
  const auto absolute = [&](const std::string& path) {
    return std::filesystem::absolute(path, failed).string();
  };
  const std::string extension = std::filesystem::path(base_.path).extension().string();
  for (const auto& [path, name] : {std::pair<std::string, std::string>(absolute(folder_.path()) + "/", ""),
                                   {folder_.path() + "/", ""},
                                   {base_.path.empty() ? "" : absolute(base_.path), base_.name},
                                   {kBaseLink + extension, base_.name},
                                   {kBaseLink, base_.name},
                                   {kTrainingName, "training_file"},
                                   {kValidationName, "validation_file"}})
    text = replace_all(text, path, name);
  return text;
}

double TuningRun::seconds() const {
  return record_.seconds + std::chrono::duration<double>(Clock::now() - start_).count();
}

std::string TuningRun::exceeded_limit() const {
  if (options_.max_seconds > 0 && seconds() >= options_.max_seconds)
    return fmt::format("the job ran for {:.4g} minutes, the limit of the server's --fine-tuning-time",
                       options_.max_seconds / 60);
  if (const uint64_t bytes = folder_.bytes(); bytes > static_cast<uint64_t>(options_.disk))
    return fmt::format(
        "the checkpoints and logs of the job have {} bytes; the server's --fine-tuning-disk allows {}", bytes,
        options_.disk);
  return "";
}

RunOutcome TuningRun::watch(int process) {
  std::optional<Clock::time_point> killed;  // when a signal was sent
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(process, &status, WNOHANG);
    report_log();
    if (ended == process || (ended < 0 && errno != EINTR)) {
      records_.set_progress(id_, tokens_, seconds());
      return outcome(status);
    }
    if (killed) {
      if (Clock::now() - *killed > options_.stop_time) kill(-process, SIGKILL);
      std::this_thread::sleep_for(kEndPoll);
      continue;
    }
    (void)reserve_output(folder_.output());
    error_ = exceeded_limit();
    stopped_ = error_.empty() && wait_(kRunPoll);
    if (!stopped_ && error_.empty()) continue;
    // Only a job that the next server continues needs a checkpoint.
    const bool continues = stopped_ && !records_.is_over(id_);
    kill(-process, continues ? SIGTERM : SIGKILL);
    killed = Clock::now();
  }
}

RunOutcome TuningRun::outcome(int status) const {
  if (folder_.run_finished()) return {RunEnd::kFinished};
  if (stopped_) return {RunEnd::kStopped};
  if (!error_.empty()) return {RunEnd::kFailed, error_};
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  // The machine may stop all processes, this one before the server.
  if (signal == SIGTERM || signal == SIGINT || (signal == 0 && WEXITSTATUS(status) == 0))
    return {RunEnd::kEndedEarly};
  if (signal != 0)
    return {RunEnd::kFailed, fmt::format("signal {} ended the process; the machine may have too little "
                                         "memory for it",
                                         signal)};
  std::string message = folder_.last_output_line();
  if (message.empty()) message = "the process ended without a message";
  if (message.ends_with("out of memory"))
    message += fmt::format("; the server's --fine-tuning-memory allows {} MiB", options_.memory >> 20);
  return {RunEnd::kFailed, message};
}

// Reads the new lines of the run's log. A resumed run replaces its log by one that ends at its checkpoint; it
// is then read from the start.
void TuningRun::report_log() {
  struct stat log = {};
  const bool exists = ::stat(folder_.log().c_str(), &log) == 0;
  const uint64_t before = log_bytes_;
  if (exists && log.st_ino != log_inode_) log_inode_ = log.st_ino, log_bytes_ = 0, tokens_ = 0;
  if (exists && static_cast<uint64_t>(log.st_size) > log_bytes_) {
    std::ifstream in(folder_.log(), std::ios::binary);
    in.seekg(static_cast<std::streamoff>(log_bytes_));
    for (std::string text; std::getline(in, text) && !in.eof(); log_bytes_ += text.size() + 1)
      if (const auto line = parse_json(text, "line"); line.ok() && line->is_object()) report_line(*line);
  }
  if (log_bytes_ == before && Clock::now() - saved_ < kSaveInterval) return;
  records_.set_progress(id_, tokens_, seconds());
  saved_ = Clock::now();
}

// Steps and validations become events, each once even if a resumed run repeats it.
void TuningRun::report_line(const Json& line) {
  const Json step_field = line.value("step", Json()), loss = line.value("loss", Json()),
             tokens = line.value("tokens", Json()), validation = line.value("validation", Json());
  if (tokens.is_number_integer()) tokens_ += tokens.get<int64_t>();
  const int64_t step = step_field.is_number_integer() ? step_field.get<int64_t>() : 0;
  if (step > step_ && line.contains("lr")) {
    step_ = step;
    records_.add_event(id_, tuning_event("info", fmt::format("Step {}: training loss={}", step, dump(loss)),
                                         {{"step", step}, {"train_loss", loss}}));
  }
  if (step > validation_ && validation.is_object() && validation.contains("loss")) {
    validation_ = step;
    const Json& value = validation["loss"];
    records_.add_event(id_,
                       tuning_event("info", fmt::format("Step {}: validation loss={}", step, dump(value)),
                                    {{"step", step}, {"valid_loss", value}}));
  }
}

}  // namespace makar
