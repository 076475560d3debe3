#pragma once

#include <random>
#include <string>
#include <vector>

#include "mptune/planner/partition/partition.h"
#include "mptune/planner/simulate/simulate.h"
#include "mptune/tests/planner/profiles.h"

namespace mptune::test {

/// K stages on K devices of their own.
inline PartitionProblem straight(int stages, const std::vector<int>& sizes, const std::string& schedule = "1f1b") {
  PartitionProblem problem;
  for (int s = 0; s < stages; ++s) {
    problem.devices.push_back("sleep:" + std::to_string(s));
    problem.stages.push_back({s});
  }
  problem.microbatch_sizes = sizes;
  problem.schedule = schedule;
  return problem;
}

inline std::vector<int> cuts_of(const Plan& plan) {
  std::vector<int> cuts;
  for (std::size_t s = 1; s < plan.stages.size(); ++s) cuts.push_back(plan.stages[s].first_layer);
  return cuts;
}

}  // namespace mptune::test
