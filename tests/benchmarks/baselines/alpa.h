#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "profiler/base/index.h"
#include "tests/benchmarks/baselines/chain_costs.h"
#include "tests/benchmarks/baselines/stage_program.h"

namespace mptune::testing {

/// Smallest number of stages of a chain if no stage may take longer than `most`. Requires: no layer takes longer.
[[nodiscard]] inline int stages_within(const std::vector<std::int64_t>& times, std::int64_t most) {
  int stages = 1;
  std::int64_t open = 0;
  for (const std::int64_t time : times) {
    if (open + time > most) {
      ++stages;
      open = 0;
    }
    open += time;
  }
  return stages;
}

/// Distinct times of all ranges of layers that are at least as long as the longest layer, ascending.
[[nodiscard]] inline std::vector<std::int64_t> distinct_stage_times(const std::vector<std::int64_t>& times) {
  const std::vector<std::int64_t> sums = sums_before(times);
  const std::int64_t longest = *std::max_element(times.begin(), times.end());
  std::vector<std::int64_t> distinct;
  for (std::size_t first = 0; first < times.size(); ++first) {
    for (std::size_t last = first + 1; last < sums.size(); ++last)
      if (sums[last] - sums[first] >= longest) distinct.push_back(sums[last] - sums[first]);
  }
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  return distinct;
}

/// Cuts by Alpa's inter-operator pass (Zheng et al., OSDI 2022) with one device per stage. It minimises the sum of stage times plus
/// (micro-batches - 1) x the longest stage, by a dynamic program for every possible longest time. Copies are not counted.
/// In a chain the sum does not depend on the cuts, so the smallest feasible longest time is optimal for every number of micro-batches.
/// Among equal cuts it takes the last.
[[nodiscard]] inline std::vector<int> alpa_cuts(const ChainCosts& costs, int stages) {
  constexpr std::int64_t kTooLong = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> sums = sums_before(costs.time_ns);
  const std::vector<std::int64_t> longest_times = distinct_stage_times(costs.time_ns);
  const auto longest = std::find_if(longest_times.begin(), longest_times.end(),
                                    [&](std::int64_t time) { return stages_within(costs.time_ns, time) <= stages; });
  const auto extend = [&](std::int64_t before, int first, int last) {
    const std::int64_t stage = sums[as_index(last)] - sums[as_index(first)];
    return before == kTooLong || stage > *longest ? kTooLong : before + stage;
  };
  return stage_program(costs.layers(), stages, std::int64_t{0}, extend, [](std::int64_t a, std::int64_t kept) { return a <= kept; });
}

}  // namespace mptune::testing
