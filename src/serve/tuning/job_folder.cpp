#include "serve/tuning/job_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include "base/file.h"
#include "serve/files/line_file.h"

namespace makar {
namespace {

namespace fs = std::filesystem;
// Events are added to a file until it has kMaxEventBytes; then its tail remains.
constexpr size_t kMaxEventBytes = size_t{1} << 20, kEventTailBytes = size_t{512} << 10;
constexpr size_t kOutputTailBytes = size_t{64} << 10, kLogTailBytes = size_t{4} << 20;
constexpr size_t kMaxMessageBytes = 500;
constexpr std::string_view kCheckpointPrefix = "checkpoint-";

// The lines of a text that are JSON objects; others, such as an incomplete last line, are left out.
std::vector<Json> json_lines(std::string_view text) {
  std::vector<Json> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    auto json = parse_json(text.substr(0, end), "line", {1 << 20, 16});
    if (json.ok() && json->is_object()) out.push_back(std::move(*json));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// The integer member `key`, or -1.
int64_t integer_member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
}

// Replaces a file that is larger than `max_bytes` by its tail.
void keep_tail(const std::string& path, size_t max_bytes, size_t tail_bytes) {
  std::error_code failed;
  const uint64_t size = fs::file_size(path, failed);
  if (!failed && size > max_bytes) (void)write_file(path, file_tail(path, tail_bytes));
}

// The step of "checkpoint-STEP"; none for other names.
std::optional<int64_t> checkpoint_step(std::string_view name) {
  if (!name.starts_with(kCheckpointPrefix)) return std::nullopt;
  name.remove_prefix(kCheckpointPrefix.size());
  int64_t step = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (code != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

// {"step", "train_loss", "valid_loss"} of every step in the tail of a run's log.
std::map<int64_t, Json> logged_metrics(const std::string& log) {
  std::map<int64_t, Json> out;
  for (const Json& line : json_lines(file_tail(log, kLogTailBytes))) {
    const int64_t step = integer_member(line, "step");
    Json& metrics = out[step];
    metrics["step"] = step;
    if (line.contains("lr") && line.contains("loss")) metrics["train_loss"] = line["loss"];
    if (const Json validation = line.value("validation", Json());
        validation.is_object() && validation.contains("loss"))
      metrics["valid_loss"] = validation["loss"];
  }
  return out;
}

}  // namespace

std::string file_tail(const std::string& path, size_t max_bytes) {
  std::ifstream in(path, std::ios::binary);
  std::error_code failed;
  const uint64_t size = fs::file_size(path, failed);
  if (!in || failed) return "";
  const uint64_t skipped = size > max_bytes ? size - max_bytes : 0;
  std::string out(static_cast<size_t>(size - skipped), '\0');
  in.seekg(static_cast<std::streamoff>(skipped));
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  if (skipped > 0) {  // the first line is incomplete
    const size_t end = out.find('\n');
    if (end != out.npos) out.erase(0, end + 1);
  }
  return out;
}

TuningFiles JobFolder::files(bool validation) const {
  if (!validation) return {kTrainingName, "", kRunName};
  std::ifstream in(in_folder(kValidationName), std::ios::binary);
  return {kTrainingName, kValidationName, kRunName, std::count(std::istreambuf_iterator<char>(in), {}, '\n')};
}

Status JobFolder::create(const std::string& training, const std::string& validation) const {
  MAKAR_RETURN_IF_ERROR(make_folder(path_));
  for (const auto& [data, name, field] : {std::tuple(training, kTrainingName, "training_file"),
                                          {validation, kValidationName, "validation_file"}}) {
    if (data.empty()) continue;
    std::error_code failed;
    fs::create_hard_link(data, in_folder(name), failed);
    if (failed) fs::copy_file(data, in_folder(name), failed);
    if (failed && !path_exists(data)) return error_of(Error::Kind::kNotFound, field, "the file was deleted");
    if (failed) return error_of(Error::Kind::kIo, field, "cannot be stored: {}", failed.message());
  }
  return Done{};
}

void JobFolder::remove() const {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void JobFolder::remove_model() const {
  std::error_code ignored;
  fs::remove_all(run(), ignored);
}

void JobFolder::clean(bool succeeded) const {
  for (const char* name : {kTrainingName, kValidationName}) ::unlink(in_folder(name).c_str());
  ::unlink(process_stat().c_str());
  std::vector<fs::path> unneeded;
  std::error_code failed;
  for (fs::directory_iterator it(path_, failed), end; !failed && it != end; it.increment(failed))
    if (it->is_symlink(failed)) unneeded.push_back(it->path());  // to the base
  // The list is written before the checkpoints in it are deleted.
  if (const std::vector<Json> list = checkpoints(); !list.empty())
    (void)write_file(list_path(), dump(Json(list)));
  for (fs::directory_iterator it(run(), failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    // Folders are checkpoints and prepared data; TensorBoard's events repeat log.jsonl.
    const bool needed =
        succeeded ? !it->is_directory(failed) && name.find("tfevents") == name.npos : name == "log.jsonl";
    if (!needed) unneeded.push_back(it->path());
  }
  for (const fs::path& path : unneeded) fs::remove_all(path, failed);
  keep_tail(log(), kLogTailBytes, kLogTailBytes);
  keep_tail(output(), kOutputTailBytes, kOutputTailBytes);
}

void JobFolder::add_event(const Json& event) const {
  keep_tail(events_path(), kMaxEventBytes, kEventTailBytes);
  auto file = LineFile::open(events_path());
  if (!file.ok()) return;
  // A line that a killed process left incomplete must not swallow this one.
  const bool complete = file_tail(events_path(), 1).empty();
  (void)file->append((complete ? "" : "\n") + dump(event) + "\n");
}

std::vector<Json> JobFolder::events() const {
  std::vector<Json> out = json_lines(file_tail(events_path(), kEventTailBytes));
  std::reverse(out.begin(), out.end());
  if (out.size() > kMaxEvents) out.resize(kMaxEvents);
  return out;
}

int64_t JobFolder::last_step_with_event(const char* metric) const {
  int64_t last = 0;
  for (const Json& event : events())
    if (const Json data = event.value("data", Json()); data.is_object() && data.contains(metric))
      last = std::max(last, integer_member(data, "step"));
  return last;
}

std::vector<Json> JobFolder::checkpoints() const {
  std::map<int64_t, Json, std::greater<>> by_step;
  if (const auto list = read_json(list_path(), {1 << 20, 16}); list.ok() && list->is_array())
    for (const Json& one : *list)
      if (one.is_object()) by_step.emplace(integer_member(one, "step_number"), one);
  const std::map<int64_t, Json> metrics = logged_metrics(log());
  std::error_code failed;
  for (fs::directory_iterator it(run(), failed), end; !failed && it != end; it.increment(failed)) {
    const auto step = checkpoint_step(it->path().filename().string());
    struct stat marker = {};  // written last
    if (!step || ::stat((it->path() / "complete.json").c_str(), &marker) != 0) continue;
    const auto known = metrics.find(*step);
    by_step.emplace(*step,
                    Json{{"object", "fine_tuning.job.checkpoint"},
                         {"id", "ftckpt-" + id_.substr(id_.find('-') + 1) + "-" + std::to_string(*step)},
                         {"created_at", static_cast<int64_t>(marker.st_mtime)},
                         {"fine_tuned_model_checkpoint", nullptr},
                         {"fine_tuning_job_id", id_},
                         {"step_number", *step},
                         {"metrics", known == metrics.end() ? Json::object() : known->second}});
  }
  std::vector<Json> out;
  for (const auto& [step, one] : by_step) out.push_back(one);
  return out;
}

std::string JobFolder::last_output_line() const {
  const std::string text = file_tail(output(), kOutputTailBytes);
  const size_t end = text.find_last_not_of("\r\n");
  if (end == text.npos) return "";
  const size_t before = text.find_last_of("\r\n", end), begin = before == text.npos ? 0 : before + 1;
  return text.substr(begin, std::min(kMaxMessageBytes, end + 1 - begin));
}

bool JobFolder::run_finished() const {
  const auto run_json = read_json(run() + "/run.json");
  return run_json.ok() && run_json->is_object() && run_json->value("finished", Json(false)) == Json(true);
}

bool JobFolder::run_locked() const {
  const int folder = ::open(run().c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (folder < 0) return false;
  const bool locked = ::flock(folder, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(folder);
  return locked;
}

uint64_t JobFolder::bytes() const {
  uint64_t sum = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(path_, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code vanished;  // a checkpoint that the process deletes now
    const bool data = it->is_symlink(vanished) || it->path() == in_folder(kTrainingName) ||
                      it->path() == in_folder(kValidationName);
    if (const uint64_t size = it->is_regular_file(vanished) && !data ? it->file_size(vanished) : 0; !vanished)
      sum += size;
  }
  return sum;
}

}  // namespace makar
