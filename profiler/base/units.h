#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mptune {

// ---- parsing; `option` is named in the Error ----

/// Reads `2GiB`, `512MB`, `1000` (bytes); nullopt for other texts, zero, negative numbers and more than 2^60.
[[nodiscard]] std::optional<std::int64_t> find_bytes(const std::string& text);
/// Reads `150s`, `5min`, `1.5h`, `200ms`; a bare number is seconds. Returns nullopt for other texts and more than 1e9 s.
[[nodiscard]] std::optional<double> find_seconds(const std::string& text);
/// Parses `2GiB`, `512MB`, `1000` (bytes). Throws Error for invalid text, zero, negative numbers and more than 2^60.
[[nodiscard]] std::int64_t parse_bytes(const std::string& text, const std::string& option);
/// Parses `150s`, `5min`, `1.5h`, `200ms`; a bare number is seconds. Throws Error.
[[nodiscard]] double parse_seconds(const std::string& text, const std::string& option);

struct Quantity {
  double value = 0;
  std::string unit;
};
/// Reads a non-negative decimal number and the text that follows it; nullopt if the text does not start with a number.
[[nodiscard]] std::optional<Quantity> parse_quantity(const std::string& text);
/// Returns the bytes of one "", "B", "kB", ... "TB", "KiB", ... "TiB"; nullopt for another unit.
[[nodiscard]] std::optional<double> byte_unit(const std::string& unit);

// ---- printing: three significant digits with a fitting unit ----

/// Returns "412 ms", "1.25 s", "35.0 us" or "12.5 min".
[[nodiscard]] std::string format_seconds(double seconds);
/// Returns the times in the unit of the largest, and that unit: {"412", "35.0"}, "ms".
[[nodiscard]] std::pair<std::vector<std::string>, std::string> format_alike(const std::vector<double>& seconds);
/// Returns the bytes in binary units: "410 MiB", "1.25 GiB", "0 B".
[[nodiscard]] std::string format_bytes(std::int64_t bytes);
/// Returns a size that parse_bytes() takes, in whole units and not less than `bytes`: "313MiB". Requires: `bytes` is positive.
[[nodiscard]] std::string size_option(std::int64_t bytes);
/// Returns the bandwidth in decimal units: "12.0 GB/s".
[[nodiscard]] std::string format_bandwidth(double bytes_per_second);
/// Formats a fraction as "18.2 %".
[[nodiscard]] std::string format_percent(double fraction);
/// Returns "25.6 M", "12.3 k"; below 10,000 in full: "1234"; from 10^12 on "3.5 x 10^14".
[[nodiscard]] std::string format_count(std::int64_t count);

}  // namespace mptune
