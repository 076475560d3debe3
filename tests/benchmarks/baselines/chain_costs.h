#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mptune::testing {

/// Input of the baselines: a chain of layers at one micro-batch size, on a row of equal devices.
struct ChainCosts {
  std::vector<std::int64_t> time_ns;           ///< of each layer, forward and backward
  std::vector<std::int64_t> parameters_bytes;  ///< likewise
  std::vector<std::int64_t> copy_ns;           ///< of what crosses the cut before each layer, in one direction; 0 for the first

  [[nodiscard]] int layers() const { return static_cast<int>(time_ns.size()); }
};

/// Prefix sums: the sum of [first, last) is at(last) - at(first).
[[nodiscard]] inline std::vector<std::int64_t> sums_before(const std::vector<std::int64_t>& values) {
  std::vector<std::int64_t> sums(values.size() + 1, 0);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i + 1] = sums[i] + values[i];
  return sums;
}

}  // namespace mptune::testing
