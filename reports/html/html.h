#pragma once

#include <string>

#include "planner/plan/file/plan_file.h"
#include "reports/values/report.h"

namespace mptune::reports {

// Reports as one HTML page each. A page is complete without a script and without anything outside of it; its script adds tooltips, zoom,
// sorting and filtering. The same report gives the same bytes.

/// The first bytes of every page, which tell that mptune wrote it.
inline constexpr const char* kHtmlMagic = "<!doctype html>\n<!-- mptune report -->";

/// Renders the answer first, then what to do next, then the evidence: baselines, split sizes, timelines, devices, memory, partition,
/// predictions, trials, environment. At most 1 MB for a thousand trials.
[[nodiscard]] std::string render_study_html(const StudyReport& report);
/// Renders where the step goes, why devices idle, what would help, timeline, memory, critical path, and links.
[[nodiscard]] std::string render_trace_html(const TraceReport& report);
/// Renders partition, schedule on equal stages, prediction and measurement, and alternatives. `name`: the file's name.
[[nodiscard]] std::string render_plan_html(const PlanFile& file, const std::string& name);

}  // namespace mptune::reports
