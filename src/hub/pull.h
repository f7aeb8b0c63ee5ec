// Downloads the files of a hub repository, or of a URL, into a folder; resumes and verifies them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hub/repository.h"

namespace makar {

struct PullOptions {
  std::string endpoint;  // "https://huggingface.co", or a mirror
  std::string token;     // for private repositories; empty: none
  int attempts = 4;      // per file; retries resume
  // Bytes of `file` so far, and its size (0: unknown); returns false to cancel.
  std::function<bool(const std::string& file, uint64_t bytes, uint64_t size)> progress;
};

struct PullResult {
  std::string path;  // the folder, or the file of a URL
  std::string commit;
  uint64_t bytes = 0;
  std::vector<std::string> downloaded, present;  // file names: downloaded now, and already complete
};

// Downloads the files into `folder` (for a plain URL, the one file). A file gets its final name only when it
// is complete and its checksum is verified; until then it is NAME.part.
Result<PullResult> pull(const HubSource& source, const std::string& folder, const PullOptions& options);

// Advice for downloading without a network, after pull() failed.
std::string offline_advice(const HubSource& source, const std::string& folder, const std::string& endpoint);

}  // namespace makar
