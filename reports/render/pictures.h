#pragma once

#include <string>
#include <vector>

#include "reports/render/style.h"
#include "reports/values/report.h"

namespace mptune::reports {

/// Draws where the step of each device goes.
///
///     device                            compute     copy  overlap     idle      peak
///     cpu:0   ############%==.........   62.0 %    8.0 %    4.0 %   26.0 %   410 MiB
///     # compute  % overlap  = copy  . idle
[[nodiscard]] std::string render_breakdown(const std::vector<DeviceRow>& devices, const TextStyle& style);

/// Draws one step, with devices as rows and a box for what a device does with each micro-batch: forward in light lines, backward in heavy
/// ones,
/// gradients of weights in double ones, idle time dotted. A step with many micro-batches continues on further panels. With more than eight
/// devices each is one line of shades; with more than 32 the first ones are drawn.
///
///            +--+--+        ====,====,
///     cpu:0  |0 |1 |........#0  #1  #o
///            +--+--+        ====,====,
[[nodiscard]] std::string render_timeline(const TraceReport& report, const TextStyle& style);

/// Draws step time over split size: measured points with their 95 % intervals, the predicted line behind them. "" for fewer than two
/// points.
[[nodiscard]] std::string render_curve(const std::vector<CurvePoint>& curve, const TextStyle& style);

/// A step time in a comparison.
struct ComparisonRow {
  std::string name;
  double step_s = 0;
  std::optional<Interval> step_ci95_s;
  std::string speedup;  ///< "1.52x [1.50, 1.54] FAST" or "same plan", "" for the reference
  std::vector<std::int64_t> peak_bytes;
  bool reference = false;  ///< what the others are compared with
  std::string note{};      ///< stands in place of the step where there is none
};
/// Draws bars from zero with error bars at their ends; "-" where there is no interval.
///
///     recommended          #########|     301 ms  [299, 303] ms
///     naive_model_paral..  ############|  455 ms  [450, 460] ms  1.51x [1.49, 1.53] FAST
[[nodiscard]] std::string render_comparison(const std::vector<ComparisonRow>& rows, const TextStyle& style);

/// Draws lines in a box under a title; long lines are wrapped with a hanging indent.
[[nodiscard]] std::string render_card(const std::string& title, const std::vector<std::string>& lines, const TextStyle& style);

}  // namespace mptune::reports
