#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"

namespace mptune::planner {

/// Stages without replicas, each on one of the devices, and a number of micro-batches: what search_graph() changes step by step.
struct GraphState {
  std::vector<int> cuts;
  std::vector<int> devices;  ///< per stage, index into the space's devices
  int microbatches = 1;
  bool operator==(const GraphState&) const = default;
  auto operator<=>(const GraphState&) const = default;
};

/// Returns the plan without rows, over the devices that the state uses, in their order.
[[nodiscard]] Plan plan_of(const GraphState& state, const std::vector<std::string>& devices, int batch, int layers);

/// A state and the step that quickly made rows take, in nanoseconds of the replay of schedules.
struct RatedState {
  GraphState state;
  std::int64_t step_ns = 0;
};

/// Rates rows that devices choose greedily as time passes, with whole and with split backwards, and takes the best of a few. Returns
/// nullopt where none are valid as the rows of a chain, too, or none are within the caps. `caps` are per device of the space; 0: none.
[[nodiscard]] std::optional<RatedState> rated(const GraphState& state, const std::vector<std::string>& devices, int batch,
                                              const CostModel& cost, const std::vector<std::int64_t>& caps, bool may_split);

/// Returns the states that differ by one step: a cut moved by 1, 2, 4 .. layers, a stage on another device, two stages that change devices,
/// a stage divided, two joined, or one micro-batch count up or down in `counts`.
[[nodiscard]] std::vector<GraphState> neighbours_of(const GraphState& state, const CostModel& cost, int devices,
                                                    const std::vector<int>& counts);

/// Returns the layers that do not read what the layer before them computes, or that read what two layers compute: where branches begin and
/// join.
[[nodiscard]] std::vector<int> branch_cuts(const CostModel& cost);

/// Returns stages at these cuts, the longest ones first put on the device that has least to do. `devices` are the space's, as indices into
/// the profile's. Requires: allowed cuts, at least one device.
[[nodiscard]] GraphState spread_out(const std::vector<int>& cuts, int microbatches, int samples, const CostModel& cost,
                                    const std::vector<int>& devices);

}  // namespace mptune::planner
