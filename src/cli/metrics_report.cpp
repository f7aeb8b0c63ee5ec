// The results of makar metrics: text and JSON, intervals, and tests between systems.
#include <fmt/format.h>

#include <cmath>

#include "cli/metrics.h"
#include "cli/run.h"
#include "cli/text_io.h"

namespace makar {
namespace {

std::string number_text(const Json& value) {
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The interval of an object's value is in the field NAME_interval.
bool is_interval(const std::string& key, const Json& value) {
  return key.ends_with("_interval") && value.is_array() && value.size() == 2;
}

// A flat list or object, which is printed on one line.
bool is_row(const Json& value) {
  for (const auto& [key, one] : value.items())
    if (one.is_structured() && !is_interval(key, one)) return false;
  return true;
}

// "precision 0.8  recall 1", "96.3 72.0 57.6", "tpr 0.8 [0.7, 0.9]"
std::string row_text(const Json& value) {
  std::string out;
  for (const auto& [key, one] : value.items()) {
    if (is_interval(key, one)) continue;
    if (!out.empty()) out += "  ";
    if (value.is_object()) out += key + " ";
    out += number_text(one);
    if (const auto at = value.is_object() ? value.find(key + "_interval") : value.end();
        at != value.end() && is_interval(key + "_interval", *at))
      out += fmt::format(" [{}, {}]", number_text((*at)[0]), number_text((*at)[1]));
  }
  return out;
}

// One line per scalar, list or flat object; nested values below their key.
void details_text(const Json& details, size_t indent, std::string& out) {
  for (const auto& [key, value] : details.items()) {
    const std::string left = std::string(indent, ' ') + (details.is_object() ? key : "");
    if (!value.is_structured()) {
      out += fmt::format("{}  {}\n", left, number_text(value));
    } else if (is_row(value)) {
      out += fmt::format("{}  {}\n", left, row_text(value));
    } else {
      out += left + "\n";
      details_text(value, indent + 2, out);
    }
  }
}

Json interval_json(const Interval& interval, const ResampleOptions& o) {
  return {{"low", interval.low}, {"high", interval.high},    {"mean", interval.mean},
          {"level", o.level},    {"resamples", o.resamples}, {"seed", o.seed}};
}

Json result_json(const Evaluation& e, const MetricOutput& output) {
  Json out = {{"name", e.name}, {"score", e.score}, {"signature", e.signature}};
  const auto interval = bootstrap_interval(e, output.resample);
  out["interval"] = interval ? interval_json(*interval, output.resample) : Json();
  out["lower_is_better"] = e.lower_is_better;
  out["items"] = e.units;
  for (const auto& [key, value] : e.details.items()) out[key] = value;
  if (output.each) out["each"] = e.unit_scores;
  return out;
}

std::string result_text(Json result) {
  std::string out =
      fmt::format("{}  {:.6g}", result["name"].get<std::string>(), result["score"].get<double>());
  if (const Json& i = result["interval"]; i.is_object())
    out +=
        fmt::format("  [{:.6g}, {:.6g}]  {:g}% of {} resamples", i["low"].get<double>(),
                    i["high"].get<double>(), 100 * i["level"].get<double>(), i["resamples"].get<int64_t>());
  out += fmt::format("\n  {}\n", result["signature"].get<std::string>());
  const Json each = result.contains("each") ? result["each"] : Json();
  for (const char* key : {"name", "score", "interval", "signature", "lower_is_better", "each"})
    result.erase(key);
  details_text(result, 2, out);
  for (size_t i = 0; i < each.size(); ++i) out += fmt::format("{}\t{:.6g}\n", i + 1, each[i].get<double>());
  return out;
}

Result<Json> comparison(const Evaluation& a, const Evaluation& b, const std::vector<std::string>& names,
                        const Evaluate& evaluate, const MetricOutput& output) {
  MAKAR_TRY(const Evaluation both, evaluate(names));
  Json out = {{"first", names[0]}, {"second", names[1]}, {"difference", b.score - a.score}};
  if (both.units != 2 * a.units || a.units != b.units)
    return error_at(names[1], "has {} items to compare, {} has {}", b.units, names[0], a.units);
  const PairedTest bootstrap = paired_bootstrap(both, output.resample);
  out["bootstrap"] = {{"p", bootstrap.p}, {"interval", interval_json(bootstrap.interval, output.resample)}};
  out["randomisation"] = {{"p", approximate_randomisation(both, output.resample).p},
                          {"trials", output.resample.trials}};
  if (!a.correct.empty()) {
    const McNemar m = mcnemar(a.correct, b.correct);
    out["mcnemar"] = {{"p", m.exact_p},
                      {"only_first", m.only_first},
                      {"only_second", m.only_second},
                      {"chi2", m.chi2},
                      {"chi2_p", m.chi2_p}};
  }
  return out;
}

std::string comparison_text(const Json& c) {
  const Json& i = c["bootstrap"]["interval"];
  std::string out = fmt::format("{} - {}: {:+.6g}  [{:.6g}, {:.6g}]\n", c["second"].get<std::string>(),
                                c["first"].get<std::string>(), c["difference"].get<double>(),
                                i["low"].get<double>(), i["high"].get<double>());
  out += fmt::format("  paired bootstrap  p {:.4g}\n", c["bootstrap"]["p"].get<double>());
  out += fmt::format("  approximate randomisation  p {:.4g}\n", c["randomisation"]["p"].get<double>());
  if (c.contains("mcnemar"))
    out += fmt::format("  McNemar  p {:.4g} (only the first correct: {}, only the second: {})\n",
                       c["mcnemar"]["p"].get<double>(), c["mcnemar"]["only_first"].get<int64_t>(),
                       c["mcnemar"]["only_second"].get<int64_t>());
  return out;
}

}  // namespace

void MetricOutput::declare(Options& options) {
  options.group("Significance");
  options.add("--resamples", &resample.resamples, "bootstrap resamples for the interval; 0 for no interval",
              "N");
  options.add("--trials", &resample.trials, "trials of approximate randomisation between two systems", "N");
  options.add("--level", &resample.level, "share of resamples inside the interval", "X");
  options.add("--seed", &seed, "seed of the resampling", "N");
  options.group("Output");
  options.add("--each --sentence-level", &each, "print the score of each item too");
  options.add("--json", &json, "print one JSON object");
}

Status MetricOutput::check() {
  resample.seed = static_cast<uint64_t>(seed);
  if (resample.resamples < 0 || resample.resamples > 1000000)
    return error_at("--resamples", "must be 0 to 1000000, got {}", resample.resamples);
  if (resample.trials < 0 || resample.trials > 1000000)
    return error_at("--trials", "must be 0 to 1000000, got {}", resample.trials);
  if (!(resample.level > 0 && resample.level < 1))
    return error_at("--level", "must be between 0 and 1, got {}", resample.level);
  return Done{};
}

std::optional<int> parse_metric(Options& options, MetricOutput& output,
                                const std::vector<std::string>& arguments) {
  output.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return code;
  if (const Status s = output.check(); !s.ok()) return report(s.error()), 2;
  return std::nullopt;
}

void MetricFiles::declare(Options& options, const char* hyp_help, const char* ref_help) {
  options.group("Input");
  options.add("--hyp --hypothesis --predictions", &hyp, hyp_help, "FILE").required = true;
  if (*ref_help) options.add("--ref --reference --references", &ref, ref_help, "FILE").required = true;
}

int report_metric(const std::vector<std::string>& systems, const Evaluate& evaluate,
                  const MetricOutput& output) {
  std::vector<Evaluation> evaluations;
  Json results = Json::array(), comparisons = Json::array();
  for (const std::string& system : systems) {
    auto e = evaluate({system});
    if (!e.ok()) return report(e.error());
    results.push_back(result_json(*e, output));
    evaluations.push_back(std::move(*e));
  }
  for (size_t i = 1; i < systems.size(); ++i) {
    const auto c = comparison(evaluations[0], evaluations[i], {systems[0], systems[i]}, evaluate, output);
    if (!c.ok()) return report(c.error());
    comparisons.push_back(*c);
  }
  if (output.json && systems.size() == 1) return print_out(results[0].dump() + "\n") ? 0 : 1;
  if (output.json) {
    for (size_t i = 0; i < systems.size(); ++i) results[i]["hyp"] = systems[i];
    const Json all = {{"name", evaluations[0].name},
                      {"signature", evaluations[0].signature},
                      {"systems", results},
                      {"comparisons", comparisons}};
    return print_out(all.dump() + "\n") ? 0 : 1;
  }
  std::string text;
  for (size_t i = 0; i < systems.size(); ++i) {
    if (systems.size() > 1) text += systems[i] + "\n";
    text += result_text(results[i]);
  }
  for (const Json& c : comparisons) text += comparison_text(c);
  return print_out(text) ? 0 : 1;
}

}  // namespace makar
