#include "train/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "formats/config.h"
#include "formats/safetensors.h"

namespace makar {
namespace {

namespace fs = std::filesystem;
constexpr const char* kMarker = "/complete.json";

void sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

// The step in the name of a checkpoint folder, at most 15 digits; -1 for other names.
int64_t step_in_name(const std::string& name) {
  constexpr std::string_view kPrefix = "checkpoint-";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size() || name.size() > kPrefix.size() + 15)
    return -1;
  int64_t n = 0;
  for (const char c : name.substr(kPrefix.size())) {
    if (c < '0' || c > '9') return -1;
    n = n * 10 + (c - '0');
  }
  return n;
}

Json state_json(const RunState& s) {
  Json out = {{"step", s.step},        {"skipped", s.skipped},       {"bad_steps", s.bad_steps},
              {"best", s.best},        {"since_best", s.since_best}, {"validations", s.validations},
              {"settings", s.settings}};
  if (!s.task.values.is_null()) out["task"] = s.task.values;
  return out;
}

Result<RunState> read_state(const std::string& folder) {
  MAKAR_TRY(const Config c, Config::read(folder, "trainer_state.json"));
  constexpr int64_t kMaxInteger = int64_t{1} << 50;
  RunState s;
  MAKAR_TRY(s.step, c.integer("step", 0, kMaxInteger));
  MAKAR_TRY(s.skipped, c.integer("skipped", 0, kMaxInteger));
  MAKAR_TRY(s.bad_steps, c.integer("bad_steps", 0, kMaxInteger));
  MAKAR_TRY(s.best, c.number("best", -1e300, 1e300));
  MAKAR_TRY(s.since_best, c.integer("since_best", 0, kMaxInteger));
  MAKAR_TRY(s.validations, c.integer("validations", 0, kMaxInteger));
  MAKAR_TRY(const Config settings, c.object("settings"));
  s.settings = settings.json();
  s.task.values = c.json().value("task", Json());
  return s;
}

Status check_sums(const std::string& folder) {
  MAKAR_TRY(const Config marker, Config::read(folder, "complete.json"));
  for (const std::string& file : marker.keys()) {
    MAKAR_TRY(const std::string expected, marker.text(file));
    if (file.find('/') != std::string::npos) return marker.field_error(file, "must be a file of the folder");
    MAKAR_TRY(const std::string found, sha256_of_file(folder + "/" + file));
    if (found != expected)
      return error_at(folder + "/" + file,
                      "the checksum differs from the one in complete.json; the file is damaged");
  }
  return Done{};
}

Status restore_tensor(const Safetensors& file, const std::string& name, Tensor& into) {
  MAKAR_TRY(const Tensor t, file.tensor(name));
  if (!(t.shape() == into.shape()) || t.dtype() != into.dtype())
    return error_at(file.place(), "tensor '{}' is {} {} where {} {} is expected", name,
                    makar::name(t.dtype()), t.shape().text(), makar::name(into.dtype()), into.shape().text());
  into.memory().copy_in(into.address(), t.raw(), t.bytes());
  return Done{};
}

// Copies of the tensors whose names have this prefix, without it.
Result<std::map<std::string, Tensor>> tensors_under(const Safetensors& file, const std::string& prefix) {
  std::map<std::string, Tensor> out;
  for (const auto& name : file.names())
    if (name.starts_with(prefix)) {
      MAKAR_TRY(const Tensor t, file.tensor(name));
      out[name.substr(prefix.size())] = t.clone();
    }
  return out;
}

Status restore(const std::string& folder, const TrainedModels& models, Optimizers& optimizers,
               Averages& averages, TaskState& task) {
  MAKAR_TRY(const auto file, Safetensors::open(folder + "/state.safetensors"));
  Status status = Done{};
  models.each_parameter([&](const std::string& name, Parameter& p) {
    if (status.ok()) status = restore_tensor(*file, "parameter." + name, p.value);
  });
  MAKAR_RETURN_IF_ERROR(std::move(status));
  for (auto& average : averages)
    MAKAR_RETURN_IF_ERROR(restore_tensor(*file, "average." + average.first, average.second));
  MAKAR_TRY(const auto moments, tensors_under(*file, "optimizer."));
  MAKAR_TRY(task.tensors, tensors_under(*file, "task."));
  return optimizers.restore(moments);
}

}  // namespace

std::vector<std::string> checkpoints(const std::string& run) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code code;
  for (fs::directory_iterator it(run, code), end; !code && it != end; it.increment(code)) {
    const int64_t n = step_in_name(it->path().filename().string());
    if (n >= 0 && is_file(it->path().string() + kMarker)) found.emplace_back(n, it->path().string());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> out;
  for (auto& f : found) out.push_back(f.second);
  return out;
}

