#include "reports/html/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiler/base/units.h"

namespace mptune::reports {
namespace {

double round_step(double largest, int most_ticks) {
  const double power = std::pow(10, std::floor(std::log10(largest / most_ticks)));
  for (const double round : {1.0, 2.0, 5.0})
    if (round * power * most_ticks >= largest * (1 - 1e-9)) return round * power;
  return 10 * power;
}

/// Returns "200", "1", "2.5": format_alike() keeps three digits, which a round number does not need.
std::string without_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

Axis time_axis(double largest_s, int most_ticks, bool exact) {
  Axis axis;
  if (!(largest_s > 0) || !std::isfinite(largest_s)) return {.most = 1, .ticks = {0}, .tick_labels = {"0"}};
  const double step = round_step(largest_s, most_ticks);
  const int steps = static_cast<int>(exact ? std::floor(largest_s / step + 1e-9) : std::ceil(largest_s / step - 1e-9));
  axis.most = exact ? largest_s : step * steps;
  for (int i = 0; i <= steps; ++i) axis.ticks.push_back(step * i);
  const auto [texts, unit] = format_alike(axis.ticks);
  for (const std::string& text : texts) axis.tick_labels.push_back(without_zeros(text));
  axis.tick_labels.front() = "0";
  if (steps > 0) axis.tick_labels.back() += " " + unit;
  return axis;
}

std::string axis_below(const Axis& axis, double height) {
  std::string drawn;
  for (std::size_t i = 0; i < axis.ticks.size(); ++i) {
    const double x = axis.percent(axis.ticks[i]);
    const char* anchor = i == 0 ? "start" : x > 96 ? "end" : "middle";
    drawn += fmt::format("<line class=\"rule\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"0\" y2=\"{1:.0f}\"/>", x, height);
    drawn += fmt::format("<text x=\"{:.2f}%\" y=\"{:.0f}\" text-anchor=\"{}\">{}</text>\n", x, height + 15, anchor, axis.tick_labels[i]);
  }
  return drawn;
}

}  // namespace mptune::reports
