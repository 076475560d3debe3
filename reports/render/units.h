#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "profiler/trace/statistics/samples.h"

namespace mptune::reports {

/// Formats a median of several measurements or steps: "412 ms, 95 % [410, 414] ms, 44 measurements"; few have no interval: "412 ms, 1
/// measurement".
[[nodiscard]] std::string format_measured(double median_s, const std::optional<Interval>& ci95_s, std::size_t count,
                                          const std::string& noun = "measurement");
/// Formats a ratio with two decimals, "1.98"; with up to four where two would show a ratio as 1 that is not: "1.003".
[[nodiscard]] std::string format_ratio(double ratio);
/// Says how far a prediction is from what was measured, as a share of the latter: "+18.3 %" where too much was predicted.
[[nodiscard]] std::string off_by(double predicted_s, double measured_s);
/// Puts into words a cause of idle time or a part of a step, given by the field's name: "copy_wait" is "exposed communication",
/// "structural" is "pipeline bubble".
[[nodiscard]] std::string cause_in_words(std::string name);
/// Formats an interval from 410 ms to 414 ms in one unit: "[410, 414] ms".
[[nodiscard]] std::string format_interval_seconds(const Interval& interval);
/// Does the same for an interval in a table; "-" where there is none.
[[nodiscard]] std::string interval_cell(const std::optional<Interval>& interval);

}  // namespace mptune::reports
