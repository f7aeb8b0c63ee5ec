#include "serve/tuning/tuning_jobs.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/quote.h"
#include "serve/tuning/job.h"

namespace makar {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMaxUnfinishedJobs = 16, kMaxEvents = 1000, kMaxLogBytes = size_t{64} << 20,
                 kMaxErrorBytes = 500;
constexpr std::string_view kJobPrefix = "ftjob-", kCheckpointPrefix = "checkpoint-";
constexpr auto kJobPoll = std::chrono::milliseconds(300);
constexpr auto kStopTimeout = std::chrono::seconds(20);  // for a checkpoint after SIGTERM

bool is_job(const Json& job) {
  if (!job.is_object()) return false;
  for (const char* key : {"id", "status", "model", "training_file"})
    if (!job.contains(key) || !job[key].is_string()) return false;
  return job.contains("created_at") && job["created_at"].is_number_integer() &&
         job.contains("hyperparameters");
}

// The last lines of a text file as JSON objects, oldest first; unreadable ones are left out.
std::vector<Json> json_lines(const std::string& path, size_t max) {
  std::vector<Json> out;
  const auto text = read_file(path, kMaxLogBytes);
  if (!text.ok()) return out;
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    if (auto json = parse_json(std::string_view(*text).substr(at, end - at), "line");
        json.ok() && json->is_object())
      out.push_back(std::move(*json));
    at = end + 1;
  }
  if (out.size() > max) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(max));
  return out;
}

// The last line of a process's output, for the error of a failed job.
std::string last_line(const std::string& path) {
  const auto text = read_file(path, kMaxLogBytes);
  if (!text.ok()) return "";
  const size_t end = text->find_last_not_of("\r\n");
  if (end == text->npos) return "";
  const size_t begin = text->find_last_of("\r\n", end);
  return text->substr(begin == text->npos ? 0 : begin + 1,
                      std::min<size_t>(kMaxErrorBytes, end - (begin == text->npos ? 0 : begin)));
}

// Whether the run in the folder of a job has finished.
bool run_finished(const std::string& folder) {
  const auto run = read_json(folder + "/run/run.json");
  return run.ok() && run->is_object() && run->value("finished", Json(false)) == Json(true);
}

}  // namespace

TuningJobs::TuningJobs(FileStore& files, TuningOptions options)
    : files_(files), options_(std::move(options)) {
  load();
  for (const auto& [id, entry] : jobs_)
    if (entry.job["status"] == "succeeded" && options_.publish)
      options_.publish(entry.job, folder(id) + "/run");
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

void TuningJobs::load() {
  std::error_code failed;
  for (fs::directory_iterator it(files_.folder(), failed), end; !failed && it != end; it.increment(failed)) {
    const std::string id = it->path().stem().string();
    if (!id.starts_with(kJobPrefix) || it->path().extension() != ".json") continue;
    const auto json = read_json(it->path().string(), {1 << 20, 16});
    if (!json.ok() || !json->is_object() || !json->contains("job") || !is_job((*json)["job"])) continue;
    const Json owner = json->value("owner", Json());
    if ((*json)["job"]["id"] != Json(id) || !owner.is_string()) continue;
    // Jobs stored before they had numbers run in the order of their times.
    const Json number = json->contains("number") ? (*json)["number"] : (*json)["job"]["created_at"];
    jobs_[id] = {(*json)["job"], owner.get<std::string>(),
                 json->value("cancelling", Json(false)) == Json(true),
                 number.is_number_unsigned() ? std::min(number.get<uint64_t>(), uint64_t{1} << 60) : 0};
  }
}

Status TuningJobs::save(const Entry& entry) const {
  return write_file(files_.folder() + "/" + entry.job["id"].get<std::string>() + ".json",
                    dump({{"job", entry.job},
                          {"owner", entry.owner},
                          {"cancelling", entry.cancelling},
                          {"number", entry.number}}));
}

Result<Json> TuningJobs::create(const std::string& owner, const Json& body) {
  MAKAR_TRY(const Json job, new_tuning_job(body));
  for (const char* key : {"training_file", "validation_file"}) {
    if (job[key].is_null()) continue;
    const auto metadata = files_.find(owner, job[key].get<std::string>());
    if (!metadata.ok()) return Error{metadata.error().kind, key, metadata.error().message};
    if ((*metadata)["purpose"] != "fine-tune")
      return error_at(key, "is a file for {}; upload one with the purpose fine-tune",
                      quote((*metadata)["purpose"].get<std::string>()));
  }
  const std::string id = job["id"].get<std::string>();
  MAKAR_RETURN_IF_ERROR(make_folder(folder(id)));
  const auto refuse = [&](const Error& error) {
    std::error_code ignored;
    fs::remove_all(folder(id), ignored);
    return error;
  };
  // An unknown model is refused now; the files are linked, so a client may delete them.
  if (const auto command = prepare(job, owner); !command.ok()) return refuse(command.error());
  {
    const std::lock_guard lock(mutex_);
    const auto unfinished = std::count_if(jobs_.begin(), jobs_.end(), [&](const auto& one) {
      return one.second.owner == owner && !tuning_is_over(one.second.job);
    });
    if (static_cast<size_t>(unfinished) >= kMaxUnfinishedJobs)
      return refuse(
          error_of(Error::Kind::kLimit, "memory", "{} jobs are unfinished; try again later", unfinished));
    uint64_t last = 0;
    for (const auto& [other, entry] : jobs_) last = std::max(last, entry.number);
    const Entry entry{job, owner, false, last + 1};
    if (const Status saved = save(entry); !saved.ok()) return refuse(saved.error());
    jobs_[id] = entry;
  }
  add_event(id, tuning_event("info", "Created fine-tuning job: " + id));
  wake_.notify_all();
  return job;
}

Result<Json> TuningJobs::find(const std::string& owner, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = jobs_.find(id);
  if (it == jobs_.end() || it->second.owner != owner)
    return error_of(Error::Kind::kNotFound, "fine_tuning_job_id", "fine-tuning job {} not found", quote(id));
  return it->second.job;
}

Result<Json> TuningJobs::cancel(const std::string& owner, const std::string& id) {
  MAKAR_TRY(const Json job, find(owner, id));
  if (tuning_is_over(job))
    return error_at("fine_tuning_job_id", "the job has already ended: {}", job["status"].get<std::string>());
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = jobs_.at(id);
    entry.cancelling = true;
    if (entry.job["status"] == "queued")
      entry.job["status"] = "cancelled", entry.job["finished_at"] = std::time(nullptr);
    MAKAR_RETURN_IF_ERROR(save(entry));
  }
  add_event(id, tuning_event("info", "The job is cancelled"));
  wake_.notify_all();
  return find(owner, id);
}

