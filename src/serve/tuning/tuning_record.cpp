#include "serve/tuning/tuning_record.h"

#include <algorithm>

#include "serve/tuning/job.h"

namespace makar {
namespace {

// Whether a request makes the same job: then every setting is there, and within its bounds.
bool is_job(const Json& job) {
  if (!job.is_object()) return false;
  for (const char* key : {"id", "status"})
    if (!job.contains(key) || !job[key].is_string()) return false;
  const std::string status = job["status"];
  if (status != "queued" && status != "running" && !tuning_is_over(job)) return false;
  if (!job.contains("created_at") || !job["created_at"].is_number_integer()) return false;
  const Json name = job.value("fine_tuned_model", Json());
  if (status == "succeeded" ? !name.is_string() : !name.is_null()) return false;
  Json request;
  for (const auto& [key, value] : job.items())
    if (!value.is_null()) request[key] = value;
  const auto same = new_tuning_job(request);
  if (!same.ok()) return false;
  for (const char* key :
       {"model", "training_file", "validation_file", "hyperparameters", "method", "suffix", "seed"})
    if (!job.contains(key) || job[key] != (*same)[key]) return false;
  return true;
}

}  // namespace

std::string TuningRecord::model() const {
  return job["fine_tuned_model"].is_string() ? job["fine_tuned_model"].get<std::string>() : "";
}
bool TuningRecord::is_over() const { return tuning_is_over(job); }
bool TuningRecord::has_model() const { return job["status"] == "succeeded" && !model_deleted; }

Json tuning_record_json(const TuningRecord& record) {
  return {{"job", record.job},
          {"owner", record.owner},
          {"number", record.number},
          {"turn", record.turn},
          {"owner_turn", record.owner_turn},
          {"seconds", record.seconds},
          {"base", base_json(record.base)},
          {"model_deleted", record.model_deleted}};
}

std::optional<TuningRecord> read_tuning_record(const std::string& path, const std::string& id) {
  const auto json = read_json(path, {1 << 20, 16});
  if (!json.ok() || !json->is_object() || !json->contains("job") || !is_job((*json)["job"])) return {};
  const Json owner = json->value("owner", Json()), seconds = json->value("seconds", Json());
  if ((*json)["job"]["id"] != Json(id) || !owner.is_string()) return {};
  // Jobs stored before they had numbers run in the order of their times.
  const auto counter = [&](const char* key, const Json& fallback) -> uint64_t {
    const Json value = json->contains(key) ? (*json)[key] : fallback;
    return value.is_number_unsigned() ? std::min(value.get<uint64_t>(), uint64_t{1} << 60) : 0;
  };
  return TuningRecord{(*json)["job"],
                      owner.get<std::string>(),
                      counter("number", (*json)["job"]["created_at"]),
                      counter("turn", 0),
                      counter("owner_turn", 0),
                      seconds.is_number() ? std::max(0.0, seconds.get<double>()) : 0,
                      read_base(json->value("base", Json())),
                      json->value("model_deleted", Json(false)) == Json(true)};
}

}  // namespace makar
