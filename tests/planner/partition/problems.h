#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "planner/partition/partition.h"
#include "planner/simulate/schedule_costs.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "tests/planner/profiles.h"

namespace mptune::testing {

/// K stages on K devices of their own.
inline planner::PartitionProblem straight(int stages, const std::vector<int>& sizes, const std::string& schedule = "1f1b") {
  planner::PartitionProblem problem;
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

inline std::int64_t step_ns(const Plan& plan, const CostModel& cost) {
  return std::llround(predict(plan, cost).step_s * 1e9);
}

/// A chain with layers of unequal time, output and kept bytes; often one that dominates, sometimes all alike, so that plans tie.
inline Profile random_chain(std::mt19937& random, int layers, int devices) {
  ProfileShape shape = random_shape(random, layers, devices);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int kind = draw(0, 3);
  std::vector<double> factors = kind == 0 ? std::vector<double>(as_index(layers), 1.0) : random_factors(random, layers);
  if (kind == 1) factors[as_index(draw(0, layers - 1))] *= 8;
  if (kind == 0) shape.optimizer_s_per_byte = 0;
  Profile profile = make_profile(shape, factors);
  for (LayerEdge& edge : profile.edges) edge.bytes_per_sample = kind == 0 ? 100 : draw(0, 3) * draw(1, 2000);
  return profile;
}

struct SlowPlan {
  std::int64_t step_ns = 0;
  std::int64_t copied_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::vector<int> cuts;
  auto operator<=>(const SlowPlan&) const = default;
};

/// Every plan of a family by predict and peak_bytes alone, in the order that partition() promises.
class BruteForce {
 public:
  BruteForce(const planner::PartitionProblem& problem, const CostModel& cost) : problem_(problem), cost_(cost) {
    std::vector<int> cuts;
    visit(cuts);
    std::sort(plans.begin(), plans.end());
  }

  std::vector<SlowPlan> plans;             ///< that fit
  std::int64_t smallest_excess_bytes = 0;  ///< among those that don't

 private:
  void visit(std::vector<int>& cuts) {
    const int open = static_cast<int>(problem_.stages.size()) - 1 - static_cast<int>(cuts.size());
    if (open == 0) return add(cuts);
    for (int cut = cuts.empty() ? 1 : cuts.back() + 1; cut <= cost_.layers() - open; ++cut) {
      if (!cost_.may_cut(cut)) continue;
      cuts.push_back(cut);
      visit(cuts);
      cuts.pop_back();
    }
  }

  [[nodiscard]] std::int64_t over(const std::vector<std::int64_t>& peaks, int device) const {
    if (problem_.memory_bytes.empty() || problem_.memory_bytes[as_index(device)] == 0) return 0;
    return peaks[as_index(device)] - problem_.memory_bytes[as_index(device)];
  }

  void schedule(Plan& plan) { planner::schedule_plan(plan, problem_.schedule, cost_, problem_.memory_bytes); }

  void add(const std::vector<int>& cuts) {
    Plan plan;
    plan.devices = problem_.devices;
    plan.microbatch_sizes = problem_.microbatch_sizes;
    for (std::size_t s = 0; s < problem_.stages.size(); ++s)
      plan.stages.push_back({s == 0 ? 0 : cuts[s - 1], s == cuts.size() ? cost_.layers() : cuts[s], problem_.stages[s], {}});
    for (const int stage : problem_.recomputed) plan.stages[as_index(stage)].recompute.mode = Recompute::Mode::all;
    schedule(plan);
    std::vector<std::int64_t> peaks = cost_.peak_bytes(plan);
    if (problem_.recompute_for_memory) {
      for (Stage& stage : plan.stages) {
        for (const int device : stage.devices)
          if (over(peaks, device) > 0) stage.recompute.mode = Recompute::Mode::all;
      }
      schedule(plan);
      peaks = cost_.peak_bytes(plan);
    }
    std::int64_t excess = 0;
    for (int d = 0; d < static_cast<int>(peaks.size()); ++d) excess = std::max(excess, over(peaks, d));
    if (excess > 0) {
      smallest_excess_bytes = smallest_excess_bytes == 0 ? excess : std::min(smallest_excess_bytes, excess);
      return;
    }
    plans.push_back({step_ns(plan, cost_), copied(plan), *std::max_element(peaks.begin(), peaks.end()), cuts});
  }

  [[nodiscard]] std::int64_t copied(const Plan& plan) const {
    std::int64_t bytes = 0;
    for (std::size_t s = 1; s < plan.stages.size(); ++s) {
      for (int i = 0; i < plan.num_microbatches(); ++i) {
        if (device_of(plan.stages[s - 1], i) == device_of(plan.stages[s], i)) continue;
        const int samples = plan.microbatch_sizes[as_index(i)];
        bytes += cost_.boundary_bytes(plan.stages[s].first_layer, samples, false) +
                 cost_.boundary_bytes(plan.stages[s].first_layer, samples, true);
      }
    }
    return bytes;
  }

  const planner::PartitionProblem& problem_;
  const CostModel& cost_;
};

}  // namespace mptune::testing
