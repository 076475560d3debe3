#pragma once

#include <string>
#include <vector>

#include "reports/html/markup.h"
#include "reports/values/report.h"

namespace mptune::reports {

/// Shows where the step of each device goes: bars, causes, a table.
[[nodiscard]] std::string breakdown_content(const TraceReport& report);
/// Shows what would make the step shorter, or why nothing is said.
[[nodiscard]] std::string advice_content(const TraceReport& report);
/// Shows memory in use, with what the peaks are made of.
[[nodiscard]] std::string memory_content(const TraceReport& report);
/// Shows critical path, links and clocks.
[[nodiscard]] std::string details_content(const TraceReport& report);

}  // namespace mptune::reports
