#include "planner/topology/uniform_plan.h"

#include <algorithm>
#include <numeric>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Returns the devices of `count` groups of `size`, none of which is on two hosts; empty where the hosts have no room for that.
std::vector<std::vector<int>> one_host_each(int count, int size, const Topology& topology) {
  std::vector<std::vector<int>> groups;
  int first = 0;
  for (const HostGroup& hosts : topology.groups) {
    for (int host = 0; host < hosts.hosts; ++host, first += hosts.devices) {
      for (int used = 0; used + size <= hosts.devices && static_cast<int>(groups.size()) < count; used += size) {
        std::vector<int>& group = groups.emplace_back(as_index(size));
        std::iota(group.begin(), group.end(), first + used);
      }
    }
  }
  return static_cast<int>(groups.size()) == count ? groups : std::vector<std::vector<int>>{};
}

std::vector<std::vector<int>> side_by_side(int count, int size) {
  std::vector<std::vector<int>> groups;
  for (int g = 0; g < count; ++g) {
    std::vector<int>& group = groups.emplace_back(as_index(size));
    std::iota(group.begin(), group.end(), g * size);
  }
  return groups;
}

std::vector<std::vector<int>> transposed(const std::vector<std::vector<int>>& rows) {
  std::vector<std::vector<int>> columns(rows.front().size());
  for (const std::vector<int>& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) columns[c].push_back(row[c]);
  return columns;
}

}  // namespace

std::vector<std::vector<int>> placed(const UniformShape& shape, const Topology& topology) {
  const bool stages_near = shape.placement == Placement::stages_near;
  const int count = stages_near ? shape.replicas : shape.stages;
  const int size = stages_near ? shape.stages : shape.replicas;
  std::vector<std::vector<int>> groups = one_host_each(count, size, topology);
  if (groups.empty()) groups = side_by_side(count, size);
  return stages_near ? groups : transposed(groups);
}

Plan replicated(const Plan& pipeline, int replicas, std::vector<std::string> names) {
  Plan plan;
  plan.devices = std::move(names);
  plan.schedule = pipeline.schedule;
  plan.options = pipeline.options;
  for (const int size : pipeline.microbatch_sizes) plan.microbatch_sizes.insert(plan.microbatch_sizes.end(), as_index(replicas), size);
  for (int s = 0; s < pipeline.num_stages(); ++s) {
    Stage stage = pipeline.stages[as_index(s)];
    stage.devices.resize(as_index(replicas));
    std::iota(stage.devices.begin(), stage.devices.end(), s * replicas);
    std::vector<int> microbatches;
    for (const int i : stage.recompute.microbatches)
      for (int r = 0; r < replicas; ++r) microbatches.push_back(i * replicas + r);
    stage.recompute.microbatches = std::move(microbatches);
    plan.stages.push_back(std::move(stage));
    for (int r = 0; r < replicas; ++r) {
      std::vector<Action>& row = plan.actions.emplace_back(pipeline.actions[as_index(s)]);
      for (Action& action : row) action.microbatch = action.microbatch * replicas + r;
    }
  }
  return plan;
}

}  // namespace mptune::planner
