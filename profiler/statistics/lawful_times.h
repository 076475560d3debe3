#pragma once

#include <vector>

namespace mptune {

/// Times of one operation at several sizes, one timing each, lowered to the largest values that keep two laws:
///
///     a smaller size takes no longer than a larger one,
///     a size takes no longer than as many of one smaller size as cover it, one after another.
///
/// What disturbs a timing adds to it, so of times that break a law the longer one is wrong. Returns as many times as `sizes`.
/// Requires: sizes positive and strictly ascending, as many times, none negative.
[[nodiscard]] std::vector<double> lawful_times(const std::vector<int>& sizes, std::vector<double> times);

}  // namespace mptune
