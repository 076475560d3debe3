#include "reports/render/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "profiler/base/units.h"

namespace mptune::reports {

std::string format_interval_seconds(const Interval& interval) {
  const auto [ends, unit] = format_alike({interval.low, interval.high});
  return fmt::format("[{}, {}] {}", ends[0], ends[1], unit);
}

std::string cause_in_words(std::string name) {
  if (name == "structural") return "pipeline bubble";
  if (name == "copy_wait") return "exposed communication";
  std::ranges::replace(name, '_', ' ');
  return name;
}

Interval known_interval(const Interval& ci95, double middle, std::size_t samples) {
  return samples < kLeastForInterval95 ? Interval{middle, middle} : ci95;
}

std::string format_measured(double median_s, const Interval& ci95_s, std::size_t count, const std::string& noun) {
  const std::string interval = count >= kLeastForInterval95 ? ", 95 % " + format_interval_seconds(ci95_s) : "";
  return fmt::format("{}{}, {} {}{}", format_seconds(median_s), interval, count, noun, count == 1 ? "" : "s");
}

}  // namespace mptune::reports
