#include "tests/support/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiler/base/printable.h"

namespace mptune::testing {
namespace {

constexpr double kSvgWidth = 760;
constexpr double kSvgTop = 64;     // title and legend
constexpr double kSvgBottom = 56;  // ticks and the name of the axis
constexpr double kSvgLeft = 200;
constexpr double kSvgRight = 70;
constexpr double kSvgBar = 18;
constexpr double kSvgGroupGap = 16;
constexpr double kSvgCurveHeight = 400;
constexpr double kSvgCurveLeft = 70;
constexpr double kSvgCurveRight = 20;
constexpr int kSvgColours = 3;

std::string escape_xml(const std::string& text) {
  std::string escaped;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

// Colours are attributes, for viewers without style sheets; the style sheet replaces them in dark mode.
const char* colour_of(std::size_t series) {
  constexpr const char* kFill[kSvgColours] = {"#2563eb", "#9ca3af", "#d97706"};
  return kFill[series % kSvgColours];
}

std::string svg_begin(double height, const std::string& title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title>{2}</title>\n"
      "<style>@media (prefers-color-scheme: dark) {{ .ground {{ fill: #111827 }} text {{ fill: #e5e7eb }} .rule {{ stroke: #374151 }} "
      ".error {{ stroke: #f9fafb }} .f0 {{ fill: #60a5fa }} .f1 {{ fill: #6b7280 }} .f2 {{ fill: #fbbf24 }} "
      ".s0 {{ stroke: #60a5fa }} .s1 {{ stroke: #6b7280 }} .s2 {{ stroke: #fbbf24 }} }}</style>\n"
      "<rect class=\"ground\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"16\" y=\"26\" font-size=\"16\" font-weight=\"600\" fill=\"#1f2937\">{2}</text>\n",
      kSvgWidth, height, escape_xml(title));
}

std::string svg_text(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"#1f2937\">{}</text>\n", x, y, anchor, escape_xml(words));
}

std::string svg_line(const char* kind, const char* colour, double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{}\"/>\n",
                     kind, x1, y1, x2, y2, colour, kind[0] == 'r' ? 1 : 1.6);
}

std::string svg_rule(double x1, double y1, double x2, double y2) {
  return svg_line("rule", "#e5e7eb", x1, y1, x2, y2);
}

std::string error_line(double x1, double y1, double x2, double y2) {
  return svg_line("error", "#111827", x1, y1, x2, y2);
}

std::string svg_legend(const SvgChart& chart) {
  std::string drawn;
  double x = 16;
  if (chart.series.size() < 2) return drawn;
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    drawn += fmt::format("<rect class=\"f{}\" x=\"{:.1f}\" y=\"39\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", s % kSvgColours, x,
                         colour_of(s));
    drawn += svg_text(x + 18, 50, "start", chart.series[s].name);
    x += 42 + 7.2 * static_cast<double>(chart.series[s].name.size());
  }
  return drawn;
}

// Ticks from zero to a round number above all values, in at most six round steps.
struct RoundScale {
  double step = 1;
  int steps = 1;
  [[nodiscard]] double most() const { return step * steps; }
};

RoundScale round_scale(const SvgChart& chart) {
  double most = 0;
  for (const SvgSeries& series : chart.series) {
    for (const auto& value : series.values) most = std::max(most, value.value_or(0));
    for (const auto& interval : series.ci95) most = std::max(most, interval ? interval->high : 0);
  }
  if (most <= 0) return {};
  const double power = std::pow(10, std::floor(std::log10(most / 6)));
  double step = 10 * power;
  for (const double round : {5.0, 2.0, 1.0})
    if (round * power * 6 >= most) step = round * power;
  return {step, static_cast<int>(std::ceil(most / step - 1e-9))};
}

std::string tick_text(double value) {
  return fmt::format("{:.3g}", value);
}

std::optional<Interval> error_of(const SvgSeries& series, std::size_t category) {
  return category < series.ci95.size() ? series.ci95[category] : std::nullopt;
}

}  // namespace

