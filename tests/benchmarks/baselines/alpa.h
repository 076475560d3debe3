#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "mptune/tests/benchmarks/baselines/chain_costs.h"
#include "mptune/tests/benchmarks/baselines/stage_program.h"

namespace mptune {

/// Stages that a chain needs at least if none may take longer than `most`, which no layer alone does.
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

/// Times of all ranges of layers, none shorter than the longest layer; ascending, each once.
[[nodiscard]] inline std::vector<std::int64_t> distinct_stage_times(const std::vector<std::int64_t>& times) {
  const std::vector<std::int64_t> sums = sums_before(times);
  const std::int64_t longest = *std::max_element(times.begin(), times.end());
  std::vector<std::int64_t> distinct;
  for (std::size_t first = 0; first < times.size(); ++first) {
    for (std::size_t last = first + 1; last < sums.size(); ++last) {
      if (sums[last] - sums[first] >= longest) distinct.push_back(sums[last] - sums[first]);
    }
  }
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  return distinct;
}

/// Cuts by Alpa's inter-operator pass (Zheng et al., OSDI 2022) for one device a stage: the least sum of stage times + (micro-batches - 1)
/// x the longest, by a dynamic program for the sum under every longest time there can be. Copies between stages are not counted. Times of a
/// chain's layers add up, so the sum is that of all layers whatever the cuts: the first longest time that any cuts keep to is the best, for
/// every number of micro-batches. Of equal cuts its program takes the last ones.
[[nodiscard]] inline std::vector<int> alpa_cuts(const ChainCosts& costs, int stages) {
  constexpr std::int64_t kTooLong = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> sums = sums_before(costs.time_ns);
  const std::vector<std::int64_t> longest_times = distinct_stage_times(costs.time_ns);
  const auto longest = std::find_if(longest_times.begin(), longest_times.end(),
                                    [&](std::int64_t time) { return stages_within(costs.time_ns, time) <= stages; });
  const auto extend = [&](std::int64_t before, int first, int last) {
    const std::int64_t stage = sums[static_cast<std::size_t>(last)] - sums[static_cast<std::size_t>(first)];
    return before == kTooLong || stage > *longest ? kTooLong : before + stage;
  };
  return stage_program(costs.layers(), stages, std::int64_t{0}, extend, [](std::int64_t a, std::int64_t kept) { return a <= kept; });
}

}  // namespace mptune
