#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "planner/simulate/operations.h"
#include "tests/benchmarks/baselines/alpa.h"
#include "tests/benchmarks/baselines/block_partition.h"
#include "tests/benchmarks/baselines/chain_costs.h"
#include "tests/benchmarks/baselines/least_spread.h"
#include "tests/benchmarks/baselines/pipedream.h"

namespace mptune::testing {

/// Baselines for cutting a chain.
struct CutRule {
  std::string name;
  std::function<std::vector<int>(const ChainCosts& costs, int stages)> cuts;  ///< first layers of all stages but the first
};

[[nodiscard]] inline std::vector<CutRule> cut_rules() {
  return {
      {"equal number of layers", [](const ChainCosts& costs, int stages) { return equal_cuts(costs.layers(), stages); }},
      {"DeepSpeed, parameters", [](const ChainCosts& costs, int stages) { return least_spread(costs.parameters_bytes, stages); }},
      {"DeepSpeed's program on time", [](const ChainCosts& costs, int stages) { return least_spread(costs.time_ns, stages); }},
      {"torchgpipe, time", [](const ChainCosts& costs, int stages) { return block_partition(costs.time_ns, stages); }},
      {"PipeDream, straight", pipedream_cuts},
      {"Alpa, inter-operator", alpa_cuts},
  };
}

/// A chain for the baselines: layers that may not be separated are merged.
struct UncutChain {
  ChainCosts costs;
  std::vector<int> first_layers;  ///< of each of its layers, in the profile
};

/// Costs on the first device, and of copies from the first to the second. Requires: two devices.
[[nodiscard]] inline UncutChain uncut_chain(const CostModel& cost, int samples) {
  UncutChain chain;
  ChainCosts& costs = chain.costs;
  for (int layer = 0; layer < cost.layers(); ++layer) {
    if (cost.may_cut(layer)) {
      chain.first_layers.push_back(layer);
      costs.time_ns.push_back(0);
      costs.parameters_bytes.push_back(0);
      costs.copy_ns.push_back(layer == 0 ? 0 : planner::to_ns(cost.copy_seconds(0, 1, cost.boundary_bytes(layer, samples, false))));
    }
    const LayerTimes times = cost.layer(0, layer, samples);
    costs.time_ns.back() += planner::to_ns(times.forward_s) + planner::to_ns(times.backward_s);
    costs.parameters_bytes.back() += cost.parameters_bytes(layer, layer + 1);
  }
  return chain;
}

}  // namespace mptune::testing
