#pragma once

#include <cstddef>
#include <string>

#include "profiler/statistics/samples.h"

namespace mptune::reports {

/// Measurements from which the interval of a median reaches 95 % (see interval95).
inline constexpr std::size_t kLeastForInterval95 = 6;
/// The interval as it may be shown: no width, {middle, middle}, where too few samples make no 95 % interval.
[[nodiscard]] Interval known_interval(const Interval& ci95, double middle, std::size_t samples);
/// A median of several measurements or steps: "412 ms, 95 % [410, 414] ms, 44 measurements"; few have no interval: "412 ms, 1 measurement".
[[nodiscard]] std::string format_measured(double median_s, const Interval& ci95_s, std::size_t count,
                                          const std::string& noun = "measurement");
/// A cause of idle or a part of a step by the field's name: "copy_wait" is "exposed communication", "structural" is "pipeline bubble".
[[nodiscard]] std::string cause_in_words(std::string name);
/// "410 ms to 414 ms" in one unit: "[410, 414] ms".
[[nodiscard]] std::string format_interval_seconds(const Interval& interval);

}  // namespace mptune::reports
