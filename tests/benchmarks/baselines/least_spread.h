#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "mptune/tests/benchmarks/baselines/chain_costs.h"
#include "mptune/tests/benchmarks/baselines/stage_program.h"

namespace mptune {

/// Cuts by DeepSpeed's balanced partitioning (PipelineModule, partition_method "parameters") since its pull request 4312: the largest stage
/// less the smallest one is kept small by dynamic programming, the last of equal cuts taken. A small difference of the beginning need not
/// lead to a small one of the whole, so the difference is not the least for more than two stages.
[[nodiscard]] inline std::vector<int> least_spread(const std::vector<std::int64_t>& weights, int stages) {
  struct Spread {
    std::int64_t largest = 0;
    std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
    [[nodiscard]] std::int64_t difference() const { return largest - smallest; }
  };
  const std::vector<std::int64_t> sums = sums_before(weights);
  const auto extend = [&](const Spread& spread, int first, int last) {
    const std::int64_t weight = sums[static_cast<std::size_t>(last)] - sums[static_cast<std::size_t>(first)];
    return Spread{std::max(spread.largest, weight), std::min(spread.smallest, weight)};
  };
  const auto replaces = [](const Spread& a, const Spread& kept) { return a.difference() <= kept.difference(); };
  return stage_program(static_cast<int>(weights.size()), stages, Spread{}, extend, replaces);
}

}  // namespace mptune
