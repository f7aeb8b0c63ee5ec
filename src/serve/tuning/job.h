// Fine-tuning jobs in OpenAI's format: reading a request, the job's object, its events.
#pragma once
#include <string>

#include "base/json.h"

namespace makar {

// Reads the body of POST /v1/fine_tuning/jobs into a new job with status "queued". Hyperparameters are
// numbers or "auto"; methods are "supervised" and "dpo".
Result<Json> new_tuning_job(const Json& body);
// Whether the job has ended: succeeded, failed or cancelled.
bool tuning_is_over(const Json& job);
// {"object": "fine_tuning.job.event", ...}; `data` may be null.
Json tuning_event(const std::string& level, const std::string& message, const Json& data = Json());

}  // namespace makar
