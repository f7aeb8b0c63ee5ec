#include "eval/compare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "data/record_reader.h"

namespace makar {
namespace {

constexpr size_t kMaxResultsBytes = size_t{256} << 20;

std::optional<double> number(const Json& object, const std::string& key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) return std::nullopt;
  return object[key].get<double>();
}

// Values of one metric by document; empty if the samples are missing or have no numbers.
using Values = std::map<std::string, double>;
Result<Values> sample_values(const EvaluatedModel& model, const std::string& task, const std::string& metric,
                             const std::string& filter) {
  Values out;
  const std::string path = model.folder + "/samples_" + task + ".jsonl";
  if (!is_file(path)) return out;
  MAKAR_TRY(auto reader, RecordReader::open({path}));
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (reader.bad().count > 0) return error_at("", "{}", reader.bad().reported.at(0));
    if (!found) return out;
    const Json& line = record.value;
    if (line.value("filter", Json("none")) != Json(filter) || !line.contains("doc_hash") ||
        !line.contains("doc_id"))
      continue;
    if (!line.contains(metric)) continue;
    if (!line[metric].is_number()) return Values();
    out[line["doc_id"].dump() + line["doc_hash"].dump()] = line[metric].get<double>();
  }
}

// Tests the difference on the same documents; leaves `score` unchanged if the documents differ.
void add_paired_test(const Values& first, const Values& second, const ResampleOptions& options,
                     ComparedScore::ModelScore& score) {
  std::vector<double> values, other;
  std::vector<bool> right_first, right_second;
  bool binary = true;
  for (const auto& [document, value] : first) {
    const auto at = second.find(document);
    if (at == second.end()) return;
    values.push_back(value), other.push_back(at->second);
    binary = binary && (value == 0 || value == 1) && (at->second == 0 || at->second == 1);
    right_first.push_back(value == 1), right_second.push_back(at->second == 1);
  }
  if (values.size() < 2 || values.size() != second.size()) return;
  values.insert(values.end(), other.begin(), other.end());
  const PairedTest test = paired_bootstrap(evaluation_of_mean("", "", std::move(values)), options);
  score.low = test.interval.low, score.high = test.interval.high, score.p = test.p, score.test = "bootstrap";
  if (binary) score.mcnemar = mcnemar(right_first, right_second).exact_p;
}

// Tests the difference by the standard errors alone, as if the documents were independent.
void add_normal_test(const ComparedScore::ModelScore& first, ComparedScore::ModelScore& score) {
  if (!first.error || !score.error) return;
  const double error = std::hypot(*first.error, *score.error);
  if (error == 0) return;
  score.low = score.difference - kZ95 * error, score.high = score.difference + kZ95 * error;
  score.p = std::erfc(std::abs(score.difference) / error / std::sqrt(2.0));
  score.test = "normal";
}

}  // namespace

Result<EvaluatedModel> parse_evaluated_model(const std::string& text, const std::string& place) {
  EvaluatedModel out;
  out.name = place;
  MAKAR_TRY(out.results, parse_json(text, place));
  if (!out.results.is_object() || !out.results.contains("results") || !out.results["results"].is_object())
    return error_at(place, "is not a results file: expected an object with 'results'");
  return out;
}

Result<EvaluatedModel> read_evaluated_model(const std::string& path) {
  const OutputFiles files(path);
  MAKAR_TRY(const std::string text, read_file(files.results, kMaxResultsBytes));
  MAKAR_TRY(EvaluatedModel out, parse_evaluated_model(text, files.results));
  out.folder = files.folder;
  out.name = path.ends_with("/") ? path.substr(0, path.size() - 1) : path;
  return out;
}

