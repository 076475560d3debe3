#include "profiler/base/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

/// Units below a second are divisors: "10us" gives exactly the double 10e-6.
std::optional<double> in_seconds(const Quantity& quantity) {
  static constexpr std::pair<const char*, double> kMultiples[] = {{"", 1}, {"s", 1}, {"min", 60}, {"h", 3600}};
  static constexpr std::pair<const char*, double> kFractions[] = {{"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}};
  for (const auto& [name, factor] : kMultiples)
    if (quantity.unit == name) return quantity.value * factor;
  for (const auto& [name, divisor] : kFractions)
    if (quantity.unit == name) return quantity.value / divisor;
  return std::nullopt;
}

struct Unit {
  double factor;
  const char* name;
};

constexpr Unit kSeconds[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}, {60, "min"}, {3600, "h"}};
constexpr Unit kBytes[] = {{1, "B"}, {0x1p10, "KiB"}, {0x1p20, "MiB"}, {0x1p30, "GiB"}, {0x1p40, "TiB"}};
constexpr Unit kRates[] = {{1, "B/s"}, {1e3, "kB/s"}, {1e6, "MB/s"}, {1e9, "GB/s"}, {1e12, "TB/s"}};
constexpr Unit kCounts[] = {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}};
/// Counts below this are shown in full.
constexpr std::int64_t kLeastRounded = 10'000;
/// Counts from here on have no unit that people know.
constexpr double kLeastPower = 1e12;

std::string fixed(double value, int decimals) {
  std::array<char, 400> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return {text.data(), as_index(length)};
}

/// Three significant digits, never in the form of an exponent.
std::string digits(double value) {
  const double size = std::abs(value);
  return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

template <std::size_t N>
const Unit& unit_for(const Unit (&units)[N], double value) {
  const Unit* best = units;
  for (const Unit& unit : units) {
    // Half a last digit below the unit rounds up into it.
    if (std::abs(value) >= unit.factor * 0.9995) best = &unit;
  }
  return *best;
}

/// Uses minutes only from two minutes on: 90 s reads better than 1.50 min.
const Unit& second_unit_for(double seconds) {
  return std::abs(seconds) >= 0.9995 && std::abs(seconds) < 120 ? kSeconds[3] : unit_for(kSeconds, seconds);
}

template <std::size_t N>
std::string with_unit(const Unit (&units)[N], double value) {
  const Unit& unit = unit_for(units, value);
  const bool whole = &unit == &units[0] && value == std::floor(value);
  return (whole ? fixed(value, 0) : digits(value / unit.factor)) + (*unit.name != 0 ? " " : "") + unit.name;
}

}  // namespace

std::optional<Quantity> parse_quantity(const std::string& text) {
  Quantity quantity;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quantity.value);
  if (error != std::errc{} || !std::isfinite(quantity.value) || quantity.value < 0 || text.front() == '-') return std::nullopt;
  quantity.unit.assign(end, text.data() + text.size());
  if (!quantity.unit.empty() && quantity.unit.front() == ' ') quantity.unit.erase(0, 1);
  return quantity;
}

std::optional<double> byte_unit(const std::string& unit) {
  static constexpr std::pair<const char*, double> kUnits[] = {{"", 1},         {"B", 1},       {"kB", 1e3},     {"MB", 1e6},
                                                              {"GB", 1e9},     {"TB", 1e12},   {"KiB", 0x1p10}, {"MiB", 0x1p20},
                                                              {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  for (const auto& [name, factor] : kUnits)
    if (unit == name) return factor;
  return std::nullopt;
}

std::optional<std::int64_t> find_bytes(const std::string& text) {
  const auto quantity = parse_quantity(text);
  const auto factor = quantity ? byte_unit(quantity->unit) : std::nullopt;
  const double bytes = factor ? quantity->value * *factor : 0;
  return bytes >= 1 && bytes <= 0x1p60 ? std::optional(std::llround(bytes)) : std::nullopt;
}

std::optional<double> find_seconds(const std::string& text) {
  const auto quantity = parse_quantity(text);
  const auto seconds = quantity ? in_seconds(*quantity) : std::nullopt;
  return seconds && *seconds <= 1e9 ? seconds : std::nullopt;
}

std::int64_t parse_bytes(const std::string& text, const std::string& option) {
  const auto quantity = parse_quantity(text);
  if (!quantity || !byte_unit(quantity->unit))
    throw Error("invalid size '" + text + "'", option, "use a number with B, kB, MB, GB, KiB, MiB or GiB, such as 2GiB");
  const std::optional<std::int64_t> bytes = find_bytes(text);
  if (!bytes) throw Error("size '" + text + "' is out of range", option, "use 1 B to 1 EiB");
  return *bytes;
}

double parse_seconds(const std::string& text, const std::string& option) {
  const std::optional<double> seconds = find_seconds(text);
  if (!seconds) throw Error("invalid duration '" + text + "'", option, "use a number with ns, us, ms, s, min or h, such as 150s");
  return *seconds;
}

std::string format_seconds(double seconds) {
  if (seconds == 0) return "0 s";
  const Unit& unit = second_unit_for(seconds);
  return digits(seconds / unit.factor) + " " + unit.name;
}

std::pair<std::vector<std::string>, std::string> format_alike(const std::vector<double>& seconds) {
  double most = 0;
  for (const double value : seconds) most = std::max(most, std::abs(value));
  const Unit& unit = second_unit_for(most);
  std::vector<std::string> texts;
  for (const double value : seconds) texts.push_back(digits(value / unit.factor));
  return {texts, unit.name};
}

std::string format_bytes(std::int64_t bytes) {
  return with_unit(kBytes, static_cast<double>(bytes));
}

std::string size_option(std::int64_t bytes) {
  for (const auto& [shift, unit] : {std::pair(20, "MiB"), std::pair(10, "KiB")})
    if (bytes >= std::int64_t{10} << shift) return std::to_string((bytes + (std::int64_t{1} << shift) - 1) >> shift) + unit;
  return std::to_string(bytes) + "B";
}

std::string format_bandwidth(double bytes_per_second) {
  return with_unit(kRates, bytes_per_second);
}

std::string format_percent(double fraction) {
  return fixed(fraction * 100, 1) + " %";
}

std::string format_count(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (std::abs(value) < kLeastRounded) return std::to_string(count);
  if (std::abs(value) < kLeastPower) return with_unit(kCounts, value);
  const int power = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return fixed(value / std::pow(10, power), 1) + " x 10^" + std::to_string(power);
}

}  // namespace mptune
