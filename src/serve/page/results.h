// Results of evaluations in a folder, for the page.
#pragma once
#include <string>

#include "base/json.h"

namespace makar {

// Folders below `folder` that contain a results.json, newest first: name, changed.
Result<Json> list_results(const std::string& folder);
// {"name", "model", "rows": [{"task", "metric", "filter", "value", "stderr", "higher_is_better", "shots",
// "documents"}]}. A value that is not a number is null.
Result<Json> read_results(const std::string& folder, const std::string& name);

}  // namespace makar