std::vector<Json> TuningJobs::list(const std::string& owner) const {
  std::vector<Json> out;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : jobs_)
      if (entry.owner == owner) out.push_back(entry.job);
  }
  sort_newest_first(out);
  return out;
}

Result<std::vector<Json>> TuningJobs::events(const std::string& owner, const std::string& id) const {
  MAKAR_RETURN_IF_ERROR(find(owner, id));
  std::vector<Json> out = json_lines(folder(id) + "/events.jsonl", kMaxEvents);
  std::reverse(out.begin(), out.end());
  return out;
}

Result<std::vector<Json>> TuningJobs::checkpoints(const std::string& owner, const std::string& id) const {
  MAKAR_TRY(const Json job, find(owner, id));
  std::vector<Json> out;
  std::error_code failed;
  for (fs::directory_iterator it(folder(id) + "/run", failed), end; !failed && it != end;
       it.increment(failed)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kCheckpointPrefix)) continue;
    const std::string step = name.substr(kCheckpointPrefix.size());
    if (step.find_first_not_of("0123456789") != step.npos) continue;
    out.push_back({{"object", "fine_tuning.job.checkpoint"},
                   {"id", "ftckpt-" + id.substr(kJobPrefix.size()) + "-" + step},
                   {"created_at", job["created_at"]},
                   {"fine_tuned_model_checkpoint", nullptr},
                   {"fine_tuning_job_id", id},
                   {"step_number", std::strtoll(step.c_str(), nullptr, 10)},
                   {"metrics", Json::object()}});
  }
  std::sort(out.begin(), out.end(),
            [](const Json& a, const Json& b) { return a["step_number"] > b["step_number"]; });
  return out;
}

void TuningJobs::change(const std::string& id, const Json& fields) {
  const std::lock_guard lock(mutex_);
  Entry& entry = jobs_.at(id);
  for (const auto& [key, value] : fields.items()) entry.job[key] = value;
  (void)save(entry);  // if the disk is full, the job continues, and the next server runs it again
}

void TuningJobs::add_event(const std::string& id, const Json& event) const {
  std::ofstream(folder(id) + "/events.jsonl", std::ios::app) << dump(event) << '\n';
}

bool TuningJobs::cancelled(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return jobs_.at(id).cancelling;
}

void TuningJobs::run() {
  for (;;) {
    std::string next;
    {
      std::unique_lock lock(mutex_);
      const auto find_next = [&] {
        const Entry* oldest = nullptr;
        for (const auto& [id, entry] : jobs_)
          if (!tuning_is_over(entry.job) && (!oldest || entry.number < oldest->number))
            oldest = &entry, next = id;
        return oldest != nullptr;
      };
      wake_.wait(lock, [&] { return stopping_ || find_next(); });
      if (stopping_) return;
    }
    work(next);
  }
}

