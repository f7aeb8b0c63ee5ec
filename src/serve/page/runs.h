// The logs of trainings in a folder, for curves: which runs there are, and what is new in one.
#pragma once
#include <string>

#include "base/json.h"

namespace makar {

// Folders below `folder` that hold a log.jsonl, the latest first: name, bytes, changed.
Result<Json> list_runs(const std::string& folder);

// The lines of a run's log from byte `offset` on, up to about a megabyte: "steps" [step, loss, norm, lr,
// seconds, tokens], "validations", "samples", the "offset" to go on from, and whether there is "more". A log
// that is not the one of `file` any more is read from its beginning ("restarted"); file 0: any.
Result<Json> read_run(const std::string& folder, const std::string& name, int64_t offset, int64_t file);

}  // namespace makar
