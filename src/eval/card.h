// A model card (Mitchell et al., 2019) from the files of a model and the results of its evaluations, with a
// rubric of twelve regulatory criteria (Bommasani et al., 2023), each scored from 0 to 4. Rating files and
// the card call a criterion a point.
#pragma once
#include <map>

#include "eval/compare.h"

namespace makar {

const std::vector<std::string>& rubric_criteria();  // twelve names

// One rating: the score that a rater gives to a system for one criterion.
struct RubricRating {
  std::string rater, system, criterion;
  int64_t score = 0;  // 0 to 4
};
// A table with the columns rater, system, point, score (CSV, TSV or JSONL).
Result<std::vector<RubricRating>> read_ratings(const std::string& path);

struct RubricResult {
  std::map<std::string, double> totals;  // by system: the sum of its criteria, 48 at most
  std::map<std::string, std::map<std::string, double>>
      criteria;                 // by system and criterion: the mean over raters
  std::optional<double> kappa;  // agreement: Cohen's with squared weights for two raters, Fleiss' for more
  size_t raters = 0;
};
Result<RubricResult> rate_systems(const std::vector<RubricRating>& ratings);

struct CardInput {
  std::string name, model;  // model: its folder or file
  std::vector<EvaluatedModel> results;
  std::optional<RubricResult> rubric;  // shown if it has the system `name`
  Json manifest;                       // of the run that trained the model, or null
};
Result<std::string> model_card(const CardInput& input);  // Markdown

}  // namespace makar
