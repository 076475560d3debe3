#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiler/base/units.h"
#include "reports/html/axis.h"
#include "reports/html/charts.h"
#include "reports/html/markup.h"
#include "reports/html/svg_parts.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

constexpr double kRowHeight = 18;
constexpr double kPlotTop = 18;
constexpr double kPlotHeight = 220;  // without the labels under it
constexpr double kSquareTop = 34;    // with the name of the axis
constexpr double kSquare = 300;
constexpr double kBelow = 20;  // labels of the axis

/// Values from the bottom of a plot upwards, in pixels, with lines at round values. The labels stand on their lines.
class ValueScale {
 public:
  ValueScale(double largest_s, double top, double height) : axis_(time_axis(largest_s)), top_(top), height_(height) {}
  [[nodiscard]] double y(double seconds) const { return top_ + height_ * (1 - axis_.percent(seconds) / 100); }
  [[nodiscard]] std::string lines() const {
    std::string drawn;
    for (std::size_t i = 0; i < axis_.ticks.size(); ++i) {
      const double place = y(axis_.ticks[i]);
      drawn += chart_line(i == 0 ? "base" : "rule", 0, place, 100, place);
      if (i > 0) drawn += chart_text(0, place - 4, "start", axis_.tick_labels[i]);
    }
    return drawn;
  }

 private:
  Axis axis_;
  double top_, height_;
};

std::string interval_mark(const IntervalRow& row, const Axis& axis) {
  const double middle = kRowHeight / 2;
  const double x = axis.percent(row.seconds);
  std::string drawn = chart_line(row.chosen ? "stem chosen" : "stem", 0, middle, x, middle);
  if (row.ci95) {
    const double low = axis.percent(row.ci95->low), high = axis.percent(row.ci95->high);
    drawn += chart_line("error", low, middle, high, middle);
    for (const double end : {low, high}) drawn += chart_line("error", end, middle - 5, end, middle + 5);
  }
  return drawn + chart_dot(row.chosen ? "dot chosen" : "dot", x, middle, row.name + ": " + row.value);
}

double largest_of(const CurvePoint& point) {
  return std::max({point.predicted_s, point.measured_s.value_or(0), point.measured_ci95_s ? point.measured_ci95_s->high : 0});
}

std::string joined_points(const std::string& css_class, const std::vector<std::pair<double, double>>& places) {
  std::string drawn;
  for (std::size_t i = 1; i < places.size(); ++i)
    drawn += chart_line(css_class, places[i - 1].first, places[i - 1].second, places[i].first, places[i].second);
  return drawn;
}

std::string measured_mark(const CurvePoint& point, double x, const ValueScale& scale, bool chosen) {
  const double y = scale.y(*point.measured_s);
  std::string drawn;
  if (point.measured_ci95_s) {
    const double low = scale.y(point.measured_ci95_s->low), high = scale.y(point.measured_ci95_s->high);
    drawn += chart_line("error", x, low, x, high);
  }
  if (chosen) drawn += fmt::format("<circle class=\"ring\" cx=\"{:.2f}%\" cy=\"{:.1f}\" r=\"9\"/>\n", x, y);
  const std::string words = fmt::format("split size {}: measured {}", point.split_size, format_seconds(*point.measured_s));
  const std::string interval = point.measured_ci95_s ? ", 95 % " + format_interval_seconds(*point.measured_ci95_s) : "";
  return drawn + chart_dot(chosen ? "dot chosen" : "dot", x, y, words + interval);
}

}  // namespace

std::string interval_chart(const std::vector<IntervalRow>& rows) {
  double largest = 0;
  for (const IntervalRow& row : rows) largest = std::max({largest, row.seconds, row.ci95 ? row.ci95->high : 0});
  if (largest <= 0) return "";
  const Axis axis = time_axis(largest);
  std::string markup = "<div class=\"intervals\">\n";
  for (const IntervalRow& row : rows) {
    markup += element("div", "class=\"head\"",
                      element("span", row.chosen ? "class=\"name chosen\"" : "class=\"name\"",
                              escape_html(row.name) + (row.detail.empty() ? "" : " " + element("small", "", escape_html(row.detail)))) +
                          element("span", "class=\"value\"",
                                  escape_html(row.value) + (row.note.empty() ? "" : " " + element("small", "", escape_html(row.note)))));
    markup += row.seconds > 0 ? chart_svg(kRowHeight, row.name + ": " + row.value, interval_mark(row, axis)) : "";
  }
  return markup + chart_svg(kBelow, "axis of time from 0 to " + format_seconds(axis.most), axis_below(axis, 4)) + "</div>\n";
}

