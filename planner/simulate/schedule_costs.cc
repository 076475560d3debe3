#include "planner/simulate/schedule_costs.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "planner/cost/peak_bytes.h"
#include "planner/cost/stage_need.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/schedule/timing.h"
#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Returns the plan with one micro-batch of the largest size for every pair of replicas that exchange data, under a schedule that fits any
// map of stages to devices; backwards are whole or split.
Plan priced_plan(const Plan& plan, bool split) {
  Plan one = plan;
  one.options.idle_devices_help = false;
  std::size_t replicas = 1;
  for (const Stage& stage : plan.stages) replicas = std::min(std::lcm(replicas, stage.devices.size()), plan.microbatch_sizes.size());
  one.microbatch_sizes.assign(replicas, *std::ranges::max_element(plan.microbatch_sizes));
  for (Stage& stage : one.stages) stage.recompute.microbatches.clear();
  make_schedule(one, "gpipe");
  for (std::vector<Action>& row : one.actions) {
    for (std::size_t q = 0; split && q < row.size(); ++q) {
      if (row[q].kind != ActionKind::backward) continue;
      row[q].kind = ActionKind::backward_input;
      row.insert(row.begin() + static_cast<std::ptrdiff_t>(q) + 1, {row[q].stage, ActionKind::backward_weight, row[q].microbatch});
    }
  }
  return one;
}

// Sums what each stage's device copies itself of one micro-batch, and takes the longest sum over the replicas.
class SentItself {
 public:
  SentItself(std::size_t stages, std::size_t microbatches) : microbatches_(microbatches), by_microbatch_(stages * microbatches, 0) {}

  void add(const Operation& copy) { by_microbatch_[as_index(copy.stage) * microbatches_ + as_index(copy.microbatch)] += copy.alone_ns; }
  [[nodiscard]] std::int64_t of(std::size_t stage) const {
    const auto first = by_microbatch_.begin() + static_cast<std::ptrdiff_t>(stage * microbatches_);
    return *std::max_element(first, first + static_cast<std::ptrdiff_t>(microbatches_));
  }

 private:
  std::size_t microbatches_;
  std::vector<std::int64_t> by_microbatch_;
};

void add_links(const Operations& operations, ScheduleCosts& costs) {
  for (const StageFlow& flow : operations.flows) costs.links.push_back({flow.front, flow.back, 0, 0, flow.needs_gradient});
  for (const Operation& operation : operations.list) {
    if (operation.kind != EventKind::copy || operation.lane == operation.device) continue;
    LinkCosts& link = costs.links[as_index(operation.flow)];
    std::int64_t& ns = operation.stage == link.front ? link.output_ns : link.gradient_ns;
    ns = std::max(ns, operation.alone_ns);
  }
}

// Times are the longest over the replicas. What the sender copies itself is part of its action. Early recomputation precedes whole
// backwards and input gradients alike.
void add_times(const Plan& plan, const Operations& operations, bool split, ScheduleCosts& costs) {
  std::vector<std::int64_t> again(plan.stages.size(), 0);
  SentItself outputs(again.size(), plan.microbatch_sizes.size()), gradients(outputs);
  for (const Operation& operation : operations.list) {
    if (operation.phase != Phase::actions) continue;
    const auto s = as_index(operation.stage);
    std::int64_t* most = &again[s];
    if (operation.kind == EventKind::forward) most = &costs.stages[s].forward_ns;
    if (operation.kind == EventKind::backward) most = &costs.stages[s].backward_ns;
    if (operation.kind == EventKind::backward_input) most = &costs.stages[s].backward_input_ns;
    if (operation.kind == EventKind::backward_weight) most = &costs.stages[s].backward_weight_ns;
    if (operation.kind == EventKind::copy) {
      const bool output = operations.flows[as_index(operation.flow)].front == operation.stage;
      if (operation.lane == operation.device) {
        (output ? outputs : gradients).add(operation);
        continue;
      }
      most = output ? &costs.stages[s].send_output_ns : &costs.stages[s].send_gradient_ns;
    }
    *most = std::max(*most, operation.alone_ns);
  }
  for (std::size_t s = 0; s < again.size(); ++s) {
    costs.stages[s].recompute_ns = again[s];
    (split ? costs.stages[s].backward_input_ns : costs.stages[s].backward_ns) += again[s] + gradients.of(s);
    // Both plans have the forwards.
    if (!split) costs.stages[s].forward_ns += outputs.of(s);
  }
}

// Adds the bytes of one micro-batch on the replica that saves most.
void add_bytes(const Plan& plan, const CostModel& cost, int s, std::int64_t received, int samples, StageCosts& costs) {
  const Stage& stage = plan.stages[as_index(s)];
  bool always = true;  // every micro-batch is computed again
  for (int i = 0; i < plan.num_microbatches(); ++i) always = always && recomputes(stage.recompute, i);
  for (const int replica : stage.devices) {
    const int device = cost.device_index(plan.devices[as_index(replica)]);
    std::int64_t saved = kept_bytes(cost, device, stage, samples);
    if (!always) saved = std::max(saved, cost.memory().saved_activation_bytes(device, stage.first_layer, stage.last_layer, samples));
    costs.saved_activation_bytes = std::max(costs.saved_activation_bytes, received + saved);
    costs.held_bytes =
        std::max(costs.held_bytes, received + cost.memory().held_bytes(device, stage.first_layer, stage.last_layer, samples));
  }
}

