#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "profiler/base/index.h"
#include "profiler/base/units.h"
#include "reports/render/pictures.h"

namespace mptune::reports {
namespace {

constexpr int kRows = 11;
constexpr int kLabel = 9;

struct Scale {
  double low = 0;
  double high = 1;
  /// Returns the row of a value; the highest value is in row 0.
  [[nodiscard]] int row(double value) const {
    const double share = (value - low) / (high - low);
    return std::clamp(static_cast<int>(std::lround((1 - share) * (kRows - 1))), 0, kRows - 1);
  }
  [[nodiscard]] double value(int row) const { return high - (high - low) * row / (kRows - 1); }
};

Scale scale_of(const std::vector<CurvePoint>& curve) {
  std::optional<double> low, high;
  const auto add = [&](double value) {
    low = std::min(low.value_or(value), value);
    high = std::max(high.value_or(value), value);
  };
  for (const CurvePoint& point : curve) {
    if (point.predicted_s > 0) add(point.predicted_s);
    if (point.measured_s) {
      add(*point.measured_s);
      if (!point.measured_ci95_s) continue;
      add(point.measured_ci95_s->low);
      add(point.measured_ci95_s->high);
    }
  }
  const double margin = std::max((*high - *low) * 0.05, *high * 0.01);
  return {std::max(0.0, *low - margin), *high + margin};
}

/// Draws the dotted line through the predictions; it is drawn first so that points lie above it.
void draw_prediction(Canvas& canvas, const std::vector<CurvePoint>& curve, const std::vector<int>& columns, const Scale& scale,
                     const TextStyle& style) {
  std::optional<std::size_t> before;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (curve[i].predicted_s <= 0) continue;
    for (int column = before ? columns[*before] : columns[i]; column <= columns[i]; ++column) {
      const double span = before ? columns[i] - columns[*before] : 1;
      const double share = before ? (column - columns[*before]) / span : 1;
      const double from = before ? curve[*before].predicted_s : curve[i].predicted_s;
      canvas.put(scale.row(from + (curve[i].predicted_s - from) * share), column, style.unicode ? "·" : ".", Color::blue);
    }
    before = i;
  }
}

void draw_measurement(Canvas& canvas, const CurvePoint& point, int column, const Scale& scale, const TextStyle& style) {
  const Interval ends = point.measured_ci95_s.value_or(Interval{*point.measured_s, *point.measured_s});
  const int top = scale.row(ends.high), bottom = scale.row(ends.low);
  for (int row = top; row <= bottom; ++row) canvas.put(row, column, style.unicode ? "│" : "|", Color::green);
  if (top < bottom) {
    canvas.put(top, column, style.unicode ? "┬" : "-", Color::green);
    canvas.put(bottom, column, style.unicode ? "┴" : "-", Color::green);
  }
  canvas.put(scale.row(*point.measured_s), column, style.unicode ? "●" : "o", Color::green);
}

}  // namespace

std::string render_curve(const std::vector<CurvePoint>& curve, const TextStyle& style) {
  std::vector<CurvePoint> points;
  std::ranges::copy_if(curve, std::back_inserter(points), [](const CurvePoint& p) { return p.predicted_s > 0 || p.measured_s; });
  if (points.size() < 2) return "";
  const int width = std::min(style.width - kLabel - 3, 10 * static_cast<int>(points.size()));
  std::vector<int> columns;
  for (std::size_t i = 0; i < points.size(); ++i) columns.push_back(static_cast<int>((2 * i + 1) * as_index(width) / (2 * points.size())));
  const Scale scale = scale_of(points);
  Canvas canvas(kRows, width);
  draw_prediction(canvas, points, columns, scale, style);
  for (std::size_t i = 0; i < points.size(); ++i)
    if (points[i].measured_s) draw_measurement(canvas, points[i], columns[i], scale, style);
  std::string text;
  for (int row = 0; row < kRows; ++row) {
    const bool tick = row % 5 == 0;
    text += pad_left(tick ? format_seconds(scale.value(row)) : "", kLabel) + (style.unicode ? (tick ? " ┤" : " │") : (tick ? " +" : " |"));
    text += canvas.row(row, style) + "\n";
  }
  text += repeat(" ", kLabel) + (style.unicode ? " └" : " +") + repeat(style.unicode ? "─" : "-", width) + "\n";
  Canvas axis(1, width + 4);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::string number = std::to_string(points[i].split_size);
    axis.text(0, columns[i] - static_cast<int>(number.size() - 1) / 2, number);
  }
  text += repeat(" ", kLabel + 2) + axis.row(0, style) + "\n";
  const char* signs = style.unicode ? "● measured with 95 % interval, · predicted" : "o measured with 95 % interval, . predicted";
  return text + hanging(repeat(" ", kLabel + 2), std::string("samples per micro-batch; ") + signs, style);
}

}  // namespace mptune::reports
