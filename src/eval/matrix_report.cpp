// The matrix as a file, a table and a chart.
#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/xml.h"
#include "eval/matrix.h"

namespace makar {
namespace {

constexpr size_t kMaxMatrixBytes = size_t{64} << 20, kMaxScenarios = 10'000;

// The value of a scenario's column; nullopt if this model lacks it.
std::optional<double> value_at(const Json& matrix, const std::string& scenario, const char* column) {
  for (const Json& row : matrix["scenarios"])
    if (row["scenario"] == scenario && row[column].is_number()) return row[column].get<double>();
  return std::nullopt;
}

std::vector<std::string> scenarios_of(const std::vector<Json>& matrices) {
  std::vector<std::string> out;
  for (const Json& matrix : matrices)
    for (const Json& row : matrix["scenarios"]) {
      const std::string name = row["scenario"];
      if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
    }
  return out;
}

std::string name_of(const Json& matrix) { return matrix["model"]; }

std::string value_text(const std::optional<double>& value) {
  if (!value) return "-";
  return std::abs(*value) >= 100 ? fmt::format("{:.0f}", *value) : fmt::format("{:.3f}", *value);
}

// 0 (worst) to 1 (best). Efficiency is compared with the lowest value of its scenario.
double quality_of(const MatrixColumn& column, double value, double lowest) {
  if (std::string_view(column.name) == "efficiency") return value > 0 ? std::min(lowest / value, 1.0) : 1;
  const double share = std::clamp(value, 0.0, 1.0);
  return column.higher_is_better ? share : 1 - share;
}

constexpr double kCellWidth = 92, kRowHeight = 24, kHeaderHeight = 60, kScenarioGap = 8;  // pixels

// The SVG text of a chart, and the top of the current row.
struct MatrixChart {
  std::string svg;
  double left = 100, y = kHeaderHeight;

  // The title and the names of the columns.
  MatrixChart(const std::vector<Json>& matrices, const std::vector<std::string>& scenarios) {
    const auto& columns = matrix_columns();
    const bool several = matrices.size() > 1;
    for (const std::string& scenario : scenarios)  // about 6.6 pixels per byte of a label
      for (const Json& matrix : matrices)
        left = std::max(left, 20 + 6.6 * static_cast<double>(scenario.size() +
                                                             (several ? name_of(matrix).size() + 2 : 0)));
    const std::string title =
        (several ? "Scenarios by metrics" : name_of(matrices[0])) + ": ↑ higher is better, ↓ lower is better";
    const double width = std::max(left + kCellWidth * static_cast<double>(columns.size()),
                                  20 + 7.7 * static_cast<double>(title.size())) +
                         10;
    const size_t rows = (scenarios.size() + several) * matrices.size();
    const double height = kHeaderHeight + kRowHeight * static_cast<double>(rows) +
                          kScenarioGap * static_cast<double>(scenarios.size());
    svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
        "font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"10\" y=\"22\" font-size=\"14\">{}</text>\n",
        width, height + 10, xml_escaped(title));
    for (size_t c = 0; c < columns.size(); ++c)
      svg += fmt::format("<text x=\"{:.0f}\" y=\"48\" text-anchor=\"middle\">{} {}</text>\n",
                         left + kCellWidth * (static_cast<double>(c) + 0.5), columns[c].name,
                         columns[c].higher_is_better ? "↑" : "↓");
  }

  void label(const std::string& text) {
    svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n", left - 8, y + 16,
                       xml_escaped(text));
  }

  // `quality`: 0 (red) through 0.5 (yellow) to 1 (green).
  void cell(size_t column, const std::optional<double>& value, double quality) {
    const double x = left + kCellWidth * static_cast<double>(column);
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" fill=\"{}\"/>"
        "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
        x + 1, y + 1, kCellWidth - 2, kRowHeight - 2,
        value ? fmt::format("hsl({:.0f},60%,80%)", 120 * quality) : "#eeeeee", x + kCellWidth / 2, y + 16,
        value_text(value));
  }
};

}  // namespace

Result<Json> parse_matrix(const std::string& text, const std::string& place) {
  MAKAR_TRY(Json out, parse_json(text, place, {kMaxMatrixBytes, 32}));
  const auto is_text = [](const Json& json, const char* key) {
    return json.contains(key) && json[key].is_string();
  };
  if (!out.is_object() || !is_text(out, "model") || !out.contains("scenarios") ||
      !out["scenarios"].is_array())
    return error_at(place,
                    "is not a matrix: expected an object with 'model' and 'scenarios', as makar eval matrix "
                    "--output writes it");
  if (out["scenarios"].size() > kMaxScenarios)
    return error_at(place, "has {} scenarios; the limit is {}", out["scenarios"].size(), kMaxScenarios);
  for (size_t i = 0; i < out["scenarios"].size(); ++i) {
    Json& row = out["scenarios"][i];
    if (!row.is_object() || !is_text(row, "scenario"))
      return error_at(fmt::format("{}: scenarios[{}]", place, i),
                      "expected an object with the name 'scenario'");
    for (const MatrixColumn& column : matrix_columns()) {
      if (!row.contains(column.name)) row[column.name] = Json();
      if (!row[column.name].is_null() && !row[column.name].is_number())
        return error_at(fmt::format("{}: scenarios[{}]", place, i), "'{}' must be a number or null",
                        column.name);
    }
  }
  return out;
}

