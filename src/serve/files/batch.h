// A batch: requests as lines of a file, and their progress.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace makar {

// {"custom_id", "method": "POST", "url", "body"}
struct BatchLine {
  std::string custom_id;
  size_t begin = 0, end = 0;  // byte range in the file
};

struct BatchInput {
  std::shared_ptr<const MappedFile> file;
  std::vector<BatchLine> lines;
  Json errors = Json::array();  // errors per line; empty: all lines are valid

  // The request body of a line.
  Result<Json> body(const BatchLine& line) const;
};

// Parses all lines and checks them for `endpoint`; request bodies are validated when they run.
Result<BatchInput> read_batch(const std::string& path, const std::string& endpoint);

// Formats one line of the output file.
std::string batch_answer(const std::string& custom_id, int status, const std::string& body);

// Reads the custom ids of answers already on disk. Truncates an incomplete last line left by a crash.
Status recover_answers(const std::string& path, std::set<std::string>& custom_ids);

// The API object of a new batch. Errors name the invalid field.
Result<Json> new_batch(const Json& body);
bool is_over(const Json& batch);  // completed, failed, expired or cancelled

}  // namespace makar
