// What every metric returns: the score of a corpus, its signature, and how to score a resample of its units.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/work_budget.h"

namespace makar {

// The release of sacrebleu whose definitions, tokenizers and signatures are followed.
constexpr const char* kSacrebleuVersion = "2.6.0";

// Hypotheses with their references; at least one reference per hypothesis.
struct Segment {
  std::string hypothesis;
  std::vector<std::string> references;
};
using Segments = std::vector<Segment>;
// "1", "2", or "var" if the segments have different numbers of references.
std::string reference_count(const Segments& segments);

// Sums from which a score is computed; the statistics of a corpus are the sums over its units.
using Statistics = std::vector<double>;
Statistics sum_of(std::span<const Statistics> statistics);

using Sample = std::span<const uint32_t>;  // indices of units, with repetitions

struct Evaluation {
  std::string name;       // "BLEU"
  std::string signature;  // every setting that changes the score
  double score = 0;
  Json details = Json::object();
  size_t units = 0;                 // segments, queries, items: what a bootstrap draws
  std::vector<double> unit_scores;  // one per unit, where one is defined
  std::vector<bool> correct;        // whether each unit is correct, for metrics that decide that
  std::function<double(Sample)> score_of;
  bool lower_is_better = false;
};

// An evaluation whose score is a function of sums.
Evaluation evaluation_of_sums(std::string name, std::string signature, std::vector<Statistics> units,
                              std::function<double(std::span<const double>)> score);
// An evaluation whose score is the mean of the scores of its units, times `scale`.
Evaluation evaluation_of_mean(std::string name, std::string signature, std::vector<double> unit_scores,
                              double scale = 1);

// The limit of work per segment, since comparing two texts takes time in proportion to the product of their
// lengths. In units of 64 cells of the table: 16,000 by 16,000 words, about a second.
constexpr int64_t kMaxSegmentWork = int64_t{1} << 22;
inline int64_t table_work(size_t cells) { return static_cast<int64_t>(cells / 64) + 1; }
// The place of errors in a segment: "line 3".
std::string segment_place(size_t index);

}  // namespace makar
