#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mptune/planner/cost/cost_model.h"
#include "mptune/planner/search/partition_bound.h"
#include "mptune/planner/search/search.h"

namespace mptune {

/// Devices, sizes and bounds that all cuts of a family of pipelines share.
struct Family {
  std::vector<std::vector<int>> devices;  ///< of each stage, indices into the space's
  std::vector<int> sizes;
  PartitionBound bound;
};

/// What a search space leaves open, spelled out.
class Choices {
 public:
  /// Both must outlive this. `caps` per device of the space, 0: none. Throws Error for devices that the profile does not know.
  Choices(const SearchSpace& space, const CostModel& cost, std::vector<std::int64_t> caps);

  [[nodiscard]] bool wanted_stages(int stages) const;
  /// Numbers of micro-batches, ascending.
  [[nodiscard]] const std::vector<int>& counts() const { return counts_; }
  /// Schedules of pipelines with `m` micro-batches: with one all schedules are one.
  [[nodiscard]] std::vector<std::string> schedules_for(int m) const;
  /// Sets the recomputation that the space asks for. Requires: wanted_stages of the plan's.
  void set_recompute(Plan& plan) const;

  /// A device of each class and memory.
  [[nodiscard]] std::vector<int> distinct_devices() const;
  /// All placements and micro-batches of pipelines of at least two stages that are wanted.
  [[nodiscard]] std::vector<Family> pipelines() const;

 private:
  [[nodiscard]] std::pair<int, std::int64_t> signature(int device) const;
  void add_families(const std::vector<int>& replicas, std::vector<int>& chosen, std::vector<Family>& families) const;
  void add_placement(const std::vector<int>& replicas, const std::vector<int>& chosen, std::vector<Family>& families) const;

  const SearchSpace& space_;
  const CostModel& cost_;
  std::vector<std::int64_t> caps_;
  std::vector<int> counts_;
  std::vector<std::string> schedules_;
  int least_stages_ = 1;  // that have the stages to recompute
};

}  // namespace mptune
