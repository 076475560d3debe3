#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/cost/all_reduce.h"
#include "planner/search/space/search_space.h"
#include "planner/topology/topology.h"

namespace mptune::reports {

/// A stage of a plan for machines on paper.
struct PaperStage {
  std::vector<std::string> devices;
  int first_layer = 0;
  int last_layer = 0;
  int recomputed = 0;  ///< layers
  std::int64_t parameters_bytes = 0;
  std::int64_t peak_bytes = 0;  ///< of the device that needs most
  double busy_s = 0;            ///< of the device that computes longest, with its sums over replicas
};

/// What the sum of the gradients of one stage costs.
struct GradientSum {
  int stage = 0;
  std::int64_t bytes = 0;
  planner::ReplicaGroup group;
  planner::AllReduceCosts costs;
};

/// Everything that `plan` and `simulate` show of a plan for a topology, as plain values.
struct TopologyReport {
  std::string title;        ///< "resnet50: 512 samples on 64 hosts of 8 devices"
  std::string description;  ///< of the plan
  int devices = 0;          ///< of the topology
  int hosts = 0;
  int used = 0;  ///< devices of the plan
  double step_s = 0;
  double lower_bound_s = 0;  ///< 0: not known
  bool proved = false;
  std::string bound_of;        ///< what the bound covers
  double busy = 0;             ///< share of the step that the plan's devices compute, sums over replicas included
  std::int64_t cap_bytes = 0;  ///< smallest cap of the plan's devices; 0: none
  std::vector<PaperStage> stages;
  std::optional<GradientSum> sum;  ///< of the stage with most parameters; nothing without replicas
  bool extrapolated = false;
  std::vector<std::string> notes;
};

/// Describes a plan: "pipeline of 16 stages, 32 replicas of each, 1f1b, 512 micro-batches of 1"; other plans as describe() does.
[[nodiscard]] std::string describe_on_paper(const Plan& plan);

/// Builds the report of one plan. Requires: a valid plan on devices that `cost` prices with a network.
[[nodiscard]] TopologyReport build_topology_report(const Candidate& candidate, const CostModel& cost, const planner::Topology& topology);

}  // namespace mptune::reports
