#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/trace/statistics/samples.h"

namespace mptune::testing {

/// One row of values of a chart, with one value per category; nothing is drawn where a value is missing.
struct SvgSeries {
  std::string name;
  std::vector<std::optional<double>> values;
  std::vector<std::optional<Interval>> ci95;  ///< empty: no error bars; else one per value
};

/// What a chart shows: values from zero on, in the unit that `value_axis` names.
struct SvgChart {
  std::string title;
  std::string value_axis;     ///< "step in seconds"
  std::string category_axis;  ///< "samples per micro-batch"; bars do not show it
  std::vector<std::string> categories;
  std::vector<SvgSeries> series;
};

/// Draws horizontal bars, a group per category with a bar per series; error bars at their ends, values after them. Returns a whole SVG file
/// without external references; dark if the viewer prefers that. Requires: as many values as categories in each series, none negative.
[[nodiscard]] std::string svg_bars(const SvgChart& chart);

/// Draws points joined by a line per series over equally spaced categories, with error bars; in other respects as svg_bars() does.
[[nodiscard]] std::string svg_curve(const SvgChart& chart);

}  // namespace mptune::testing
