#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "profiler/base/index.h"
#include "tests/benchmarks/baselines/chain_costs.h"
#include "tests/benchmarks/baselines/stage_program.h"

namespace mptune::testing {

/// Cuts by DeepSpeed's balanced partitioning (PipelineModule, partition_method "parameters") since its pull request 4312. A dynamic program
/// reduces the difference of the largest and the smallest stage; among equal cuts it takes the last.
/// The best prefix need not lead to the best whole, so for more than two stages the difference is not minimal.
[[nodiscard]] inline std::vector<int> least_spread(const std::vector<std::int64_t>& weights, int stages) {
  struct Spread {
    std::int64_t largest = 0;
    std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
    [[nodiscard]] std::int64_t difference() const { return largest - smallest; }
  };
  const std::vector<std::int64_t> sums = sums_before(weights);
  const auto extend = [&](const Spread& spread, int first, int last) {
    const std::int64_t weight = sums[as_index(last)] - sums[as_index(first)];
    return Spread{std::max(spread.largest, weight), std::min(spread.smallest, weight)};
  };
  const auto replaces = [](const Spread& a, const Spread& kept) { return a.difference() <= kept.difference(); };
  return stage_program(static_cast<int>(weights.size()), stages, Spread{}, extend, replaces);
}

}  // namespace mptune::testing
