// Reads the logs of training runs in a folder, for curves: the list of runs, and new lines of one.
#pragma once
#include <string>

#include "base/json.h"

namespace makar {

// Entries of a folder that are read; further ones are ignored.
constexpr size_t kMaxFolderEntries = 100000;

// Whether the name is a single path component that is not hidden.
bool is_plain_name(const std::string& name);

// Folders below `folder` that contain a log.jsonl, newest first: name, bytes, changed.
Result<Json> list_runs(const std::string& folder);

// The lines of a run's log from byte `offset` on, up to about a megabyte: "steps" [step, loss, norm, lr,
// seconds, tokens], "validations", "samples", the run's "total" of steps where a line names it, the "offset"
// to continue from, and whether there is "more". If the log's inode is no longer `file`, reading restarts
// at the beginning ("restarted"); file 0: any.
Result<Json> read_run(const std::string& folder, const std::string& name, int64_t offset, int64_t file);

}  // namespace makar
