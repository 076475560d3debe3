#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mptune {

/// The parts of `text` between separators, empty ones included; one part where there is no separator.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

/// The whole of `text` as a decimal integer, a minus sign allowed; nothing for anything else or more than 64 bits hold.
[[nodiscard]] std::optional<std::int64_t> integer(std::string_view text);

/// A step time beside another, by their ratio: "6 % slower", "6 % faster"; from twice the time on "3.4x the step time". `decimals` are
/// those of the percentage.
[[nodiscard]] std::string compared_time(double ratio, int decimals);

/// "2026-11-21T12:00:00Z".
[[nodiscard]] std::string utc_text(std::chrono::system_clock::time_point time);

}  // namespace mptune
