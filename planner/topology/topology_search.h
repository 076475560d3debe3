#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "planner/search/search_result.h"
#include "planner/topology/topology.h"
#include "planner/topology/uniform_plan.h"

namespace mptune::planner {

/// Uniform plans: K stages of R replicas on K R devices of the topology, in both placements, with M equal micro-batches for each replica.
struct UniformSpace {
  std::string where;                                                     ///< file of the topology, for errors
  int batch = 1;                                                         ///< R M divides it
  std::int64_t memory_bytes = 0;                                         ///< cap of each device; 0: as the topology says
  std::vector<std::string> schedules = {"1f1b", "gpipe"};                ///< schedules of one stage per device
  std::vector<int> stage_counts;                                         ///< K; empty: all
  std::vector<int> replica_counts;                                       ///< R; empty: all
  std::vector<int> microbatch_counts;                                    ///< R M; empty: all
  SampleRange samples;                                                   ///< samples in a micro-batch that the model takes
  int keep = 8;                                                          ///< number of plans to return, of different shapes or schedules
  std::int64_t most_actions = std::numeric_limits<std::int64_t>::max();  ///< limit of the work, in simulated actions
  std::function<bool()> stop;                      ///< asked many times a second; true ends the search with what it has
  std::function<void(const Candidate&)> improved;  ///< called with every plan that is faster than all earlier ones
};

/// Finds the fastest uniform plans, simulated on all their devices. Shapes are taken in the order of their lower bounds: all work over the
/// stages; then FamilyBound of one pipeline; then the best cuts of one pipeline, with partition(). Pipelines are copies of each other, so
/// one pipeline alone takes no longer than the plan; a sum over replicas takes no less than all_reduce_bound().
/// `lower_bound_s` holds for all plans of the space that recompute any layers or none; not for other schedules, unequal replicas or
/// micro-batches, or other placements. `ranked` is empty where no plan fits, or none was found within the limit. Plans that exceed a cap
/// recompute as little as with_least_recompute() finds. The result is deterministic for given limits.
/// Throws Error where the space has no plan, for a schedule of several stages per device, and as CostModel does.
[[nodiscard]] SearchResult search_uniform(const UniformSpace& space, const Topology& topology, const Profile& profile);

}  // namespace mptune::planner
