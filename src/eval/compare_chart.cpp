// The chart of a comparison: scores with intervals inside -1 to 1.5 share an axis, every other has its own.
#include <algorithm>
#include <cmath>

#include "base/xml.h"
#include "eval/compare.h"

namespace makar {
namespace {

constexpr const char* kColours[] = {"#3366aa", "#cc5533", "#448844", "#886699", "#997722", "#337788"};
constexpr double kPlotWidth = 420, kLineHeight = 15, kRowGap = 12;  // pixels

// About 0.55 of the font size per byte.
double text_width(const std::string& text) { return 6.6 * static_cast<double>(text.size()); }

struct Range {
  double low = 0, high = 0;
  void add(const ComparedScore& score) {
    for (const auto& model : score.models) {
      const double half_width = kZ95 * model.error.value_or(0);
      low = std::min(low, model.value - half_width), high = std::max(high, model.value + half_width);
    }
  }
};

// Ends at multiples of a step of 1, 2 or 5 times a power of ten, with at most six steps.
struct Axis {
  explicit Axis(Range range) {
    if (!(range.high > range.low)) range.high = range.low + 1;
    step = std::pow(10, std::floor(std::log10((range.high - range.low) / 6)));
    for (const double factor : {2.0, 2.5, 2.0})
      if ((range.high - range.low) / step > 6) step *= factor;
    if (!(step > 0) || !std::isfinite(step)) step = 1;
    first = std::floor(range.low / step), last = std::ceil(range.high / step);
    if (!(last - first >= 1 && last - first <= 8)) last = first + 1;
  }
  double at(double value) const { return (value / step - first) / (last - first) * kPlotWidth; }
  double step;         // between two ticks
  double first, last;  // ticks, in steps
};

std::string label_of(const ComparedScore& score) {
  std::string metric = score.metric;
  if (metric.ends_with(",none")) metric.resize(metric.size() - 5);
  return score.task + " " + metric + (score.higher_is_better ? " ↑" : " ↓");
}

std::string number(double value) {
  return std::abs(value) >= 1e5 ? fmt::format("{:.3g}", value) : fmt::format("{:.4g}", value);
}

class Chart {
 public:
  Chart(const std::vector<EvaluatedModel>& models, const std::vector<ComparedScore>& scores)
      : models_(models) {
    for (const ComparedScore& score : scores) left_ = std::max(left_, 20 + text_width(label_of(score)));
    for (const EvaluatedModel& model : models) width_ = std::max(width_, 40 + text_width(model.name));
    width_ = std::max(width_, left_ + kPlotWidth + 150);
  }

  std::string draw(const std::vector<ComparedScore>& scores) {
    text(10, y_ += 18, "Scores with 95 % intervals; ↑ higher is better, ↓ lower is better", "start", 14);
    for (size_t i = 0; i < models_.size(); ++i) {
      y_ += 18;
      circle(16, y_ - 4, i);
      text(26, y_, models_[i].name, "start");
    }
    std::vector<const ComparedScore*> shared;
    Range range;
    for (const ComparedScore& score : scores) {
      Range score_range;
      score_range.add(score);
      if (score_range.low < -1 || score_range.high > 1.5) continue;
      shared.push_back(&score);
      range.add(score);
    }
    panel(shared, range);
    for (const ComparedScore& score : scores) {
      if (std::find(shared.begin(), shared.end(), &score) != shared.end()) continue;
      Range score_range;
      score_range.add(score);
      panel({&score}, score_range);
    }
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
               "font-family=\"sans-serif\" font-size=\"12\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
               width_, y_ + 14) +
           out_ + "</svg>\n";
  }

 private:
  void text(double x, double y, const std::string& content, const char* anchor, int size = 12,
            const char* colour = "black") {
    out_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\" fill=\"{}\">{}</text>\n", x, y,
        anchor, size, colour, xml_escaped(content));
  }
  static const char* colour(size_t model) { return kColours[model % std::size(kColours)]; }
  void circle(double x, double y, size_t model) {
    out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x, y, colour(model));
  }
  void line(double x1, double x2, double y1, double y2, const char* stroke, double width) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{}\"/>\n",
        x1, x2, y1, y2, stroke, width);
  }

  void panel(const std::vector<const ComparedScore*>& scores, const Range& range) {
    if (scores.empty()) return;
    const Axis axis(range);
    const double row = kLineHeight * static_cast<double>(models_.size()) + kRowGap;
    y_ += 30;
    const double bottom = y_ + 6 + row * static_cast<double>(scores.size());
    for (double tick = axis.first; tick <= axis.last; ++tick) {
      const double x = left_ + axis.at(tick * axis.step);
      line(x, x, y_ + 6, bottom, tick == 0 ? "#999999" : "#dddddd", 1);
      text(x, y_, number(tick * axis.step), "middle", 11, "#555555");
    }
    y_ += 6;
    for (const ComparedScore* score : scores) {
      text(left_ - 10, y_ + row / 2 + 4, label_of(*score), "end");
      for (size_t i = 0; i < score->models.size(); ++i)
        draw_score(score->models[i], axis, y_ + kRowGap / 2 + kLineHeight * (static_cast<double>(i) + 0.5),
                   i);
      y_ += row;
      line(10, width_ - 10, y_, y_, "#eeeeee", 1);
    }
  }

  void draw_score(const ComparedScore::ModelScore& score, const Axis& axis, double y, size_t model) {
    const double half_width = kZ95 * score.error.value_or(0);
    if (half_width > 0)
      line(left_ + axis.at(score.value - half_width), left_ + axis.at(score.value + half_width), y, y,
           colour(model), 2);
    circle(left_ + axis.at(score.value), y, model);
    text(left_ + kPlotWidth + 20, y + 4,
         number(score.value) + (score.error ? fmt::format(" ± {}", number(half_width)) : ""), "start", 11,
         colour(model));
  }

  const std::vector<EvaluatedModel>& models_;
  double left_ = 100, width_ = 560, y_ = 6;
  std::string out_;
};

}  // namespace

std::string comparison_svg(const std::vector<EvaluatedModel>& models,
                           const std::vector<ComparedScore>& scores) {
  return Chart(models, scores).draw(scores);
}

}  // namespace makar
