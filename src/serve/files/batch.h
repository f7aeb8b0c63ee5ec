// A batch: requests as lines of a file, and what is known of its progress.
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
  size_t begin = 0, end = 0;  // its bytes in the file
};

struct BatchInput {
  std::shared_ptr<const MappedFile> file;
  std::vector<BatchLine> lines;
  Json errors = Json::array();  // what is wrong with which line; none: all are fine

  // The request of a line.
  Result<Json> body(const BatchLine& line) const;
};

// Every line is read and checked for `endpoint`; requests themselves are judged when their turn comes.
Result<BatchInput> read_batch(const std::string& path, const std::string& endpoint);

// A line of the answers.
std::string batch_answer(const std::string& custom_id, int status, const std::string& body);

// Answers that are there already. What a process that ended in the middle of a line left of it is cut off.
Status recover_answers(const std::string& path, std::set<std::string>& custom_ids);

// The record of a new batch, as the API shows it. Errors name the field that is wrong.
Result<Json> new_batch(const Json& body);
bool is_over(const Json& batch);  // completed, failed, expired or cancelled

}  // namespace makar
