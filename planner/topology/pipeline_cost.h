#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/family_bound.h"
#include "planner/topology/topology.h"
#include "planner/topology/uniform_plan.h"
#include "profiler/trace/profile.h"

namespace mptune::planner {

/// Prices of one pipeline of a uniform plan, which is a lower bound of the whole plan: links between hosts are free of other copies, and
/// the sum over replicas is on the line of all_reduce_bound().
struct PipelineCost {
  /// `microbatches` of the shape is not read. `profile`: measured alone, a chain of layers. Throws as on_topology() and CostModel do.
  PipelineCost(const Profile& profile, const Topology& topology, const UniformShape& shape, const std::string& where);

  std::vector<std::vector<int>> devices;  ///< [replica][stage], indices into the topology's
  std::vector<std::string> names;         ///< of the pipeline's devices, by stage
  CostModel cost;
  FamilyBound bound;

 private:
  static Profile priced(const Profile& profile, const Topology& topology, const std::vector<std::vector<int>>& devices,
                        const std::string& where);
};

}  // namespace mptune::planner
