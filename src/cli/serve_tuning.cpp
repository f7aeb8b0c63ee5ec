#include "cli/serve_tuning.h"

#include <algorithm>

#include "base/cores.h"
#include "base/quote.h"
#include "train/model_identity.h"

namespace makar {
namespace {

constexpr double kDpoJobLearningRate = 1e-5, kSftJobLearningRate = 2e-4;
constexpr int64_t kSaveSteps = 20;

// The served model that a job names: one from the command line, without an adapter.
Result<TuningBase> base_of(const ModelRegistry& registry, const std::string& name) {
  for (const ModelState& state : registry.list())
    if ((name.empty() || state.entry->name == name) && state.entry->generates &&
        state.entry->adapter_folder.empty())
      return TuningBase{state.entry->name, state.entry->path};
  return error_of(Error::Kind::kNotFound, "model", "{} is not a generating model of this server",
                  quote(name));
}

// Steps between validations: a multiple of kSaveSteps, so that checkpoints have a validation loss, and at
// least as many as train on the number of records that a validation reads.
int64_t validation_steps(int64_t records, int64_t batch_size) {
  return kSaveSteps * (1 + records / (kSaveSteps * batch_size));
}

// Jobs are runs of this program: makar sft or makar dpo with an adapter.
std::vector<std::string> job_command(const Json& job, const TuningBase& base, const TuningFiles& files,
                                     int64_t threads) {
  const Json& settings = job["hyperparameters"];
  const bool pairs = job["method"]["type"] == "dpo";
  const double rate = (pairs ? kDpoJobLearningRate : kSftJobLearningRate) *
                      settings["learning_rate_multiplier"].get<double>();
  std::vector<std::string> out = {"/proc/self/exe", pairs ? "dpo" : "sft"};
  const auto add = [&](const char* option, std::string value) {
    out.emplace_back(option), out.push_back(std::move(value));
  };
  add("-m", base.path);
  add("-d", files.training);
  add("--adapter", "lora");
  add("-o", files.folder);
  add("--num-epochs", settings["n_epochs"].dump());
  add("--micro-batch-size", settings["batch_size"].dump());
  add("--learning-rate", fmt::format("{}", rate));
  add("--seed", job["seed"].dump());
  add("--save-steps", std::to_string(kSaveSteps));
  add("-t", std::to_string(threads));
  if (pairs) add("--beta", settings["beta"].dump());
  if (files.validation.empty()) {
    add("--val-set-size", "0");
  } else {
    add("--val-datasets", files.validation);
    add("--eval-steps",
        std::to_string(validation_steps(files.validation_records, settings["batch_size"].get<int64_t>())));
  }
  return out;
}

}  // namespace

void ServeTuningOptions::declare(Options& options) {
  options.group("Fine-tuning");
  options.add(
      "--fine-tuning", &accept,
      "accept fine-tuning jobs (/v1/fine_tuning/jobs): adapters, trained one at a time while serving");
  options.add("--fine-tuning-threads", &threads, "threads of a job; 0 for half of the cores", "N");
  options.add("--fine-tuning-memory", &memory, "memory that a job may allocate, in MiB", "MIB");
  options.add("--fine-tuning-disk", &disk, "disk space for the checkpoints, model and logs of a job, in MiB",
              "MIB");
  options.add("--fine-tuning-time", &max_minutes, "minutes that a job may run; 0 for no limit", "MINUTES");
}

Status ServeTuningOptions::check() const {
  if (threads < 0 || threads > 256)
    return error_at("--fine-tuning-threads", "must be 0 to 256, got {}", threads);
  for (const auto& [flag, value] : {std::pair("--fine-tuning-memory", memory), {"--fine-tuning-disk", disk}})
    if (value < 64 || value > int64_t{1} << 30)
      return error_at(flag, "must be 64 to {}, got {}", int64_t{1} << 30, value);
  if (!(max_minutes >= 0 && max_minutes <= 1e6))
    return error_at("--fine-tuning-time", "must be 0 to 1000000, got {}", max_minutes);
  return Done{};
}

TuningOptions ServeTuningOptions::options(ModelRegistry& registry, LogWriter& log) const {
  TuningOptions out;
  if (!accept) return out;
  out.memory = memory << 20, out.disk = disk << 20, out.max_seconds = max_minutes * 60;
  out.base = [&registry](const std::string& name) { return base_of(registry, name); };
  out.command = [job_threads = threads > 0 ? threads : std::max(1, cores().threads / 2)](
                    const Json& job, const TuningBase& base, const TuningFiles& files) {
    return job_command(job, base, files, job_threads);
  };
  out.identity = model_identity;
  out.publish = [&registry](const TunedModel& model) -> Status {
    if (registry.add({.name = model.name,
                      .path = model.base.path,
                      .adapters = {},
                      .adapter_folder = model.folder,
                      .check = model.check}))
      return Done{};
    return error_at("model", "another model is served as {}", quote(model.name));
  };
  out.unpublish = [&registry](const std::string& model) { registry.remove(model); };
  out.log = [&log](const std::string& line) { log.write(line); };
  return out;
}

}  // namespace makar
