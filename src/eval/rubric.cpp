// The rubric of the model card: ratings of twelve criteria, their means and the agreement of raters.
#include <algorithm>

#include "base/nearest.h"
#include "base/quote.h"
#include "data/record_reader.h"
#include "eval/card.h"
#include "metrics/agreement.h"
#include "metrics/classification.h"

namespace makar {

const std::vector<std::string>& rubric_criteria() {
  static const std::vector<std::string> criteria = {"data sources",
                                                    "data governance",
                                                    "copyrighted data",
                                                    "compute",
                                                    "energy",
                                                    "capabilities and limitations",
                                                    "risks and mitigations",
                                                    "evaluations",
                                                    "testing",
                                                    "machine-generated content",
                                                    "member states",
                                                    "downstream documentation"};
  return criteria;
}

Result<std::vector<RubricRating>> read_ratings(const std::string& path) {
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  std::vector<RubricRating> out;
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (reader.bad().count > 0) return error_at("", "{}", reader.bad().reported.at(0));
    if (!found) break;
    RubricRating rating;
    for (const auto& [key, field] : {std::pair("rater", &rating.rater), std::pair("system", &rating.system),
                                     std::pair("point", &rating.criterion)}) {
      if (!record.value.contains(key) || !record.value[key].is_string())
        return error_at(record.place(), "expected a text in the column '{}'", key);
      *field = record.value[key];
    }
    const auto& criteria = rubric_criteria();
    if (std::find(criteria.begin(), criteria.end(), rating.criterion) == criteria.end())
      return error_at(record.place(), "{} is not a point of the rubric{}; expected {}",
                      quote(rating.criterion), did_you_mean(rating.criterion, criteria),
                      fmt::join(criteria, ", "));
    const Json score = record.value.contains("score") ? record.value["score"] : Json();
    const std::string digits = score.is_string() ? score.get<std::string>() : score.dump();
    if (digits.size() != 1 || digits[0] < '0' || digits[0] > '4')
      return error_at(record.place(), "expected a score from 0 to 4, got {}", quote(digits));
    rating.score = digits[0] - '0';
    out.push_back(std::move(rating));
  }
  if (out.empty()) return error_at(path, "has no ratings");
  return out;
}

Result<RubricResult> rate_systems(const std::vector<RubricRating>& ratings) {
  std::map<std::string, std::map<std::pair<std::string, std::string>, int64_t>> by_rater;
  for (const RubricRating& one : ratings)
    if (!by_rater[one.rater].emplace(std::pair(one.system, one.criterion), one.score).second)
      return error_at("ratings", "{} rates '{}' of {} twice", quote(one.rater), one.criterion,
                      quote(one.system));
  RubricResult out;
  out.raters = by_rater.size();
  std::map<std::string, std::map<std::string, std::pair<double, double>>> sums;
  for (const RubricRating& one : ratings) {
    auto& [sum, count] = sums[one.system][one.criterion];
    sum += static_cast<double>(one.score), ++count;
  }
  for (const auto& [system, criteria] : sums)
    for (const auto& [criterion, sum] : criteria) {
      out.criteria[system][criterion] = sum.first / sum.second;
      out.totals[system] += sum.first / sum.second;
    }
  if (by_rater.size() < 2) return out;
  // Agreement on the criteria that all raters have rated.
  std::vector<std::vector<std::string>> labels(by_rater.size());
  for (const auto& entry : by_rater.begin()->second) {
    const auto& item = entry.first;
    const bool all = std::all_of(by_rater.begin(), by_rater.end(),
                                 [&](const auto& rater) { return rater.second.count(item) > 0; });
    if (!all) continue;
    size_t at = 0;
    for (const auto& [rater, scores] : by_rater) labels[at++].push_back(std::to_string(scores.at(item)));
  }
  if (labels[0].empty()) return out;
  if (labels.size() > 2) {
    out.kappa = fleiss_kappa(labels);
  } else {
    MAKAR_TRY(const Confusion confusion, confusion_of(labels[0], labels[1]));
    out.kappa = cohen_kappa(confusion, 2);
  }
  return out;
}

}  // namespace makar
