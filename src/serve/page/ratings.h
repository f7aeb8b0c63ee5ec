// Studies in which people rate answers, for the page: items without the names of systems, the answers
// shuffled differently for each rater; ratings are appended to a file next to the study.
#pragma once
#include <mutex>
#include <string>

#include "base/json.h"

namespace makar {

class RatingStudies {
 public:
  explicit RatingStudies(std::string folder) : folder_(std::move(folder)) {}

  // The studies FOLDER/NAME.jsonl: name, items, ratings; or name and error if a study cannot be read.
  Result<Json> list();
  // The next item after `after`, wrapping around, that the rater has not rated: item, kind, prompt, answers,
  // scales; "done" and "total". Without "item" if all are rated.
  Result<Json> next(const std::string& study, const std::string& rater, int64_t after);
  // Stores a rating; its ranks and scales are in the order in which the rater saw the answers.
  Status add(const std::string& study, Json rating);
  Result<Json> report(const std::string& study);
  Result<std::string> preferences(const std::string& study);

 private:
  Result<std::string> path_of(const std::string& study) const;
  const std::string folder_;
  std::mutex mutex_;
};

}  // namespace makar