Snapshot take_snapshot(const RunState& state, const TrainedModels& models, const Optimizers& optimizers,
                       const Averages& averages, bool copied) {
  Snapshot out{state, {}};
  const auto add = [&](const std::string& name, const Tensor& t) {
    out.tensors.push_back({name, copied && t.memory().is_host() ? t.clone() : t.host()});
  };
  models.each_parameter(
      [&](const std::string& name, const Parameter& p) { add("parameter." + name, p.value); });
  for (const auto& [name, t] : optimizers.state()) add("optimizer." + name, t);
  for (const auto& [name, t] : averages) add("average." + name, t);
  for (const auto& [name, t] : state.task.tensors) add("task." + name, t);
  return out;
}

namespace {

// Writes all files of a checkpoint into an empty folder; the marker with their checksums is last.
Status write_checkpoint(const std::string& folder, const Snapshot& snapshot) {
  MAKAR_RETURN_IF_ERROR(make_folder(folder));
  MAKAR_RETURN_IF_ERROR(write_safetensors(folder + "/state.safetensors", snapshot.tensors));
  MAKAR_RETURN_IF_ERROR(
      write_file(folder + "/trainer_state.json", state_json(snapshot.state).dump(2) + "\n"));
  Json marker;
  for (const char* file : {"state.safetensors", "trainer_state.json"}) {
    MAKAR_TRY(marker[file], sha256_of_file(folder + "/" + file));
  }
  return write_file(folder + kMarker, marker.dump(2) + "\n");
}

// Removes the marker first, so that an interrupted removal leaves no folder that looks complete.
void remove_checkpoint(const std::string& folder) {
  std::error_code code;
  fs::remove(folder + kMarker, code);
  fs::remove_all(folder, code);
}

}  // namespace

Status save_checkpoint(const std::string& run, const Snapshot& snapshot, int64_t keep) {
  const int64_t step = snapshot.state.step;
  const std::string folder = fmt::format("{}/checkpoint-{}", run, step), temporary = folder + ".tmp";
  // A complete checkpoint of this step has the same content, so it is not written again.
  if (!is_file(folder + kMarker) || !check_sums(folder).ok()) {
    std::error_code code;
    fs::remove_all(temporary, code);  // left by an interrupted save
    if (const Status status = write_checkpoint(temporary, snapshot); !status.ok()) {
      fs::remove_all(temporary, code);
      const Error& e = status.error();
      return error_of(e.kind, e.place,
                      "{}; the checkpoint of step {} was not written, older ones are untouched", e.message,
                      step);
    }
    remove_checkpoint(folder);  // an incomplete or damaged checkpoint of this step
    if (::rename(temporary.c_str(), folder.c_str()) != 0) return io_error(folder, "rename into place");
    sync_folder(run);
  }
  // Remove older checkpoints only now. Newer ones are damaged (otherwise the run would have resumed from
  // them) and are not counted.
  int64_t count = 0;
  for (const std::string& other : checkpoints(run))
    if (step_in_name(fs::path(other).filename().string()) <= step && ++count > keep) remove_checkpoint(other);
  return Done{};
}

void remove_checkpoints(const std::string& run) {
  for (const std::string& folder : checkpoints(run)) remove_checkpoint(folder);
  remove_incomplete_checkpoints(run);
}

void remove_incomplete_checkpoints(const std::string& run) {
  std::vector<std::string> found;
  std::error_code code;
  for (fs::directory_iterator it(run, code), end; !code && it != end; it.increment(code)) {
    const std::string name = it->path().filename().string();
    const bool temporary = name.ends_with(".tmp") && step_in_name(name.substr(0, name.size() - 4)) >= 0;
    if (temporary || (step_in_name(name) >= 0 && !is_file(it->path().string() + kMarker)))
      found.push_back(it->path().string());
  }
  for (const std::string& folder : found) fs::remove_all(folder, code);
}

Result<std::optional<RunState>> load_checkpoint(const std::string& run, const TrainedModels& models,
                                                Optimizers& optimizers, Averages& averages,
                                                std::vector<std::string>& skipped) {
  for (const std::string& folder : checkpoints(run)) {
    const Status sums = check_sums(folder);
    if (!sums.ok()) {
      skipped.push_back(sums.error().text() + "; the previous checkpoint is used instead");
      continue;
    }
    MAKAR_TRY(RunState state, read_state(folder));
    MAKAR_RETURN_IF_ERROR(restore(folder, models, optimizers, averages, state.task));
    return std::optional<RunState>(state);
  }
  return std::optional<RunState>();
}

}  // namespace makar
