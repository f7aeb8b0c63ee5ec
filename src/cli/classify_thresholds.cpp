#include "cli/classify_thresholds.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/quote.h"

namespace makar {

Result<LabelThresholds> LabelThresholds::parse(const std::vector<std::string>& texts,
                                               const ClassLabels& labels) {
  LabelThresholds out;
  out.multi_label_ = labels.multi_label;
  out.default_ = labels.multi_label ? 0.5 : -std::numeric_limits<double>::infinity();
  out.per_label_.assign(labels.names.size(), std::nan(""));
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    const std::string number = equals == std::string::npos ? text : text.substr(equals + 1);
    double value = 0;
    const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (code != std::errc() || end != number.data() + number.size() || !std::isfinite(value))
      return error_at("--threshold", "expected a number, or LABEL=NUMBER, got {}", quote(text));
    if (equals == std::string::npos) {
      out.default_ = value;
      continue;
    }
    const auto found = std::find(labels.names.begin(), labels.names.end(), text.substr(0, equals));
    if (found == labels.names.end())
      return error_at("--threshold", "no label {}; the labels are {}", quote(text.substr(0, equals)),
                      fmt::format("{}", fmt::join(labels.names, ", ")));
    out.per_label_[static_cast<size_t>(found - labels.names.begin())] = value;
  }
  return out;
}

std::vector<size_t> LabelThresholds::choose(const std::vector<double>& scores) const {
  std::vector<size_t> out;
  if (multi_label_) {
    for (size_t i = 0; i < scores.size(); ++i)
      if (scores[i] >= (std::isnan(per_label_[i]) ? default_ : per_label_[i])) out.push_back(i);
    std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    return out;
  }
  for (const bool has_own : {true, false}) {
    for (size_t i = 0; i < scores.size(); ++i) {
      if (std::isnan(per_label_[i]) == has_own || scores[i] < (has_own ? per_label_[i] : default_)) continue;
      if (out.empty() || scores[i] > scores[out[0]]) out.assign(1, i);
    }
    if (!out.empty()) return out;
  }
  return out;
}

}  // namespace makar
