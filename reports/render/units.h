#pragma once

#include <cstddef>
#include <string>

#include "profiler/statistics/samples.h"

namespace mptune::reports {

/// A median of several measurements or steps: "412 ms, 95 % [410, 414] ms, 44 measurements"; one has no interval: "412 ms, 1 measurement".
[[nodiscard]] std::string format_measured(double median_s, const Interval& ci95_s, std::size_t count,
                                          const std::string& noun = "measurement");
/// A cause of idle or a part of a step by the field's name: "copy_wait" is "exposed communication", "structural" is "pipeline bubble".
[[nodiscard]] std::string cause_in_words(std::string name);
/// "410 ms to 414 ms" in one unit: "[410, 414] ms".
[[nodiscard]] std::string format_interval_seconds(const Interval& interval);

}  // namespace mptune::reports
