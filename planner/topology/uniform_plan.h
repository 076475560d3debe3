#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/topology/topology.h"

namespace mptune::planner {

/// Where the replicas of a stage are. Both placements fill hosts in order. A pipeline, or the replicas of a stage, that fit into one host
/// are in one host if the topology has enough hosts for that.
enum class Placement {
  stages_near,    ///< one pipeline after the other: neighbouring stages on neighbouring devices
  replicas_near,  ///< one stage after the other: its replicas on neighbouring devices
};

/// Pipelines that are copies of each other: every stage has equally many replicas, every replica equally many micro-batches of one size.
struct UniformShape {
  int stages = 1;
  int replicas = 1;
  int microbatches = 1;  ///< number for each replica
  Placement placement = Placement::stages_near;
  bool operator==(const UniformShape&) const = default;
};

/// Returns the device of each stage of each pipeline, [replica][stage], as indices into the topology's devices. Requires: as many devices.
[[nodiscard]] std::vector<std::vector<int>> placed(const UniformShape& shape, const Topology& topology);

/// Returns the plan in which each replica runs `pipeline`, a plan of one device per stage (stage s on its device s) with its rows. `names`
/// are those of the plan's devices, in the order of the stages, replicas of a stage side by side. Micro-batch i of replica r is i * R + r.
[[nodiscard]] Plan replicated(const Plan& pipeline, int replicas, std::vector<std::string> names);

}  // namespace mptune::planner
