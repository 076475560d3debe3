#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/bounds/family_bound.h"
#include "planner/topology/topology.h"
#include "planner/topology/uniform_plan.h"
#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// Prices of one pipeline of a uniform plan. They are a lower bound of the whole plan: links between hosts are free of other copies, and
/// the sum over replicas is on the line of all_reduce_bound().
struct PipelineCost {
  /// `microbatches` of the shape is not read. `profile` was measured alone and has a chain of layers. Throws as on_topology() and CostModel
  /// do.
  PipelineCost(const Profile& profile, const Topology& topology, const UniformShape& shape, const std::string& where);
  /// Returns, where hosts share a link to other hosts, nanoseconds that the copies of all pipelines queue on one host's link at least, with
  /// any cuts.
  [[nodiscard]] std::int64_t queued_ns(int microbatches, int samples) const;

  std::vector<std::vector<int>> devices;  ///< [replica][stage], indices into the topology's
  std::vector<std::string> names;         ///< names of the pipeline's devices, by stage
  CostModel cost;
  FamilyBound bound;

 private:
  // The copies that a host sends for each micro-batch of a replica.
  struct Sends {
    int outputs = 0;
    int gradients = 0;
  };
  static std::vector<Sends> sends_of(const std::vector<std::vector<int>>& devices, const Topology& topology);

  std::vector<Sends> sends_;  // by sending host, as far as they differ; empty where hosts share no link
  NetworkLink between_;

  static Profile priced(const Profile& profile, const Topology& topology, const std::vector<std::vector<int>>& devices,
                        const std::string& where);
};

}  // namespace mptune::planner
