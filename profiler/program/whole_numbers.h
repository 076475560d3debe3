#pragma once

#include <cstdint>
#include <optional>

/// Arithmetic of sizes: integers up to 2^62, with Python's rules.
namespace mptune {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 62;
/// Expressions that are nested deeper, or chain more operations, are not read.
constexpr int kDeepestExpression = 64;

/// `number`, or nullopt beyond 2^62.
[[nodiscard]] inline std::optional<std::int64_t> within_sizes(std::int64_t number) {
  return number > kLargestSize || number < -kLargestSize ? std::nullopt : std::optional(number);
}

/// Quotient rounded down, so that the remainder has the divisor's sign. Requires: |a|, |b| <= 2^62, b != 0.
[[nodiscard]] inline std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

}  // namespace mptune
