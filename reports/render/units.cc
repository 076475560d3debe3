#include "mptune/reports/render/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

namespace mptune {
namespace {

struct Unit {
  double factor;
  const char* name;
};

constexpr Unit kSeconds[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}, {60, "min"}, {3600, "h"}};
constexpr Unit kBytes[] = {{1, "B"}, {0x1p10, "KiB"}, {0x1p20, "MiB"}, {0x1p30, "GiB"}, {0x1p40, "TiB"}};
constexpr Unit kRates[] = {{1, "B/s"}, {1e3, "kB/s"}, {1e6, "MB/s"}, {1e9, "GB/s"}, {1e12, "TB/s"}};
constexpr Unit kCounts[] = {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}};
/// Counts below are shown in full.
constexpr std::int64_t kLeastRounded = 10'000;
/// Counts from here on have no unit that people know.
constexpr double kLeastPower = 1e12;

/// Three significant digits, never in the form of an exponent.
std::string digits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

template <std::size_t N>
const Unit& unit_for(const Unit (&units)[N], double value) {
  const Unit* best = units;
  for (const Unit& unit : units) {
    // Half a last digit below the unit rounds up into it.
    if (std::abs(value) >= unit.factor * 0.9995) {
      best = &unit;
    }
  }
  return *best;
}

/// Minutes only from two on: 90 s reads better than 1.50 min.
const Unit& second_unit_for(double seconds) {
  return std::abs(seconds) >= 0.9995 && std::abs(seconds) < 120 ? kSeconds[3] : unit_for(kSeconds, seconds);
}

template <std::size_t N>
std::string with_unit(const Unit (&units)[N], double value) {
  const Unit& unit = unit_for(units, value);
  const bool whole = &unit == &units[0] && value == std::floor(value);
  return (whole ? fmt::format("{:.0f}", value) : digits(value / unit.factor)) + (*unit.name != 0 ? " " : "") + unit.name;
}

}  // namespace

std::string format_seconds(double seconds) {
  if (seconds == 0) {
    return "0 s";
  }
  const Unit& unit = second_unit_for(seconds);
  return digits(seconds / unit.factor) + " " + unit.name;
}

std::pair<std::vector<std::string>, std::string> format_alike(const std::vector<double>& seconds) {
  double most = 0;
  for (const double value : seconds) {
    most = std::max(most, std::abs(value));
  }
  const Unit& unit = second_unit_for(most);
  std::vector<std::string> texts;
  for (const double value : seconds) {
    texts.push_back(digits(value / unit.factor));
  }
  return {texts, unit.name};
}

std::string format_interval_seconds(const Interval& interval) {
  const Unit& unit = second_unit_for(std::max(std::abs(interval.low), std::abs(interval.high)));
  return fmt::format("[{}, {}] {}", digits(interval.low / unit.factor), digits(interval.high / unit.factor), unit.name);
}

std::string cause_in_words(std::string name) {
  if (name == "structural") return "pipeline bubble";
  if (name == "copy_wait") return "exposed communication";
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string format_measured(double median_s, const Interval& ci95_s, std::size_t count, const std::string& noun) {
  const std::string interval = count > 1 ? ", 95 % " + format_interval_seconds(ci95_s) : "";
  return fmt::format("{}{}, {} {}{}", format_seconds(median_s), interval, count, noun, count == 1 ? "" : "s");
}

std::string format_bytes(std::int64_t bytes) {
  return with_unit(kBytes, static_cast<double>(bytes));
}

std::string format_bandwidth(double bytes_per_second) {
  return with_unit(kRates, bytes_per_second);
}

std::string format_percent(double fraction) {
  return fmt::format("{:.1f} %", fraction * 100);
}

std::string format_count(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (std::abs(value) < kLeastRounded) {
    return std::to_string(count);
  }
  if (std::abs(value) < kLeastPower) {
    return with_unit(kCounts, value);
  }
  const int power = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return fmt::format("{:.1f} x 10^{}", value / std::pow(10, power), power);
}

}  // namespace mptune
