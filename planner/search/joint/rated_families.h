#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "planner/partition/partition.h"

namespace mptune::planner {

/// What was simulated of each family, so that no search with the same costs does it again.
class RatedFamilies {
 public:
  /// Returns the rates of a family. The reference stays valid.
  [[nodiscard]] KnownRates& of(const PartitionProblem& problem) {
    return known_[{problem.devices, problem.stages, problem.memory_bytes, problem.microbatch_sizes, problem.schedule, problem.recomputed,
                   problem.recompute_for_memory, problem.most_in_pieces > 0}];
  }

 private:
  using Key = std::tuple<std::vector<std::string>, std::vector<std::vector<int>>, std::vector<std::int64_t>, std::vector<int>, std::string,
                         std::vector<int>, bool, bool>;
  std::map<Key, KnownRates> known_;
};

}  // namespace mptune::planner
