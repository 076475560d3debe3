#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "profiler/base/index.h"
#include "tests/benchmarks/baselines/chain_costs.h"
#include "tests/benchmarks/baselines/stage_program.h"

namespace mptune::testing {

/// Cuts by PipeDream's optimizer (Narayanan et al., SOSP 2019) without replication. It minimises the slowest stage or cut; the time of a
/// cut is that of an activation and its gradient. It models asynchronous training, without fill and drain. The paper has no rule for equal
/// cuts; the first is taken.
[[nodiscard]] inline std::vector<int> pipedream_cuts(const ChainCosts& costs, int stages) {
  const std::vector<std::int64_t> sums = sums_before(costs.time_ns);
  const auto extend = [&](std::int64_t slowest, int first, int last) {
    const std::int64_t stage = sums[as_index(last)] - sums[as_index(first)];
    return std::max({slowest, stage, 2 * costs.copy_ns[as_index(first)]});
  };
  return stage_program(costs.layers(), stages, std::int64_t{0}, extend, [](std::int64_t a, std::int64_t kept) { return a < kept; });
}

}  // namespace mptune::testing
