#pragma once

#include <string>
#include <vector>

#include "mptune/planner/plan.h"
#include "mptune/reports/render/style.h"
#include "mptune/reports/report.h"

namespace mptune {

/// Breakdown and timeline of one trace.
[[nodiscard]] std::string render_trace_report(const TraceReport& report, const TextStyle& style);

/// The whole of a study: card, comparison with error bars, distance to the limit, curve, breakdown, timeline, files, command to paste.
[[nodiscard]] std::string render_study_report(const StudyReport& report, const TextStyle& style);

/// A line per stage: devices, layers, recomputation. `modules` may be empty; else one list per stage.
[[nodiscard]] std::string render_stages(const Plan& plan, const std::vector<std::vector<std::string>>& modules, const TextStyle& style);

/// "1.51x [1.49, 1.53] FAST".
[[nodiscard]] std::string format_speedup(const Speedup& speedup);

}  // namespace mptune
