#pragma once

#include <string>

#include "reports/render/unmeasured.h"
#include "reports/report.h"

namespace mptune::reports {

/// A study as one Markdown document: tables as GitHub writes them, timelines in code blocks.
[[nodiscard]] std::string render_study_markdown(const StudyReport& report, Listing failed = Listing::few);
/// The same of a trace.
[[nodiscard]] std::string render_trace_markdown(const TraceReport& report);

}  // namespace mptune::reports
