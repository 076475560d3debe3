#include "planner/simulate/simulate.h"

#include <algorithm>

#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

bool any_extrapolated(const Plan& plan, const CostModel& cost) {
  for (const Stage& stage : plan.stages) {
    for (std::size_t r = 0; r < stage.devices.size(); ++r) {
      const int device = cost.device_index(plan.devices[as_index(stage.devices[r])]);
      int checked = 0;
      for (std::size_t i = r; i < plan.microbatch_sizes.size(); i += stage.devices.size()) {
        if (plan.microbatch_sizes[i] != checked && cost.extrapolated(device, plan.microbatch_sizes[i])) return true;
        checked = plan.microbatch_sizes[i];
      }
    }
  }
  return false;
}

// Adds the computing time per device, and the stage with the largest share of the busiest one.
void add_busy(const Plan& plan, const planner::Operations& operations, const planner::Timing& timing, Prediction& prediction) {
  const std::size_t stages = plan.stages.size();
  std::vector<std::int64_t> busy(plan.devices.size() * stages, 0);
  for (std::size_t i = 0; i < operations.list.size(); ++i) {
    const planner::Operation& operation = operations.list[i];
    if (operation.kind == EventKind::copy) continue;
    busy[as_index(operation.device) * stages + as_index(operation.stage)] += timing.duration_ns[i] - operation.overhead_ns;
  }
  std::int64_t longest = -1;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const auto first = busy.begin() + static_cast<std::ptrdiff_t>(d * stages);
    const auto last = first + static_cast<std::ptrdiff_t>(stages);
    std::int64_t total = 0;
    for (auto part = first; part != last; ++part) total += *part;
    prediction.busy_s.push_back(seconds(total));
    if (total <= longest) continue;
    longest = total;
    prediction.limiting_stage = static_cast<int>(std::max_element(first, last) - first);
  }
}

Prediction prediction_of(const Plan& plan, const CostModel& cost, const planner::Operations& operations, const planner::Timing& timing) {
  Prediction prediction;
  prediction.step_s = seconds(timing.end_ns + operations.step_ns);
  prediction.lower_bound_s = seconds(planner::lower_bound_ns(plan, operations));
  prediction.peak_bytes = cost.peak_bytes(plan);
  prediction.extrapolated = any_extrapolated(plan, cost);
  add_busy(plan, operations, timing, prediction);
  return prediction;
}

}  // namespace

Simulation simulate(const Plan& plan, const CostModel& cost) {
  const planner::Operations operations = planner::list_operations(plan, cost, cost.profile().runtime);
  const planner::Timing timing = planner::time_operations(operations);
  return {prediction_of(plan, cost, operations, timing), planner::trace_of(plan, cost, operations, timing)};
}

Prediction predict(const Plan& plan, const CostModel& cost) {
  const planner::Operations operations = planner::list_operations(plan, cost, cost.profile().runtime);
  return prediction_of(plan, cost, operations, planner::time_operations(operations));
}

}  // namespace mptune