// Links the files to names with the extension of their format, and builds the command.
Result<std::vector<std::string>> TuningJobs::prepare(const Json& job, const std::string& owner) const {
  const std::string job_folder = folder(job["id"].get<std::string>());
  TuningFiles links{job_folder + "/training.jsonl", "", job_folder + "/run"};
  if (!job["validation_file"].is_null()) links.validation = job_folder + "/validation.jsonl";
  for (const auto& [key, path] :
       {std::pair("training_file", links.training), {"validation_file", links.validation}}) {
    if (path.empty() || is_file(path)) continue;
    MAKAR_TRY(const std::string data, files_.path(owner, job[key].get<std::string>()));
    std::error_code failed;
    fs::create_hard_link(data, path, failed);
    if (failed) fs::copy_file(data, path, failed);
    if (failed) return error_of(Error::Kind::kIo, path, "cannot be created: {}", failed.message());
  }
  return options_.command(job, links);
}

void TuningJobs::work(const std::string& id) {
  Json job;
  std::string owner;
  {
    const std::lock_guard lock(mutex_);
    job = jobs_.at(id).job, owner = jobs_.at(id).owner;
  }
  const auto end = [&](const char* status, const std::string& why) {
    change(id,
           {{"status", status},
            {"finished_at", std::time(nullptr)},
            {"error", why.empty() ? Json() : Json{{"code", status}, {"message", why}, {"param", nullptr}}}});
    add_event(id,
              tuning_event(why.empty() ? "info" : "error",
                           why.empty() ? "The job ended: " + std::string(status) : "The job failed: " + why));
  };
  if (cancelled(id)) return end("cancelled", "");
  const auto command = prepare(job, owner);
  const auto process = command.ok() ? start_limited(*command, folder(id) + "/output.txt", options_.memory)
                                    : Result<int>(command.error());
  if (!process.ok()) return end("failed", process.error().text());
  change(id, {{"status", "running"}});
  add_event(id, tuning_event("info", "Fine-tuning started"));
  const bool ended_by_itself = watch(id, *process);
  if (run_finished(folder(id))) {
    const std::string name = fmt::format("ft:{}:{}:{}", job["model"].get<std::string>(),
                                         job["suffix"].get<std::string>(), id.substr(kJobPrefix.size(), 8));
    change(id, {{"fine_tuned_model", name}});
    job["fine_tuned_model"] = name;
    if (options_.publish) options_.publish(job, folder(id) + "/run");
    add_event(id, tuning_event("info", "New fine-tuned model created: " + name));
    return end("succeeded", "");
  }
  if (cancelled(id)) return end("cancelled", "");
  if (!ended_by_itself) return;
  const std::string message = last_line(folder(id) + "/output.txt");
  end("failed", !message.empty() ? message
                                 : "the process ended without a message; it may have been killed, or have "
                                   "reached the memory limit of jobs");
}

// Reads the new lines of the run's log: steps become events. A resumed run truncates its log to its
// checkpoint; the log is then read from the start, and steps are reported only once.
void TuningJobs::report_log(const std::string& id, LogPosition& position, bool report) {
  const std::string path = folder(id) + "/run/log.jsonl";
  std::error_code failed;
  const uint64_t size = fs::file_size(path, failed);
  if (failed || size == position.bytes) return;
  if (size < position.bytes) position.bytes = 0, position.tokens = 0;
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(position.bytes));
  for (std::string text; std::getline(in, text) && !in.eof(); position.bytes += text.size() + 1) {
    const auto line = parse_json(text, "line");
    if (!line.ok() || !line->is_object()) continue;
    const Json step = line->value("step", Json()), loss = line->value("loss", Json()),
               tokens = line->value("tokens", Json());
    if (tokens.is_number_integer()) position.tokens += tokens.get<int64_t>();
    if (!step.is_number_integer() || !line->contains("lr") || step.get<int64_t>() <= position.step) continue;
    position.step = step.get<int64_t>();
    if (report)
      add_event(id, tuning_event("info", fmt::format("Step {}: training loss={}", position.step, loss.dump()),
                                 {{"step", position.step}, {"train_loss", loss}}));
  }
  change(id, {{"trained_tokens", position.tokens}});
}

bool TuningJobs::watch(const std::string& id, int process) {
  LogPosition position;
  report_log(id, position, false);                                 // what an earlier server has reported
  std::optional<std::chrono::steady_clock::time_point> stop_sent;  // time of SIGTERM
  bool ended_by_itself = true;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(process, &status, WNOHANG);
    report_log(id, position, true);
    if (ended == process || (ended < 0 && errno != EINTR)) return ended_by_itself;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kJobPoll, [&] { return (stopping_ || jobs_.at(id).cancelling) && !stop_sent; });
      if (!stopping_ && !jobs_.at(id).cancelling) continue;
    }
    ended_by_itself = false;
    const auto now = std::chrono::steady_clock::now();
    if (!stop_sent) kill(-process, SIGTERM), stop_sent = now;
    if (now - *stop_sent > kStopTimeout) kill(-process, SIGKILL);
  }
}

}  // namespace makar