Result<Json> read_matrix(const std::string& path) {
  const std::string file = path.ends_with(".json") ? path : path + "/matrix.json";
  MAKAR_TRY(const std::string text, read_file(file, kMaxMatrixBytes));
  return parse_matrix(text, file);
}

Json matrix_win_rates(const std::vector<Json>& matrices) {
  Json out = Json::array();
  for (const Json& matrix : matrices) {
    Json rates = {{"model", matrix["model"]}};
    double sum = 0, columns = 0;
    for (const MatrixColumn& column : matrix_columns()) {
      double wins = 0, all = 0;
      for (const Json& other : matrices) {
        if (&other == &matrix) continue;
        for (const std::string& scenario : scenarios_of(matrices)) {
          const auto a = value_at(matrix, scenario, column.name), b = value_at(other, scenario, column.name);
          if (!a || !b) continue;
          ++all;
          wins += *a == *b ? 0.5 : (*a > *b) == column.higher_is_better ? 1 : 0;
        }
      }
      rates[column.name] = all == 0 ? Json() : Json(wins / all);
      if (all > 0) sum += wins / all, ++columns;
    }
    rates["mean"] = columns == 0 ? Json() : Json(sum / columns);
    out.push_back(rates);
  }
  return out;
}

std::string matrix_table(const std::vector<Json>& matrices) {
  size_t width = 8, name = 5;
  for (const std::string& scenario : scenarios_of(matrices)) width = std::max(width, scenario.size());
  for (const Json& matrix : matrices) name = std::max(name, name_of(matrix).size());
  std::string out = fmt::format("| {:<{}} | {:<{}} |", "scenario", width, "model", name);
  std::string line = fmt::format("|{:-<{}}|{:-<{}}|", "", width + 2, "", name + 2);
  for (const MatrixColumn& column : matrix_columns()) {
    out += fmt::format(" {:>11} |", column.name);
    line += "-------------|";
  }
  out += "\n" + line + "\n";
  for (const std::string& scenario : scenarios_of(matrices))
    for (const Json& matrix : matrices) {
      out += fmt::format("| {:<{}} | {:<{}} |", scenario, width, name_of(matrix), name);
      for (const MatrixColumn& column : matrix_columns())
        out += fmt::format(" {:>11} |", value_text(value_at(matrix, scenario, column.name)));
      out += "\n";
    }
  if (matrices.size() < 2) return out;
  for (const Json& rates : matrix_win_rates(matrices)) {
    out += fmt::format("| {:<{}} | {:<{}} |", "win rate", width, rates["model"].get<std::string>(), name);
    for (const MatrixColumn& column : matrix_columns())
      out += fmt::format(" {:>11} |",
                         rates[column.name].is_number() ? value_text(rates[column.name].get<double>()) : "-");
    out += rates["mean"].is_number() ? fmt::format(" mean {:.3f}\n", rates["mean"].get<double>()) : "\n";
  }
  return out;
}

std::string matrix_svg(const std::vector<Json>& matrices) {
  const auto scenarios = scenarios_of(matrices);
  const auto& columns = matrix_columns();
  const bool several = matrices.size() > 1;
  MatrixChart chart(matrices, scenarios);
  for (const std::string& scenario : scenarios) {
    for (const Json& matrix : matrices) {
      chart.label(several ? scenario + ", " + name_of(matrix) : scenario);
      for (size_t c = 0; c < columns.size(); ++c) {
        const auto value = value_at(matrix, scenario, columns[c].name);
        double lowest = INFINITY;
        for (const Json& other : matrices)
          lowest = std::min(lowest, value_at(other, scenario, columns[c].name).value_or(INFINITY));
        chart.cell(c, value, value ? quality_of(columns[c], *value, lowest) : 0);
      }
      chart.y += kRowHeight;
    }
    chart.y += several ? kScenarioGap : 0;
  }
  if (several)
    for (const Json& rates : matrix_win_rates(matrices)) {
      chart.label("win rate, " + rates["model"].get<std::string>());
      for (size_t c = 0; c < columns.size(); ++c) {
        const Json& rate = rates[columns[c].name];
        const auto value = rate.is_number() ? std::optional<double>(rate.get<double>()) : std::nullopt;
        chart.cell(c, value, value.value_or(0));
      }
      chart.y += kRowHeight;
    }
  return chart.svg + "</svg>\n";
}

}  // namespace makar