std::string curve_chart(const std::vector<CurvePoint>& curve, double single_s, int chosen) {
  double largest = single_s;
  for (const CurvePoint& point : curve) largest = std::max(largest, largest_of(point));
  if (curve.size() < 2 || largest <= 0) return "";
  const ValueScale scale(largest, kPlotTop, kPlotHeight);
  const double bottom = kPlotTop + kPlotHeight;
  std::string drawn = scale.lines();
  std::string labels, dots;
  std::vector<std::pair<double, double>> predicted, measured;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const CurvePoint& point = curve[i];
    const double x = (static_cast<double>(i) + 0.5) / static_cast<double>(curve.size()) * 100;
    labels += chart_text(x, bottom + 15, "middle", std::to_string(point.split_size), point.split_size == chosen ? "strong" : "");
    if (point.predicted_s > 0) {
      predicted.emplace_back(x, scale.y(point.predicted_s));
      dots += chart_dot("dot hollow", x, scale.y(point.predicted_s),
                        fmt::format("split size {}: predicted {}", point.split_size, format_seconds(point.predicted_s)));
    }
    if (!point.measured_s) continue;
    measured.emplace_back(x, scale.y(*point.measured_s));
    dots += measured_mark(point, x, scale, point.split_size == chosen);
  }
  if (single_s > 0) {
    drawn += chart_line("reference", 0, scale.y(single_s), 100, scale.y(single_s));
    drawn += chart_text(100, scale.y(single_s) - 5, "end", "one device " + format_seconds(single_s), "strong");
  }
  drawn += joined_points("line predicted", predicted) + joined_points("line", measured) + dots + labels;
  drawn += chart_text(50, bottom + 33, "middle", "samples per micro-batch");
  return chart_svg(bottom + 40, "step time over the split size", drawn) +
         "<ul class=\"legend\"><li><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><circle class=\"dot\" cx=\"6\" cy=\"6\" "
         "r=\"4.5\"/></svg>"
         "measured</li><li><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><circle class=\"dot hollow\" cx=\"6\" cy=\"6\" "
         "r=\"4.5\"/></svg>"
         "predicted</li>" +
         (chosen > 0
              ? "<li><svg width=\"20\" height=\"20\" aria-hidden=\"true\"><circle class=\"ring\" cx=\"10\" cy=\"10\" r=\"9\"/><circle "
                "class=\"dot chosen\" cx=\"10\" cy=\"10\" r=\"4.5\"/></svg>chosen</li>"
              : std::string()) +
         "</ul>\n";
}

std::string scatter_chart(const std::vector<ScatterPoint>& points) {
  double largest = 0;
  for (const ScatterPoint& point : points) largest = std::max({largest, point.predicted_s, point.measured_s});
  if (points.empty() || largest <= 0) return "";
  const Axis axis = time_axis(largest);
  const ValueScale scale(largest, kSquareTop, kSquare);
  const double bottom = kSquareTop + kSquare;
  std::string drawn = scale.lines() + chart_line("reference", 0, bottom, 100, kSquareTop);
  std::string last;
  for (const ScatterPoint& point : points) {
    const std::string words =
        fmt::format("{}: predicted {}, measured {}", point.name, format_seconds(point.predicted_s), format_seconds(point.measured_s));
    std::string& layer = point.chosen ? last : drawn;
    layer += chart_dot(point.chosen ? "dot chosen" : "dot", axis.percent(point.predicted_s), scale.y(point.measured_s), words);
  }
  std::string labels;
  for (std::size_t i = 0; i < axis.ticks.size(); ++i) {
    const double x = axis.percent(axis.ticks[i]);
    labels += chart_text(x, bottom + 15, i == 0 ? "start" : x > 96 ? "end" : "middle", axis.tick_labels[i]);
  }
  labels += chart_text(50, bottom + 33, "middle", "predicted step") + chart_text(0, 10, "start", "measured step", "strong");
  return element("div", "class=\"square\"", chart_svg(bottom + 40, "predicted against measured step times", drawn + last + labels));
}

std::string progress_chart(const std::vector<double>& steps_s) {
  if (steps_s.size() < 3) return "";
  constexpr double kHeight = 120;
  const ValueScale scale(std::ranges::max(steps_s), kPlotTop, kHeight);
  const double bottom = kPlotTop + kHeight;
  std::string drawn = scale.lines();
  double best = steps_s.front();
  const double width = 100.0 / static_cast<double>(steps_s.size());
  for (std::size_t i = 0; i < steps_s.size(); ++i) {
    const double x = width * static_cast<double>(i);
    const double before = best;
    best = std::min(best, steps_s[i]);
    if (best < before) drawn += chart_line("line", x, scale.y(before), x, scale.y(best));
    drawn += chart_line("line", x, scale.y(best), x + width, scale.y(best));
    if (steps_s[i] > best)
      drawn += fmt::format("<circle class=\"faint\" cx=\"{:.2f}%\" cy=\"{:.1f}\" r=\"2.5\"/>\n", x, scale.y(steps_s[i]));
  }
  drawn += chart_text(100, scale.y(best) - 6, "end", "best " + format_seconds(best), "strong");
  drawn += chart_text(0, bottom + 15, "start", "first trial") + chart_text(100, bottom + 15, "end", "last trial");
  return chart_svg(bottom + 20, "best step time so far over the trials", drawn);
}

}  // namespace mptune::reports
