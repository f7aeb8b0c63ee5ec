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

int64_t number_of(const std::string& name) {
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
  return {{"step", s.step},        {"skipped", s.skipped},       {"bad_steps", s.bad_steps},
          {"best", s.best},        {"since_best", s.since_best}, {"validations", s.validations},
          {"settings", s.settings}};
}

Result<RunState> read_state(const std::string& folder) {
  MAKAR_TRY(const Config c, Config::read(folder, "trainer_state.json"));
  constexpr int64_t kMost = int64_t{1} << 50;
  RunState s;
  MAKAR_TRY(s.step, c.integer("step", 0, kMost));
  MAKAR_TRY(s.skipped, c.integer("skipped", 0, kMost));
  MAKAR_TRY(s.bad_steps, c.integer("bad_steps", 0, kMost));
  MAKAR_TRY(s.best, c.number("best", -1e300, 1e300));
  MAKAR_TRY(s.since_best, c.integer("since_best", 0, kMost));
  MAKAR_TRY(s.validations, c.integer("validations", 0, kMost));
  MAKAR_TRY(const Config settings, c.object("settings"));
  s.settings = settings.json();
  return s;
}

Status check_sums(const std::string& folder) {
  MAKAR_TRY(const Config marker, Config::read(folder, "complete.json"));
  for (const std::string& file : marker.keys()) {
    MAKAR_TRY(const std::string wanted, marker.text(file));
    if (file.find('/') != std::string::npos) return marker.wrong(file, "must be a file of the folder");
    MAKAR_TRY(const std::string found, sha256_of_file(folder + "/" + file));
    if (found != wanted) return error_at(folder + "/" + file, "its checksum is not the one of complete.json");
  }
  return Done{};
}

Status take(const Safetensors& file, const std::string& name, Tensor& into) {
  MAKAR_TRY(const Tensor t, file.tensor(name));
  if (!(t.shape() == into.shape()) || t.dtype() != into.dtype())
    return error_at(file.place(), "tensor '{}' has shape {} where {} is expected", name, t.shape().text(),
                    into.shape().text());
  std::memcpy(into.raw(), t.raw(), t.bytes());
  return Done{};
}

Status restore(const std::string& folder, Model& model, Optimizer& optimizer, Averages& averages) {
  MAKAR_TRY(const auto file, Safetensors::open(folder + "/state.safetensors"));
  for (const auto& p : model.parameters().all())
    if (p->trainable && !p->buffer) MAKAR_CHECK_OK(take(*file, "parameter." + p->name, p->value));
  for (auto& average : averages) MAKAR_CHECK_OK(take(*file, "average." + average.first, average.second));
  std::map<std::string, Tensor> moments;
  for (const auto& name : file->names())
    if (name.starts_with("optimizer.")) {
      MAKAR_TRY(const Tensor t, file->tensor(name));
      moments[name.substr(10)] = t.clone();
    }
  return optimizer.restore(moments);
}

}  // namespace

std::vector<std::string> checkpoints(const std::string& run) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code code;
  for (fs::directory_iterator it(run, code), end; !code && it != end; it.increment(code)) {
    const int64_t n = number_of(it->path().filename().string());
    if (n >= 0 && is_file(it->path().string() + kMarker)) found.emplace_back(n, it->path().string());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> out;
  for (auto& f : found) out.push_back(f.second);
  return out;
}

Snapshot take_snapshot(const RunState& state, const Model& model, const Optimizer& optimizer,
                       const Averages& averages, bool copied) {
  Snapshot out{state, {}};
  const auto add = [&](const std::string& name, const Tensor& t) {
    out.tensors.push_back({name, copied ? t.clone() : t});
  };
  for (const auto& p : model.parameters().all())
    if (p->trainable && !p->buffer) add("parameter." + p->name, p->value);
  for (const auto& [name, t] : optimizer.state()) add("optimizer." + name, t);
  for (const auto& [name, t] : averages) add("average." + name, t);
  return out;
}

Status save_checkpoint(const std::string& run, const Snapshot& snapshot, int64_t keep) {
  const RunState& state = snapshot.state;
  const std::string folder = fmt::format("{}/checkpoint-{}", run, state.step), temporary = folder + ".tmp";
  std::error_code code;
  fs::remove_all(temporary, code);  // of a run that was killed while saving
  fs::remove_all(folder, code);     // without a marker, or the same step again: equal by construction
  MAKAR_CHECK_OK(make_folder(temporary));
  const auto written = [&]() -> Status {
    MAKAR_CHECK_OK(write_safetensors(temporary + "/state.safetensors", snapshot.tensors));
    return write_file(temporary + "/trainer_state.json", state_json(state).dump(2) + "\n");
  }();
  if (!written.ok()) {
    fs::remove_all(temporary, code);
    const Error& e = written.error();
    return error_of(e.kind, e.place,
                    "{}; the checkpoint of step {} was not written, older ones are untouched", e.message,
                    state.step);
  }
  Json marker;
  for (const char* file : {"state.safetensors", "trainer_state.json"}) {
    MAKAR_TRY(marker[file], sha256_of_file(temporary + "/" + file));
  }
  sync_folder(temporary);
  if (::rename(temporary.c_str(), folder.c_str()) != 0)
    return error_of(Error::Kind::kIo, folder, "cannot rename into place: {}", std::strerror(errno));
  sync_folder(run);
  MAKAR_CHECK_OK(write_file(folder + kMarker, marker.dump(2) + "\n"));
  const auto all = checkpoints(run);
  for (size_t i = static_cast<size_t>(keep); i < all.size(); ++i) {
    fs::remove(all[i] + kMarker, code);  // first no longer good, then gone
    fs::remove_all(all[i], code);
  }
  return Done{};
}

Result<std::optional<RunState>> load_checkpoint(const std::string& run, Model& model, Optimizer& optimizer,
                                                Averages& averages, std::vector<std::string>& told) {
  for (const std::string& folder : checkpoints(run)) {
    const Status sums = check_sums(folder);
    if (!sums.ok()) {
      told.push_back(sums.error().text() + "; going back to the checkpoint before");
      continue;
    }
    MAKAR_TRY(const RunState state, read_state(folder));
    MAKAR_CHECK_OK(restore(folder, model, optimizer, averages));
    return std::optional<RunState>(state);
  }
  return std::optional<RunState>();
}

}  // namespace makar
