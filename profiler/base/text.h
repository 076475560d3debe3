#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mptune {

/// Returns the parts of `text` between separators, empty ones included. Without a separator, all of `text` is the only part.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);
/// Returns the parts with the separator between them; "" for no parts.
[[nodiscard]] std::string join(const std::vector<std::string>& parts, const std::string& separator);
/// Returns the text with blanks in place of line ends, and without blanks at the end.
[[nodiscard]] std::string one_line(std::string text);

/// Reads all of `text` as a decimal integer; a minus sign is allowed. Returns nullopt for any other text and for numbers beyond 64 bits.
[[nodiscard]] std::optional<std::int64_t> integer(std::string_view text);

/// Returns "3x224x224"; "" without sizes.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> sizes);

/// Returns "1 thread" or "2 threads".
[[nodiscard]] std::string counted(std::int64_t count, const std::string& word);

/// Returns words for a ratio of two step times: "6 % slower", "6 % faster", and from a ratio of 2 on "3.4x the step time". `decimals` is
/// the number of digits after the point of the percentage.
[[nodiscard]] std::string compared_time(double ratio, int decimals);

/// Returns a time such as "2026-11-21T12:00:00Z".
[[nodiscard]] std::string utc_text(std::chrono::system_clock::time_point time);

}  // namespace mptune
