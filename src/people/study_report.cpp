#include "people/study_report.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/version.h"
#include "metrics/classification.h"
#include "metrics/resample.h"

namespace makar {
namespace {

constexpr size_t kMaxCritiques = 1000;  // in a report

// The verdict on two answers: "first", "second" or "tie".
const char* verdict(const Rating& rating, size_t a, size_t b) {
  return rating.ranks[a] < rating.ranks[b] ? "first" : rating.ranks[a] > rating.ranks[b] ? "second" : "tie";
}

struct Agreement {
  double kappa = 0, share = 0, scale_kappa = 0;
  double verdicts = 0, scale_verdicts = 0;  // weights of the sums above
};

// Adds the agreement of two raters.
void compare_raters(const Study& study, const std::map<size_t, const Rating*>& a,
                    const std::map<size_t, const Rating*>& b, Agreement& out) {
  std::vector<std::string> first, second, first_scales, second_scales;
  for (const auto& [item, rating] : a) {
    const auto at = b.find(item);
    if (at == b.end()) continue;
    const Rating& other = *at->second;
    const size_t answers = study.items[item].answers.size();
    if (!rating->ranks.empty() && !other.ranks.empty())
      for (size_t i = 0; i < answers; ++i)
        for (size_t j = i + 1; j < answers; ++j)
          first.emplace_back(verdict(*rating, i, j)), second.emplace_back(verdict(other, i, j));
    for (size_t i = 0; i < std::min(rating->scales.size(), other.scales.size()); ++i)
      for (const auto& [scale, value] : rating->scales[i])
        if (const auto found = other.scales[i].find(scale); found != other.scales[i].end())
          first_scales.push_back(std::to_string(value)),
              second_scales.push_back(std::to_string(found->second));
  }
  const auto kappa = [](const std::vector<std::string>& x, const std::vector<std::string>& y, int64_t power) {
    const auto confusion = confusion_of(x, y);
    const double value = confusion.ok() ? cohen_kappa(*confusion, power) : 0;
    return std::isfinite(value) ? value : 1.0;  // both raters always give the same rating
  };
  const auto count = static_cast<double>(first.size()), scales = static_cast<double>(first_scales.size());
  if (count > 0) {
    double same = 0;
    for (size_t i = 0; i < first.size(); ++i) same += first[i] == second[i];
    out.share += same, out.kappa += count * kappa(first, second, 0), out.verdicts += count;
  }
  if (scales > 0)
    out.scale_kappa += scales * kappa(first_scales, second_scales, 2), out.scale_verdicts += scales;
}

Json agreement_json(const Study& study, const std::vector<Rating>& ratings) {
  std::map<std::string, std::map<size_t, const Rating*>> by_rater;
  for (const Rating& one : ratings) by_rater[one.rater][one.item] = &one;
  Agreement sum;
  for (auto a = by_rater.begin(); a != by_rater.end(); ++a)
    for (auto b = std::next(a); b != by_rater.end(); ++b) compare_raters(study, a->second, b->second, sum);
  const auto mean = [](double value, double weight) { return weight > 0 ? Json(value / weight) : Json(); };
  return {{"kappa", mean(sum.kappa, sum.verdicts)},
          {"equal_share", mean(sum.share, sum.verdicts)},
          {"verdicts", sum.verdicts},
          {"scale_kappa", mean(sum.scale_kappa, sum.scale_verdicts)}};
}

struct SystemScores {
  int64_t wins = 0, ties = 0, losses = 0;
  std::map<size_t, std::pair<double, double>> by_item;  // sum of verdicts (1, 1/2, 0) and their number
  std::map<std::string, std::vector<double>> scales;
};

std::map<std::string, SystemScores> score_systems(const Study& study, const std::vector<Rating>& ratings) {
  std::map<std::string, SystemScores> out;
  for (const Rating& rating : ratings) {
    const StudyItem& item = study.items[rating.item];
    for (size_t i = 0; i < item.answers.size(); ++i) {
      SystemScores& scores = out[item.systems[i]];
      if (i < rating.scales.size())
        for (const auto& [scale, value] : rating.scales[i])
          scores.scales[scale].push_back(static_cast<double>(value));
      if (rating.ranks.empty()) continue;
      for (size_t j = 0; j < item.answers.size(); ++j) {
        if (i == j || item.systems[i] == item.systems[j]) continue;
        const int64_t difference = rating.ranks[j] - rating.ranks[i];
        ++(difference > 0 ? scores.wins : difference < 0 ? scores.losses : scores.ties);
        auto& [sum, count] = scores.by_item[rating.item];
        sum += difference > 0 ? 1 : difference == 0 ? 0.5 : 0, ++count;
      }
    }
  }
  return out;
}

// The win rate of a system over a sample of its items.
Evaluation win_rate(const SystemScores& scores) {
  std::vector<Statistics> units;
  for (const auto& [item, sums] : scores.by_item) units.push_back({sums.first, sums.second});
  return evaluation_of_sums("win rate", "", std::move(units),
                            [](std::span<const double> sums) { return sums[1] > 0 ? sums[0] / sums[1] : 0; });
}

std::string line_of(const Json& record) {
  return record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double one : values) sum += one;
  return sum / static_cast<double>(values.size());
}

double error_of_mean(const std::vector<double>& values) {
  const double mean = mean_of(values), count = static_cast<double>(values.size());
  double squares = 0;
  for (const double one : values) squares += (one - mean) * (one - mean);
  return std::sqrt(squares / (count - 1) / count);
}

}  // namespace