std::string svg_bars(const SvgChart& chart) {
  const double group = kSvgBar * static_cast<double>(chart.series.size()) + kSvgGroupGap;
  const double bottom = kSvgTop + group * static_cast<double>(chart.categories.size());
  const RoundScale scale = round_scale(chart);
  const auto x_of = [&](double value) { return kSvgLeft + value / scale.most() * (kSvgWidth - kSvgLeft - kSvgRight); };
  std::string drawn = svg_begin(bottom + kSvgBottom, chart.title) + svg_legend(chart);
  for (int i = 0; i <= scale.steps; ++i) {
    const double x = x_of(scale.step * i);
    drawn += svg_rule(x, kSvgTop, x, bottom) + svg_text(x, bottom + 18, "middle", tick_text(scale.step * i));
  }
  drawn += svg_text((kSvgLeft + kSvgWidth - kSvgRight) / 2, bottom + 40, "middle", chart.value_axis);
  for (std::size_t c = 0; c < chart.categories.size(); ++c) {
    const double top = kSvgTop + kSvgGroupGap / 2 + group * static_cast<double>(c);
    drawn += svg_text(kSvgLeft - 10, top + (group - kSvgGroupGap) / 2 + 4, "end", chart.categories[c]);
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
      const SvgSeries& series = chart.series[s];
      if (!series.values[c]) continue;
      const double y = top + kSvgBar * static_cast<double>(s);
      double end = x_of(*series.values[c]);
      drawn += fmt::format("<rect class=\"f{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
                           s % kSvgColours, kSvgLeft, y + 1, end - kSvgLeft, kSvgBar - 2, colour_of(s));
      if (const std::optional<Interval> error = error_of(series, c)) {
        const double low = x_of(error->low), high = x_of(error->high), middle = y + kSvgBar / 2;
        drawn += error_line(low, middle, high, middle);
        for (const double x : {low, high}) drawn += error_line(x, middle - 4, x, middle + 4);
        end = std::max(end, high);
      }
      drawn += svg_text(end + 6, y + kSvgBar / 2 + 4, "start", tick_text(*series.values[c]));
    }
  }
  return drawn + "</svg>\n";
}

std::string svg_curve(const SvgChart& chart) {
  const double bottom = kSvgCurveHeight - kSvgBottom;
  const RoundScale scale = round_scale(chart);
  const auto y_of = [&](double value) { return bottom - value / scale.most() * (bottom - kSvgTop); };
  const auto x_of = [&](std::size_t category) {
    const double share = (static_cast<double>(category) + 0.5) / static_cast<double>(chart.categories.size());
    return kSvgCurveLeft + share * (kSvgWidth - kSvgCurveLeft - kSvgCurveRight);
  };
  std::string drawn = svg_begin(kSvgCurveHeight, chart.title) + svg_legend(chart);
  for (int i = 0; i <= scale.steps; ++i) {
    const double y = y_of(scale.step * i);
    drawn +=
        svg_rule(kSvgCurveLeft, y, kSvgWidth - kSvgCurveRight, y) + svg_text(kSvgCurveLeft - 8, y + 4, "end", tick_text(scale.step * i));
  }
  for (std::size_t c = 0; c < chart.categories.size(); ++c) drawn += svg_text(x_of(c), bottom + 18, "middle", chart.categories[c]);
  drawn += svg_text((kSvgCurveLeft + kSvgWidth - kSvgCurveRight) / 2, bottom + 42, "middle", chart.category_axis);
  drawn += fmt::format("<text transform=\"translate(18 {:.1f}) rotate(-90)\" text-anchor=\"middle\" fill=\"#1f2937\">{}</text>\n",
                       (kSvgTop + bottom) / 2, escape_xml(chart.value_axis));
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const SvgSeries& series = chart.series[s];
    std::string path, marks;
    for (std::size_t c = 0; c < chart.categories.size(); ++c) {
      if (!series.values[c]) continue;
      const double x = x_of(c), y = y_of(*series.values[c]);
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x, y);
      if (const std::optional<Interval> error = error_of(series, c)) {
        const double low = y_of(error->low), high = y_of(error->high);
        marks += error_line(x, low, x, high) + error_line(x - 4, low, x + 4, low) + error_line(x - 4, high, x + 4, high);
      }
      marks +=
          fmt::format("<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", s % kSvgColours, x, y, colour_of(s));
    }
    drawn += fmt::format("<polyline class=\"s{}\" points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n{}", s % kSvgColours,
                         path, colour_of(s), marks);
  }
  return drawn + "</svg>\n";
}

}  // namespace mptune::testing
