#pragma once

#include <string>

#include "reports/render/style.h"
#include "reports/report.h"

namespace mptune::reports {

/// "rank:3, step 18: forward of micro-batch 10 took 341 ms, usually 60.8 ms: costs 242 ms, 6.9 % of the step".
[[nodiscard]] std::string text_of(const StallRow& stall);

/// Stalls, dearest first, and the rule that finds them; those beyond the first 30 are counted. "" without stalls.
///
///     dearest stall  241 ms   7.5 %  rank:2, step 16: ...
[[nodiscard]] std::string render_stalls(const TraceReport& report, const TextStyle& style);

}  // namespace mptune::reports
