#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mptune/profiler/statistics/samples.h"

namespace mptune {

/// Three significant digits with a fitting unit: "412 ms", "1.25 s", "35.0 us", "12.5 min".
[[nodiscard]] std::string format_seconds(double seconds);
/// Times in the unit of the largest, and the unit: {"412", "35.0"}, "ms".
[[nodiscard]] std::pair<std::vector<std::string>, std::string> format_alike(const std::vector<double>& seconds);
/// A median of several measurements or steps: "412 ms, 95 % [410, 414] ms, 44 measurements"; one has no interval: "412 ms, 1 measurement".
[[nodiscard]] std::string format_measured(double median_s, const Interval& ci95_s, std::size_t count,
                                          const std::string& noun = "measurement");
/// A cause of idle or a part of a step by the field's name: "copy_wait" is "exposed communication", "structural" is "pipeline bubble".
[[nodiscard]] std::string cause_in_words(std::string name);
/// "410 ms to 414 ms" in one unit: "[410, 414] ms".
[[nodiscard]] std::string format_interval_seconds(const Interval& interval);
/// Binary units: "410 MiB", "1.25 GiB", "0 B".
[[nodiscard]] std::string format_bytes(std::int64_t bytes);
/// Decimal units: "12.0 GB/s".
[[nodiscard]] std::string format_bandwidth(double bytes_per_second);
/// "18.2 %" of a fraction.
[[nodiscard]] std::string format_percent(double fraction);
/// "25.6 M", "12.3 k"; below 10,000 in full: "1234"; from 10^12 on "3.5 x 10^14".
[[nodiscard]] std::string format_count(std::int64_t count);

}  // namespace mptune
