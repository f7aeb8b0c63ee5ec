#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/file.h"
#include "train/loop.h"
#include "train/svg.h"

namespace makar {
namespace {

constexpr size_t kMaxLogBytes = size_t{4} << 30, kMaxCurvePoints = 400;
constexpr std::string_view kFiles = "files.";  // flattened settings: checksums of models, by path

std::string log_path(const std::string& folder) { return folder + "/log.jsonl"; }

// Calls `visit` for every line that parses.
Status each_line(const std::string& folder,
                 const std::function<void(const std::string&, const Json&)>& visit) {
  if (!is_file(log_path(folder))) return Done{};
  MAKAR_TRY(const std::string text, read_file(log_path(folder), kMaxLogBytes));
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const auto json = parse_json(line, "log.jsonl");  // skips a line that an interruption truncated
    if (json.ok() && json->is_object() && json->contains("step") && (*json)["step"].is_number_integer())
      visit(line, *json);
  }
  return Done{};
}

Json number(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }

}  // namespace

Status RunLog::open(int64_t step) {
  MAKAR_RETURN_IF_ERROR(make_folder(folder_));
  std::string lines;
  if (step > 0)
    MAKAR_RETURN_IF_ERROR(each_line(folder_, [&](const std::string& line, const Json& json) {
      if (json["step"].get<int64_t>() <= step) lines += line + "\n";
    }));
  MAKAR_RETURN_IF_ERROR(write_file(log_path(folder_), lines));
  file_.reset(std::fopen(log_path(folder_).c_str(), "ab"));
  if (!file_) return error_of(Error::Kind::kIo, log_path(folder_), "cannot open: {}", std::strerror(errno));
  MAKAR_TRY(auto events, EventFile::create(folder_));
  events_.emplace(std::move(events));
  return Done{};
}

Status RunLog::line(const Json& json) {
  const std::string text = dump(json) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0)
    return error_of(Error::Kind::kIo, log_path(folder_), "cannot write: {}", std::strerror(errno));
  return Done{};
}

Status RunLog::step(const StepInfo& i) {
  Json out = {{"step", i.step},
              {"total", i.total},
              {"loss", number(i.loss)},
              {"norm", number(i.norm)},
              {"lr", i.lr},
              {"seconds", i.seconds},
              {"tokens", i.tokens},
              {"flops", i.flops},
              {"applied", i.applied},
              {"prepare_seconds", i.prepare_seconds}};
  for (const auto& [name, value] : i.metrics) {
    out["metrics"][name] = number(value);
    MAKAR_RETURN_IF_ERROR(events_->scalar("train/" + name, i.step, value));
  }
  MAKAR_RETURN_IF_ERROR(line(out));
  MAKAR_RETURN_IF_ERROR(events_->scalar("train/loss", i.step, i.loss));
  MAKAR_RETURN_IF_ERROR(events_->scalar("train/grad_norm", i.step, i.norm));
  return events_->scalar("train/learning_rate", i.step, i.lr);
}

Status RunLog::validation(int64_t step, const Metrics& metrics) {
  Json values;
  for (const auto& [name, value] : metrics) {
    values[name] = number(value);
    MAKAR_RETURN_IF_ERROR(events_->scalar("eval/" + name, step, value));
  }
  return line({{"step", step}, {"validation", values}});
}

Status RunLog::sample(int64_t step, const std::string& text) {
  return line({{"step", step}, {"sample", text}});
}

Result<std::optional<EarlierRun>> earlier_run(const std::string& folder) {
  const std::string path = folder + "/run.json";
  if (!is_file(path)) return std::optional<EarlierRun>();
  MAKAR_TRY(const Json json, read_json(path));
  EarlierRun out;
  if (json.is_object() && json.contains("settings")) out.settings = json["settings"];
  out.finished = json.is_object() && json.value("finished", Json(true)) == Json(true);
  return std::optional<EarlierRun>(std::move(out));
}

Status write_unfinished_run(const std::string& folder, const Json& settings) {
  MAKAR_RETURN_IF_ERROR(make_folder(folder));
  const Json json = {{"finished", false}, {"settings", settings}};
  return write_file(folder + "/run.json", json.dump(2) + "\n");
}

bool holds_model(const std::string& folder) {
  for (const char* file : {"model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors"})
    if (is_file(folder + "/" + file)) return true;
  return false;
}

