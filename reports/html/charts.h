#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/trace/statistics/samples.h"
#include "reports/values/report.h"

namespace mptune::reports {

// Charts as markup: SVG inside of HTML, without a script. Each is as wide as its page. Marks carry their words as <title>; colours are
// classes of page.css, and every colour also has a pattern, a lightness or a label of its own.

/// A value with its interval in a list.
struct IntervalRow {
  std::string name;
  std::string detail;  ///< what the plan is
  std::string value;   ///< "301 ms [299, 303] ms"
  std::string note;    ///< "1.73x [1.68, 1.79] FAST", or why there is no value
  double seconds = 0;  ///< 0: no value
  std::optional<Interval> ci95{};
  bool chosen = false;
};
/// Draws per row a line from zero to a dot with an error bar, all on one axis.
[[nodiscard]] std::string interval_chart(const std::vector<IntervalRow>& rows);

/// Draws step time over split size. `single_s`: step on one device, 0 for none; `chosen`: split size of the plan, 0 for none.
[[nodiscard]] std::string curve_chart(const std::vector<CurvePoint>& curve, double single_s, int chosen);

/// A prediction and what was measured.
struct ScatterPoint {
  std::string name;
  double predicted_s = 0;
  double measured_s = 0;
  bool chosen = false;
};
[[nodiscard]] std::string scatter_chart(const std::vector<ScatterPoint>& points);

/// Draws the best step time so far after each trial. `steps_s`: the steps of all measured trials in their order.
[[nodiscard]] std::string progress_chart(const std::vector<double>& steps_s);

/// Draws timelines on one axis of time, idle time by its cause, and a legend. With more than 32 devices the first ones are drawn.
[[nodiscard]] std::string timeline_chart(const std::vector<const TraceReport*>& traces);

/// Draws a bar per device: computing, overlap, copies, idle by cause.
[[nodiscard]] std::string breakdown_chart(const std::vector<DeviceRow>& devices);

/// Draws memory in use over the step on each device under its cap; where no samples are known, the peak as a bar.
[[nodiscard]] std::string memory_chart(const TraceReport& report);

/// Draws the layers as a bar, as wide as their times, split into stages.
[[nodiscard]] std::string partition_chart(const std::vector<PlannedLayer>& layers, const std::vector<std::string>& stage_devices);
/// Does the same where no times are known: layers are equally wide.
[[nodiscard]] std::string partition_chart(const Plan& plan, const std::vector<std::string>& stage_devices);

/// Returns the swatches that causes of idle time and kinds of work are filled with; they are needed once in a page.
[[nodiscard]] std::string chart_patterns();

}  // namespace mptune::reports
