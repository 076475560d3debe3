#include "planner/search/bounds/stage_limit.h"

#include <algorithm>

#include "planner/schedule/schedule_info.h"
#include "planner/search/space/plan_checks.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

double seconds_of(const Plan& plan, int stage, int device, int layer, const CostModel& cost) {
  const int index = cost.device_index(plan.devices[as_index(device)]);
  double sum = 0;
  for (int i = 0; i < plan.num_microbatches(); ++i) {
    if (device_of(plan.stages[as_index(stage)], i) != device) continue;
    const LayerTimes times = cost.layer(index, layer, plan.microbatch_sizes[as_index(i)]);
    sum += times.forward_s + times.backward_s;
  }
  return sum;
}

void keep_own_layers(Stage& stage) {
  if (stage.recompute.mode != Recompute::Mode::some) return;
  std::erase_if(stage.recompute.layers, [&](int layer) { return layer < stage.first_layer || layer >= stage.last_layer; });
  if (stage.recompute.layers.empty()) stage.recompute = {};
}

// Returns the plan with the boundary between stage `front` and the next one at another layer.
Plan with_cut(Plan plan, int front, int cut, const CostModel& cost) {
  Stage& before = plan.stages[as_index(front)];
  Stage& behind = plan.stages[as_index(front) + 1];
  before.last_layer = behind.first_layer = cut;
  keep_own_layers(before);
  keep_own_layers(behind);
  schedule_plan(plan, plan.schedule, cost);
  return plan;
}

std::int64_t bytes_over(const std::vector<std::int64_t>& peak_bytes, const std::vector<std::int64_t>& memory_bytes) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < memory_bytes.size(); ++i)
    if (memory_bytes[i] > 0) most = std::max(most, peak_bytes.at(i) - memory_bytes[i]);
  return most;
}

}  // namespace

std::optional<StageLimit> stage_limit(const Candidate& candidate, const CostModel& cost, const std::vector<std::int64_t>& memory_bytes) {
  const Plan& plan = candidate.plan;
  if (plan.num_stages() < 2) return std::nullopt;
  StageLimit limit;
  limit.stage = candidate.prediction.limiting_stage;
  const Stage& stage = plan.stages[as_index(limit.stage)];
  for (const int device : stage.devices) {
    const double busy_s = candidate.prediction.busy_s[as_index(device)];
    if (busy_s <= limit.busy_s) continue;
    limit.busy_s = busy_s;
    limit.device = device;
  }
  for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
    const double layer_s = seconds_of(plan, limit.stage, limit.device, layer, cost);
    if (layer_s <= limit.layer_s) continue;
    limit.layer_s = layer_s;
    limit.layer = layer;
  }
  if (find_schedule(plan.schedule) == nullptr || stage.last_layer - stage.first_layer < 2) return limit;
  const int first = stage.first_layer + 1;
  const int last = stage.last_layer - 1;
  const auto add_move = [&](int layer, int to_stage, int front, int cut) {
    if (!cost.may_cut(cut)) return;
    const Prediction prediction = predict(with_cut(plan, front, cut, cost), cost);
    limit.moves.push_back({layer, to_stage, prediction.step_s, bytes_over(prediction.peak_bytes, memory_bytes)});
  };
  if (limit.stage > 0) add_move(stage.first_layer, limit.stage - 1, limit.stage - 1, first);
  if (limit.stage + 1 < plan.num_stages()) add_move(last, limit.stage + 1, limit.stage, last);
  return limit;
}

}  // namespace mptune::planner