Result<std::vector<ComparedScore>> compare_models(const std::vector<EvaluatedModel>& models,
                                                  const ResampleOptions& options) {
  std::vector<ComparedScore> out;
  for (const auto& task : models[0].results["results"].items()) {
    if (!task.value().is_object()) continue;
    for (const auto& item : task.value().items()) {
      const size_t comma = item.key().find(',');
      if (comma == std::string::npos || item.key().find("_stderr,") != std::string::npos) continue;
      ComparedScore score;
      score.task = task.key(), score.metric = item.key();
      const std::string metric = item.key().substr(0, comma), filter = item.key().substr(comma + 1);
      if (models[0].results.contains("higher_is_better")) {
        const Json& all = models[0].results["higher_is_better"];
        if (all.is_object() && all.contains(score.task) && all[score.task].is_object() &&
            all[score.task].contains(metric) && all[score.task][metric].is_boolean())
          score.higher_is_better = all[score.task][metric];
      }
      Values first;
      for (const EvaluatedModel& model : models) {
        const Json& scores =
            model.results["results"].contains(score.task) ? model.results["results"][score.task] : Json();
        const auto value = number(scores, item.key());
        if (!value) break;
        ComparedScore::ModelScore model_score;
        model_score.value = *value;
        model_score.error = number(scores, metric + "_stderr," + filter);
        MAKAR_TRY(Values values, sample_values(model, score.task, metric, filter));
        if (score.models.empty()) {
          first = std::move(values);
        } else {
          model_score.difference = model_score.value - score.models[0].value;
          add_paired_test(first, values, options, model_score);
          if (!model_score.p) add_normal_test(score.models[0], model_score);
        }
        score.models.push_back(model_score);
      }
      if (score.models.size() == models.size()) out.push_back(std::move(score));
    }
  }
  if (out.empty()) return error_at(models[0].name, "has no score in common with {}", models[1].name);
  return out;
}

std::vector<double> win_rates(const std::vector<ComparedScore>& scores, size_t models) {
  std::vector<double> wins(models);
  for (const ComparedScore& score : scores)
    for (size_t a = 0; a < models; ++a)
      for (size_t b = 0; b < models; ++b) {
        if (a == b) continue;
        const double difference =
            (score.models[a].value - score.models[b].value) * (score.higher_is_better ? 1 : -1);
        wins[a] += difference > 0 ? 1 : difference == 0 ? 0.5 : 0;
      }
  const double all = static_cast<double>(scores.size()) * static_cast<double>(models - 1);
  for (double& one : wins) one /= all;
  return wins;
}

Json comparison_json(const std::vector<EvaluatedModel>& models, const std::vector<ComparedScore>& scores) {
  Json out = {{"models", Json::array()}, {"scores", Json::array()}};
  for (const EvaluatedModel& model : models) out["models"].push_back(model.name);
  out["win_rates"] = win_rates(scores, models.size());
  const auto optional = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  for (const ComparedScore& score : scores) {
    Json model_scores = Json::array();
    for (const auto& model_score : score.models) {
      model_scores.push_back({{"value", model_score.value}, {"stderr", optional(model_score.error)}});
      if (&model_score == &score.models[0]) continue;
      model_scores.back().update(
          {{"difference", model_score.difference},
           {"interval",
            {{"low", optional(model_score.low)}, {"high", optional(model_score.high)}, {"level", 0.95}}},
           {"p", optional(model_score.p)},
           {"mcnemar_p", optional(model_score.mcnemar)},
           {"test", model_score.test.empty() ? Json() : Json(model_score.test)}});
    }
    out["scores"].push_back({{"task", score.task},
                             {"metric", score.metric},
                             {"higher_is_better", score.higher_is_better},
                             {"models", model_scores}});
  }
  return out;
}

std::string comparison_table(const std::vector<EvaluatedModel>& models,
                             const std::vector<ComparedScore>& scores) {
  size_t width = 4, name = 5;
  for (const ComparedScore& score : scores)
    width = std::max(width, score.task.size() + score.metric.size() + 1);
  for (const EvaluatedModel& model : models) name = std::max(name, model.name.size());
  std::string out = fmt::format(
      "| {:<{}} | {:<{}} |    value |   stderr | difference |         95 % interval |       p |\n", "score",
      width, "model", name);
  out +=
      fmt::format("|{:-<{}}|{:-<{}}|----------|----------|------------|-----------------------|---------|\n",
                  "", width + 2, "", name + 2);
  for (const ComparedScore& score : scores)
    for (size_t i = 0; i < score.models.size(); ++i) {
      const auto& model_score = score.models[i];
      const std::string interval =
          model_score.low ? fmt::format("{:+.4f} to {:+.4f}", *model_score.low, *model_score.high) : "";
      out += fmt::format("| {:<{}} | {:<{}} | {:>8.4f} | {:>8} | {:>10} | {:>21} | {:>7} |\n",
                         i == 0 ? score.task + " " + score.metric : "", width, models[i].name, name,
                         model_score.value,
                         model_score.error ? fmt::format("{:.4f}", *model_score.error) : "N/A",
                         i == 0 ? "" : fmt::format("{:+.4f}", model_score.difference), interval,
                         model_score.p ? fmt::format("{:.4f}", *model_score.p) : "");
    }
  const auto wins = win_rates(scores, models.size());
  for (size_t i = 0; i < models.size(); ++i)
    out += fmt::format("{}: win rate {:.3f}\n", models[i].name, wins[i]);
  return out;
}

}  // namespace makar
