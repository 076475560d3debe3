#pragma once

#include <string>

#include "planner/plan_file.h"
#include "reports/report.h"

namespace mptune::reports {

// Reports as one HTML page each. A page is complete without a script and without anything outside of it; its script adds tooltips, zoom,
// sorting and filtering. The same report gives the same bytes.

/// First bytes of every page: what tells that mptune wrote it.
inline constexpr const char* kHtmlMagic = "<!doctype html>\n<!-- mptune report -->";

/// The answer first, then what to do next, then the evidence: baselines, split sizes, timelines, devices, memory, partition, predictions,
/// trials, environment. At most 1 MB for a thousand trials.
[[nodiscard]] std::string render_study_html(const StudyReport& report);
/// Where the step goes, why devices idle, what would help, timeline, memory, critical path, links.
[[nodiscard]] std::string render_trace_html(const TraceReport& report);
/// Partition, schedule on equal stages, prediction and measurement, alternatives. `name` of the file.
[[nodiscard]] std::string render_plan_html(const PlanFile& file, const std::string& name);

}  // namespace mptune::reports
