#pragma once

#include <string>

#include "planner/plan/file/plan_file.h"
#include "reports/render/unmeasured.h"
#include "reports/values/report.h"

namespace mptune::reports {

// Markdown documents are handed on: they name files as shared_files.h says.

/// Renders a study as one document: tables as GitHub writes them, timelines in code blocks.
[[nodiscard]] std::string render_study_markdown(const StudyReport& report, Listing failed = Listing::few);
/// Renders a trace in the same way.
[[nodiscard]] std::string render_trace_markdown(const TraceReport& report);

/// Renders a plan file. `name`: the file's name.
[[nodiscard]] std::string render_plan_markdown(const PlanFile& file, const std::string& name);

}  // namespace mptune::reports
