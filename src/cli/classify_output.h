// What `makar classify run` does with the answers of any classifier: thresholds, JSON lines, CSV, and scores
// on labelled records.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/options.h"

namespace makar {

struct ClassAnswer {
  Json json;                   // an answer that is not a class: tags, a text, a number
  std::vector<double> scores;  // of each label; empty if the answer is in `json`
};
// Answers records such as {"text"}.
using ClassifyRecords = std::function<std::vector<Result<ClassAnswer>>(const std::vector<Json>& records)>;

struct ClassLabels {
  std::vector<std::string> names;
  bool multi_label = false;  // a text may have several labels
};

struct ClassifyOutput {
  std::string text, csv, eval;
  std::vector<std::string> files, thresholds;
  bool jsonl = false, scores = false, json = false;

  void declare(Options& options, const char* jsonl_help);
  // Reads the texts, answers them, prints. Returns the exit code.
  int run(const ClassLabels& labels, const ClassifyRecords& classify) const;
};

}  // namespace makar