// Returns what the stages of a device need besides: workspace, two gradients that wait for the device, and two that are being sent.
std::vector<std::int64_t> passing_bytes(const Plan& plan, const CostModel& cost, const std::vector<StageFlow>& flows, int samples) {
  std::vector<std::int64_t> workspace(plan.devices.size(), 0);
  std::vector<std::int64_t> gradients(plan.devices.size(), 0);
  for (const StageFlow& flow : flows)
    for (const int stage : {flow.front, flow.back})
      for (const int replica : plan.stages[as_index(stage)].devices) gradients[as_index(replica)] += 2 * flow.bytes(samples, true);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    for (const int replica : stage.devices) {
      const auto d = as_index(replica);
      const int device = cost.device_index(plan.devices[d]);
      workspace[d] = std::max(workspace[d], cost.memory().workspace_bytes(device, stage.first_layer, stage.last_layer, samples));
    }
  }
  for (std::size_t d = 0; d < workspace.size(); ++d) workspace[d] += gradients[d];
  return workspace;
}

// Adds the part of a cap that is left for micro-batches in flight while the gradients of all parameters are held. The allocator's reserve
// is a share of everything.
void add_free_bytes(Plan plan, const CostModel& cost, const std::vector<std::int64_t>& memory_bytes, const std::vector<StageFlow>& flows,
                    int samples, ScheduleCosts& costs) {
  make_schedule(plan, "gpipe");
  const std::vector<PeakContents> contents = peak_contents(plan, cost);
  const std::vector<std::int64_t> passing = passing_bytes(plan, cost, flows, samples);
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    if (memory_bytes[d] <= 0) {
      costs.free_bytes.push_back(ScheduleCosts::kNoLimit);
      continue;
    }
    const PeakContents& owned = contents[d];
    const double reserve = static_cast<double>(owned.reserve_bytes) / static_cast<double>(std::max<std::int64_t>(1, owned.total()));
    const auto usable = static_cast<std::int64_t>(static_cast<double>(memory_bytes[d]) * (1 - reserve));
    costs.free_bytes.push_back(
        std::max<std::int64_t>(0, usable - 2 * owned.parameters_bytes - owned.optimizer_bytes - owned.buffers_bytes - passing[d]));
  }
}

// True if ScheduleReplay times the plan as the simulator does.
bool prices_say_all(const Plan& plan, const CostModel& cost) {
  const Operations operations = list_operations(plan, cost);
  return cost.profile().runtime == Runtime::mptune && !operations.interferes && !operations.queues &&
         std::ranges::min(plan.microbatch_sizes) == std::ranges::max(plan.microbatch_sizes) &&
         std::ranges::all_of(plan.stages, [](const Stage& stage) { return stage.devices.size() == 1; });
}

// Returns the most bytes saved beyond what is free on a device, and the simulated step.
std::pair<std::int64_t, std::int64_t> value_of(const Plan& plan, const CostModel& cost, const ScheduleCosts& costs) {
  std::int64_t excess = 0;
  const std::vector<std::int64_t> saved = most_saved_bytes(plan, costs);
  for (std::size_t d = 0; d < costs.free_bytes.size(); ++d) excess = std::max(excess, saved[d] - costs.free_bytes[d]);
  return {excess, time_operations(list_operations(plan, cost, cost.profile().runtime)).end_ns};
}

}  // namespace

ScheduleCosts schedule_costs(const Plan& plan, const CostModel& cost, const std::vector<std::int64_t>& memory_bytes) {
  ScheduleCosts costs{std::vector<StageCosts>(plan.stages.size(), StageCosts{0, 0, 0, 0, 0, 0, 0, 0, 0}), {}};
  const Plan whole = priced_plan(plan, false), split = priced_plan(plan, true);
  const Operations operations = list_operations(whole, cost);
  const int samples = whole.microbatch_sizes.front();
  add_times(whole, operations, false, costs);
  add_times(split, list_operations(split, cost), true, costs);
  if (!cost.is_chain()) add_links(operations, costs);
  std::vector<std::int64_t> received(plan.stages.size(), 0);
  for (const StageFlow& flow : operations.flows) received[as_index(flow.back)] += flow.bytes(samples, false);
  for (int s = 0; s < plan.num_stages(); ++s) add_bytes(plan, cost, s, received[as_index(s)], samples, costs.stages[as_index(s)]);
  if (std::ranges::any_of(memory_bytes, [](std::int64_t cap) { return cap > 0; }))
    add_free_bytes(plan, cost, memory_bytes, operations.flows, samples, costs);
  return costs;
}

void schedule_plan(Plan& plan, const std::string& name, const CostModel& cost, const std::vector<std::int64_t>& memory_bytes) {
  const ScheduleCosts costs = schedule_costs(plan, cost, memory_bytes);
  make_schedule(plan, name, &costs);
  if (schedule_info(name).rows_from != RowsFrom::search || prices_say_all(plan, cost)) return;
  auto best = value_of(plan, cost, costs);
  const Layout layout(plan);
  for (const ScheduleInfo& other : schedules()) {
    if (other.name == name || !missing_for(other, layout).empty()) continue;
    Plan named = plan;
    named.actions = other.rows(layout, costs);
    const auto value = value_of(named, cost, costs);
    if (value >= best) continue;
    best = value;
    plan.actions = std::move(named.actions);
  }
}

}  // namespace mptune::planner
