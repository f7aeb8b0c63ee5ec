// What a server stores about a fine-tuning job.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "serve/tuning/base_identity.h"

namespace makar {

constexpr std::string_view kTuningJobPrefix = "ftjob-";

struct TuningRecord {
  Json job;  // as clients see it
  std::string owner;
  uint64_t number = 0;         // jobs are numbered in the order of their creation
  uint64_t turn = 0;           // starts are numbered too; 0: not started
  uint64_t owner_turn = 0;     // the last one of the owner when the job was created
  double seconds = 0;          // that its process has run, under all servers
  BaseIdentity base;           // unknown before the first start
  bool model_deleted = false;  // its files may remain for a moment

  std::string id() const { return job["id"].get<std::string>(); }
  std::string model() const;  // of a job that has succeeded
  bool is_over() const;       // succeeded, failed or cancelled
  bool has_model() const;     // succeeded, and its model is not deleted
};

Json tuning_record_json(const TuningRecord& record);
// None: the file is not the record of the job `id`.
std::optional<TuningRecord> read_tuning_record(const std::string& path, const std::string& id);

}  // namespace makar
