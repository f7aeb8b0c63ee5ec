#include "serve/tuning/job.h"

#include <atomic>
#include <ctime>

#include "base/quote.h"
#include "serve/api/fields.h"
#include "serve/logged_reply.h"

namespace makar {
namespace {

constexpr size_t kMaxSuffixBytes = 64;
constexpr int64_t kDefaultEpochs = 3, kDefaultBatchSize = 8;

Result<Json> read_settings(Json fields) {
  for (const char* key : {"n_epochs", "batch_size", "learning_rate_multiplier", "beta"})
    if (fields.contains(key) && fields[key] == "auto") fields.erase(key);
  MAKAR_TRY(const int64_t epochs, integer_field(fields, "n_epochs", 1, 1000, kDefaultEpochs));
  MAKAR_TRY(const int64_t batch, integer_field(fields, "batch_size", 1, 1024, kDefaultBatchSize));
  MAKAR_TRY(const double rate, number_field(fields, "learning_rate_multiplier", 1e-6, 1e6, 1));
  MAKAR_TRY(const double beta, number_field(fields, "beta", 1e-6, 1000, 0.1));
  return Json{
      {"n_epochs", epochs}, {"batch_size", batch}, {"learning_rate_multiplier", rate}, {"beta", beta}};
}

Status check_suffix(const std::string& suffix) {
  const bool plain = suffix.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == suffix.npos;
  if (suffix.size() <= kMaxSuffixBytes && plain) return Done{};
  return error_at("suffix", "expected up to {} letters, digits, '_', '-' and '.', got {}", kMaxSuffixBytes,
                  quote(suffix));
}

}  // namespace

Result<Json> new_tuning_job(const Json& body) {
  MAKAR_TRY(const std::string model, text_field(body, "model"));
  MAKAR_TRY(const std::string training, text_field(body, "training_file"));
  MAKAR_TRY(const std::string validation, text_field(body, "validation_file"));
  MAKAR_TRY(const std::string suffix, text_field(body, "suffix"));
  MAKAR_TRY(const int64_t seed, integer_field(body, "seed", 0, int64_t{1} << 31, 42));
  if (training.empty())
    return error_at("training_file", "is missing; expected the id of a file with purpose fine-tune");
  MAKAR_RETURN_IF_ERROR(check_suffix(suffix));
  MAKAR_TRY(const Json method, object_field(body, "method"));
  std::string type = "supervised";
  if (!method.is_null()) {
    MAKAR_TRY(type, text_field(method, "type", "supervised"));
  }
  if (type != "supervised" && type != "dpo")
    return error_at("method.type", "expected supervised or dpo, got {}", quote(type));
  MAKAR_TRY(Json hyperparameters, object_field(body, "hyperparameters"));
  if (!method.is_null()) {
    MAKAR_TRY(const Json method_options, object_field(method, type));
    if (!method_options.is_null()) {
      MAKAR_TRY(const Json method_hyperparameters, object_field(method_options, "hyperparameters"));
      if (!method_hyperparameters.is_null()) hyperparameters = method_hyperparameters;
    }
  }
  MAKAR_TRY(const Json settings, read_settings(hyperparameters.is_null() ? Json::object() : hyperparameters));
  const std::string id = "ftjob-" + random_id();
  return Json{{"object", "fine_tuning.job"},
              {"id", id},
              {"model", model},
              {"created_at", std::time(nullptr)},
              {"finished_at", nullptr},
              {"fine_tuned_model", nullptr},
              {"organization_id", ""},
              {"result_files", Json::array()},
              {"status", "queued"},
              {"training_file", training},
              {"validation_file", validation.empty() ? Json() : Json(validation)},
              {"hyperparameters", settings},
              {"method", {{"type", type}, {type, {{"hyperparameters", settings}}}}},
              {"suffix", suffix},
              {"trained_tokens", nullptr},
              {"estimated_finish", nullptr},
              {"error", nullptr},
              {"seed", seed},
              {"integrations", Json::array()}};
}

bool tuning_is_over(const Json& job) {
  const Json& status = job["status"];
  return status == "succeeded" || status == "failed" || status == "cancelled";
}

Json tuning_event(const std::string& level, const std::string& message, const Json& data) {
  static std::atomic<uint64_t> number{0};
  return {{"object", "fine_tuning.job.event"},
          {"id", "ftevent-" + random_id() + "-" + std::to_string(++number)},
          {"created_at", std::time(nullptr)},
          {"level", level},
          {"message", message},
          {"type", data.is_null() ? "message" : "metrics"},
          {"data", data}};
}

}  // namespace makar
