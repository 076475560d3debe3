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

std::string format_ratio(double ratio) {
  std::string text;
  for (int decimals = 2; decimals <= 4; ++decimals) {
    text = fmt::format("{:.{}f}", ratio, decimals);
    if (ratio == 1 || text != fmt::format("{:.{}f}", 1.0, decimals)) break;
  }
  return text;
}

std::string off_by(double predicted_s, double measured_s) {
  return fmt::format("{:+.1f} %", 100 * (predicted_s / measured_s - 1));
}

std::string cause_in_words(std::string name) {
  if (name == "structural") return "pipeline bubble";
  if (name == "copy_wait") return "exposed communication";
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string interval_cell(const std::optional<Interval>& interval) {
  return interval ? format_interval_seconds(*interval) : "-";
}

std::string format_measured(double median_s, const std::optional<Interval>& ci95_s, std::size_t count, const std::string& noun) {
  const std::string interval = ci95_s ? ", 95 % " + format_interval_seconds(*ci95_s) : "";
  return fmt::format("{}{}, {} {}{}", format_seconds(median_s), interval, count, noun, count == 1 ? "" : "s");
}

}  // namespace mptune::reports