namespace {

// Flattens nested objects to "a.b": value.
void flatten(const Json& value, const std::string& name, std::map<std::string, Json>& out) {
  if (!value.is_object()) {
    out[name] = value;
    return;
  }
  for (const auto& [key, inner] : value.items())
    flatten(inner, name.empty() || name == "identity" ? key : name + "." + key, out);
}

std::string short_value(const std::map<std::string, Json>& all, const std::string& key) {
  const auto it = all.find(key);
  if (it == all.end() || it->second.is_null()) return "not set";
  const std::string text = dump(it->second);
  return text.size() > 80 ? text.substr(0, 80) + "..." : text;
}

bool is_sha256(const Json& value) {
  const std::string* text = value.get_ptr<const std::string*>();
  return text && text->size() == 64 && text->find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Names of metrics may have a slash: "rewards/margins".
std::string chart_file(std::string metric) {
  std::replace(metric.begin(), metric.end(), '/', '-');
  return metric + ".svg";
}

}  // namespace

std::string setting_differences(const Json& before, const Json& now) {
  std::map<std::string, Json> old_values, new_values;
  flatten(before, "", old_values), flatten(now, "", new_values);
  std::map<std::string, Json> keys = old_values;
  keys.insert(new_values.begin(), new_values.end());
  std::string out;
  int64_t left = 8;  // list at most this many differences
  for (const auto& [key, unused] : keys) {
    const auto a = old_values.find(key), b = new_values.find(key);
    if (a != old_values.end() && b != new_values.end() && a->second == b->second) continue;
    if (left-- == 0) return out + "; ...";
    if (!out.empty()) out += "; ";
    const bool in_both = a != old_values.end() && b != new_values.end();
    const bool checksums = in_both && is_sha256(a->second) && is_sha256(b->second);
    out += key.starts_with(kFiles) && in_both
               ? fmt::format("the files of {} have changed", key.substr(kFiles.size()))
           : key == "data" || key == "tokenizer" || checksums
               ? fmt::format("the content of '{}' has changed", key)
               : fmt::format("{} was {}, now {}", key, short_value(old_values, key),
                             short_value(new_values, key));
  }
  return out;
}

Result<RunLock> RunLock::take(const std::string& folder) {
  MAKAR_RETURN_IF_ERROR(make_folder(folder));
  const int fd = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0) return io_error(folder, "open");
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd);
    return error_at(folder,
                    "another training run uses this folder; wait for it to end, or use another output_dir");
  }
  return RunLock(fd);
}

RunLock::~RunLock() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

// The numbers of log.jsonl by name, at their steps.
struct LoggedCurves {
  Curve loss{"training loss", {}, {}};
  std::map<std::string, Curve> training, validation;
};

void add_numbers(const Json& line, const char* part, double step, std::map<std::string, Curve>& to) {
  const auto found = line.find(part);
  if (found == line.end() || !found->is_object()) return;
  for (const auto& [name, value] : found->items())
    if (value.is_number()) to[name].add(step, value.get<double>());
}

Result<LoggedCurves> read_curves(const std::string& folder) {
  LoggedCurves out;
  MAKAR_RETURN_IF_ERROR(each_line(folder, [&](const std::string&, const Json& json) {
    const auto step = json["step"].get<double>();
    if (json.contains("loss") && json["loss"].is_number()) out.loss.add(step, json["loss"].get<double>());
    add_numbers(json, "metrics", step, out.training);
    add_numbers(json, "validation", step, out.validation);
  }));
  for (auto& [name, curve] : out.training) curve.name = "training " + name;
  for (auto& [name, curve] : out.validation) curve.name = "validation " + name;
  return out;
}

// The charts besides the loss, by metric: of validation, with the curve of training if there is one, and of
// training with rewards.
std::map<std::string, std::vector<Curve>> metric_charts(const LoggedCurves& logged) {
  std::map<std::string, std::vector<Curve>> out;
  for (const auto& [name, curve] : logged.training)
    if (name == "reward" || name == "kl" || name == "length" || logged.validation.contains(name))
      if (curve.y.size() >= 2) out[name].push_back(curve.thinned(kMaxCurvePoints));
  for (const auto& [name, curve] : logged.validation)
    if (name != "loss" && curve.y.size() >= 2) out[name].push_back(curve);
  return out;
}

}  // namespace

Status write_report(const std::string& folder, const RunSummary& summary) {
  MAKAR_TRY(const LoggedCurves logged, read_curves(folder));
  std::vector<Curve> losses = {logged.loss.thinned(kMaxCurvePoints)};
  if (const auto it = logged.validation.find("loss"); it != logged.validation.end())
    losses.push_back(it->second);
  MAKAR_RETURN_IF_ERROR(write_file(folder + "/loss.svg", svg_chart("loss", losses)));
  std::string out = "# " + summary.title + "\n\n![loss](loss.svg)\n\n| | |\n|---|---|\n";
  for (const auto& [name, value] : summary.facts) out += fmt::format("| {} | {} |\n", name, value);
  for (const auto& [name, curve] : logged.validation)
    out += fmt::format("| validation {} | {:.4f} |\n", name, curve.y.back());
  for (const auto& [name, curves] : metric_charts(logged)) {
    MAKAR_RETURN_IF_ERROR(write_file(folder + "/" + chart_file(name), svg_chart(name, curves)));
    out += fmt::format("\n![{}]({})\n", name, chart_file(name));
  }
  if (!summary.sample.empty()) out += "\n## Sample\n\n```text\n" + summary.sample + "\n```\n";
  out += "\n## Reproduce\n\n```sh\n" + summary.command +
         "\n```\n\n`run.json` has the settings, versions and hashes.\n";
  return write_file(folder + "/report.md", out);
}

}  // namespace makar