Json study_report(const Study& study, const std::vector<Rating>& ratings) {
  std::set<std::string> raters;
  std::set<size_t> rated;
  Json critiques = Json::array();
  for (const Rating& one : ratings) {
    raters.insert(one.rater), rated.insert(one.item);
    if (!one.critique.empty() && critiques.size() < kMaxCritiques)
      critiques.push_back({{"item", one.item}, {"rater", one.rater}, {"text", one.critique}});
  }
  Json systems = Json::object();
  for (const auto& [name, scores] : score_systems(study, ratings)) {
    Json row = {{"wins", scores.wins}, {"ties", scores.ties}, {"losses", scores.losses}};
    if (!scores.by_item.empty()) {
      const Evaluation rate = win_rate(scores);
      const auto interval = bootstrap_interval(rate, {});
      row["win_rate"] = rate.score;
      row["interval"] = {{"low", interval->low}, {"high", interval->high}, {"level", 0.95}};
    }
    for (const auto& [scale, values] : scores.scales) row[scale] = mean_of(values);
    systems[name] = row;
  }
  return {{"study", study.name},       {"items", study.items.size()},
          {"rated", rated.size()},     {"ratings", ratings.size()},
          {"raters", raters.size()},   {"agreement", agreement_json(study, ratings)},
          {"systems", systems},        {"critiques", critiques},
          {"scales", scales_of(study)}};
}

