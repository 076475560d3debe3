#pragma once

#include <cstdint>
#include <optional>

/// What sizes are computed with: whole numbers of at most 2^62, by Python's rules.
namespace mptune {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 62;
/// Expressions nested or joined deeper are not read.
constexpr int kDeepestExpression = 64;

/// Empty beyond 2^62.
[[nodiscard]] inline std::optional<std::int64_t> within_sizes(std::int64_t number) {
  return number > kLargestSize || number < -kLargestSize ? std::nullopt : std::optional(number);
}

/// Rounds down; the remainder has the divisor's sign. Requires: within 2^62, no divisor of 0.
[[nodiscard]] inline std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

}  // namespace mptune
