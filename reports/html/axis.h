#pragma once

#include <string>
#include <vector>

namespace mptune::reports {

/// Places on a chart from zero to a round number at or above all values. Places are percentages of the chart's width or height, so that a
/// chart is as wide as its page and its text keeps its size.
struct Axis {
  double most = 1;
  std::vector<double> ticks;             ///< from 0 to `most`
  std::vector<std::string> tick_labels;  ///< "0", "100", "200 ms": only the last has the unit
  [[nodiscard]] double percent(double value) const { return value / most * 100; }
};

/// Returns an axis of at most `most_ticks` steps. `exact`: it ends at the largest value, not at a round number.
[[nodiscard]] Axis time_axis(double largest_s, int most_ticks = 5, bool exact = false);

/// Draws vertical lines at the ticks over `height` pixels, with their labels under them, as content of an SVG element.
[[nodiscard]] std::string axis_below(const Axis& axis, double height);

}  // namespace mptune::reports
