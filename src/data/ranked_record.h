// Several answers to one prompt with their ranks, and single answers with a label (good or bad) or with
// ratings of qualities: the data of reward models, of KTO and of quality heads.
#pragma once
#include <map>
#include <vector>

#include "data/preference_record.h"

namespace makar {

// Two or more answers, each a list of {"role", "content"} that begins with the assistant. Rank 0 is the best;
// equal ranks are not compared. At least two ranks differ.
struct RankedRecord {
  Json prompt;
  std::vector<Json> answers;
  std::vector<int64_t> ranks;
  double margin = 0;  // how much better the first of two answers is, if the record has a margin
  static constexpr size_t kMaxAnswers = 64;
};

// {"prompt", "answers", "ranks"} (without `ranks`, the answers are in order, the best first), or a preference
// record, which may have a number `margin`.
Result<RankedRecord> to_ranking(const Json& record);

// One answer to a prompt, and whether it is good.
struct LabelledRecord {
  Json prompt, answer;
  bool good = false;
};
// {"prompt", "completion", "label"}, or {"messages", "label"}, whose last turn is the answer. A label is
// true, false, 1 or 0.
Result<LabelledRecord> to_labelled(const Json& record);

// One answer to a prompt, and its ratings of named qualities, 0 to 1.
struct QualityRecord {
  Json prompt, answer;
  std::map<std::string, double> ratings;  // not empty
  static constexpr size_t kMaxRatings = 64;
};
// {"prompt", "completion", "ratings"}, or {"messages", "ratings"}, whose last turn is the answer. A rating is
// true, false or a number from 0 to 1.
Result<QualityRecord> to_quality(const Json& record);

}  // namespace makar
