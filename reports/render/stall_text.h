#pragma once

#include <string>
#include <vector>

#include "reports/render/style.h"
#include "reports/values/report.h"

namespace mptune::reports {

/// Describes a stall: "rank:3, step 18: forward of micro-batch 10, stage 3 took 341 ms, usually 60.8 ms: costs 242 ms, 6.9 % of the step".
[[nodiscard]] std::string text_of(const StallRow& stall);

/// Stalls in words, dearest first.
struct StallTable {
  std::vector<std::vector<std::string>> rows;  ///< of the first 30: device, step, costs, of the step, stall
  std::vector<std::string> notes;              ///< how many more there are, and the rule that finds them; empty without stalls
};
[[nodiscard]] StallTable stall_table(const TraceReport& report);

/// Renders stall_table() as text. "" without stalls.
///
///     device  step    costs  of the step  stall
///     rank:2    16   241 ms        7.5 %  forward of micro-batch 10, stage 2 took 341 ms, usually 60.8 ms
[[nodiscard]] std::string render_stalls(const TraceReport& report, const TextStyle& style);

}  // namespace mptune::reports