std::string preference_lines(const Study& study, const std::vector<Rating>& ratings) {
  std::map<size_t, std::vector<const Rating*>> by_item;
  for (const Rating& one : ratings) by_item[one.item].push_back(&one);
  std::string out;
  for (const auto& [index, item_ratings] : by_item) {
    const StudyItem& item = study.items[index];
    const bool chat = item.prompt.is_array();
    const auto answer = [&](const std::string& text) {
      return chat ? Json::array({{{"role", "assistant"}, {"content", text}}}) : Json(text);
    };
    const auto add = [&](const std::string& better, const std::string& worse, double margin) {
      const Json line = {{"prompt", item.prompt},
                         {"chosen", answer(better)},
                         {"rejected", answer(worse)},
                         {"margin", margin}};
      out += line_of(line);
    };
    for (size_t i = 0; i < item.answers.size(); ++i)
      for (size_t j = i + 1; j < item.answers.size(); ++j) {
        double first = 0, second = 0, all = 0;
        for (const Rating* one : item_ratings) {
          if (one->ranks.empty()) continue;
          ++all, first += one->ranks[i]<one->ranks[j], second += one->ranks[i]> one->ranks[j];
        }
        if (first == second || item.answers[i] == item.answers[j]) continue;
        const bool forward = first > second;
        add(item.answers[forward ? i : j], item.answers[forward ? j : i], std::abs(first - second) / all);
      }
    for (const Rating* one : item_ratings) {
      if (one->correction.empty()) continue;
      // A correction improves the answer that its rater ranks first.
      size_t best = 0;
      for (size_t i = 1; i < one->ranks.size(); ++i)
        if (one->ranks[i] < one->ranks[best]) best = i;
      if (one->correction != item.answers[best]) add(one->correction, item.answers[best], 1);
    }
  }
  return out;
}

std::string critique_lines(const Study& study, const std::vector<Rating>& ratings) {
  std::string out;
  for (const Rating& one : ratings) {
    const StudyItem& item = study.items[one.item];
    if (one.critique.empty() || item.answers.size() != 1) continue;
    Json line = {{"prompt", item.prompt}, {"completion", item.answers[0]}, {"critique", one.critique}};
    if (!one.correction.empty() && one.correction != item.answers[0]) line["correction"] = one.correction;
    out += line_of(line);
  }
  return out;
}

std::string quality_lines(const Study& study, const std::vector<Rating>& ratings) {
  // (item, answer) -> scale -> sum and number
  std::map<std::pair<size_t, size_t>, std::map<std::string, std::pair<double, double>>> sums;
  for (const Rating& one : ratings)
    for (size_t i = 0; i < one.scales.size(); ++i)
      for (const auto& [scale, value] : one.scales[i]) {
        auto& [sum, count] = sums[{one.item, i}][scale];
        sum += static_cast<double>(value - 1) / 4, ++count;
      }
  std::string out;
  for (const auto& [at, scales] : sums) {
    const StudyItem& item = study.items[at.first];
    Json values = Json::object();
    for (const auto& [scale, sum] : scales) values[scale] = sum.first / sum.second;
    const Json line = {{"prompt", item.prompt}, {"completion", item.answers[at.second]}, {"ratings", values}};
    out += line_of(line);
  }
  return out;
}

Json study_results(const Study& study, const std::vector<Rating>& ratings) {
  Json results = Json::object(), versions = Json::object(), higher = Json::object(), samples = Json::object();
  std::set<size_t> rated;
  for (const Rating& one : ratings) rated.insert(one.item);
  for (const auto& [system, scores] : score_systems(study, ratings)) {
    const std::string task = study.name + "/" + system;
    Json row = {{"alias", task}}, better = Json::object();
    if (!scores.by_item.empty()) {
      const Evaluation rate = win_rate(scores);
      const auto error = bootstrap_error(rate, {});
      row["win_rate,none"] = rate.score;
      row["win_rate_stderr,none"] = error && scores.by_item.size() > 1 ? Json(*error) : Json("N/A");
      better["win_rate"] = true;
    }
    for (const auto& [scale, values] : scores.scales) {
      row[scale + ",none"] = mean_of(values);
      row[scale + "_stderr,none"] = values.size() > 1 ? Json(error_of_mean(values)) : Json("N/A");
      better[scale] = true;
    }
    results[task] = row, versions[task] = 1, higher[task] = better;
    samples[task] = {{"original", study.items.size()}, {"effective", rated.size()}};
  }
  return {{"results", results},
          {"versions", versions},
          {"higher_is_better", higher},
          {"n-samples", samples},
          {"config", {{"model", "people"}, {"study", study.name}, {"ratings", ratings.size()}}},
          {"makar_version", kMakarVersion}};
}

}  // namespace makar
