#pragma once

#include <string>
#include <utility>
#include <vector>

#include "profiler/trace/statistics/samples.h"

namespace mptune::reports {

/// Returns an SVG element as wide as its page and `height` pixels high. `label` says to a screen reader what it shows.
[[nodiscard]] std::string chart_svg(double height, const std::string& label, const std::string& content,
                                    const std::string& css_class = "chart");
/// Returns a rectangle from `x` to `x + width` percent with a tooltip; "" as `title` for none.
[[nodiscard]] std::string chart_rect(const std::string& css_class, double x, double width, double y, double height,
                                     const std::string& title);
/// Returns a dot at `x` percent and `y` pixels.
[[nodiscard]] std::string chart_dot(const std::string& css_class, double x, double y, const std::string& title);
/// Returns a line between places in percent and pixels.
[[nodiscard]] std::string chart_line(const std::string& css_class, double x1, double y1, double x2, double y2);
[[nodiscard]] std::string chart_text(double x, double y, const char* anchor, const std::string& text, const std::string& css_class = "");

/// Returns a legend in a line. `entries`: class and words of each swatch.
[[nodiscard]] std::string chart_legend(const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace mptune::reports
