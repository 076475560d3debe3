#include "reports/values/topology_report.h"

#include <algorithm>
#include <numeric>

#include "planner/plan/plan_words.h"
#include "profiler/base/index.h"

namespace mptune::reports {
namespace {

int recomputed_count(const Stage& stage) {
  if (stage.recompute.mode == Recompute::Mode::all) return stage.last_layer - stage.first_layer;
  return stage.recompute.mode == Recompute::Mode::some ? static_cast<int>(stage.recompute.layers.size()) : 0;
}

PaperStage paper_stage(const Candidate& candidate, const Stage& stage, const CostModel& cost) {
  PaperStage row;
  row.first_layer = stage.first_layer;
  row.last_layer = stage.last_layer;
  row.recomputed = recomputed_count(stage);
  row.parameters_bytes = cost.parameters_bytes(stage.first_layer, stage.last_layer);
  for (const int device : stage.devices) {
    row.devices.push_back(candidate.plan.devices[as_index(device)]);
    row.peak_bytes = std::max(row.peak_bytes, candidate.prediction.peak_bytes[as_index(device)]);
    row.busy_s = std::max(row.busy_s, candidate.prediction.busy_s[as_index(device)]);
  }
  return row;
}

std::optional<GradientSum> largest_sum(const Plan& plan, const CostModel& cost) {
  if (!has_replicas(plan)) return std::nullopt;
  const std::vector<int> devices = cost.device_indices(plan.devices);
  const std::vector<planner::ReplicaGroup> groups = planner::replica_groups(plan, cost.profile().network, devices);
  GradientSum largest{.stage = -1, .bytes = -1, .group = {}, .costs = {}};
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[as_index(s)];
    const std::int64_t bytes = cost.parameters_bytes(stage.first_layer, stage.last_layer);
    if (stage.devices.size() < 2 || bytes <= largest.bytes) continue;
    largest = {s, bytes, groups[as_index(s)], planner::all_reduce_costs(groups[as_index(s)], bytes)};
  }
  return largest;
}

std::int64_t smallest_cap(const Plan& plan, const CostModel& cost) {
  std::int64_t smallest = 0;
  for (const int device : cost.device_indices(plan.devices)) {
    const std::int64_t cap = cost.profile().devices[as_index(device)].memory_bytes;
    if (cap > 0 && (smallest == 0 || cap < smallest)) smallest = cap;
  }
  return smallest;
}

}  // namespace

std::string describe_on_paper(const Plan& plan) {
  const std::size_t replicas = plan.stages.front().devices.size();
  const auto alike = [&](const Stage& stage) { return stage.devices.size() == replicas; };
  if (plan.num_stages() < 2 || replicas < 2 || !std::ranges::all_of(plan.stages, alike)) return describe(plan);
  const bool recomputes = std::ranges::any_of(plan.stages, [](const Stage& stage) { return recomputed_count(stage) > 0; });
  return "pipeline of " + std::to_string(plan.num_stages()) + " stages, " + std::to_string(replicas) + " replicas of each, " +
         plan.schedule + ", " + std::to_string(plan.num_microbatches()) + " micro-batches of " +
         std::to_string(plan.microbatch_sizes.front()) + (recomputes ? ", recomputing" : "");
}

TopologyReport build_topology_report(const Candidate& candidate, const CostModel& cost, const planner::Topology& topology) {
  const Plan& plan = candidate.plan;
  TopologyReport report;
  report.title = cost.profile().model + ": " + std::to_string(plan.global_batch_size()) + " samples on " + planner::describe(topology);
  report.description = describe_on_paper(plan);
  report.devices = topology.device_count();
  report.hosts = topology.host_count();
  report.used = static_cast<int>(plan.devices.size());
  report.step_s = candidate.prediction.step_s;
  report.lower_bound_s = candidate.prediction.lower_bound_s;
  const std::vector<double>& busy_s = candidate.prediction.busy_s;
  report.busy = std::accumulate(busy_s.begin(), busy_s.end(), 0.0) / (report.step_s * static_cast<double>(busy_s.size()));
  report.cap_bytes = smallest_cap(plan, cost);
  for (const Stage& stage : plan.stages) report.stages.push_back(paper_stage(candidate, stage, cost));
  report.sum = largest_sum(plan, cost);
  report.extrapolated = candidate.prediction.extrapolated;
  return report;
}

}  // namespace mptune::reports
