#include "planner/topology/pipeline_cost.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/cost/all_reduce.h"
#include "planner/topology/topology_profile.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

int hosts_left(const std::vector<int>& pipeline, const std::vector<TopologyDevice>& all) {
  int left = 0;
  for (std::size_t s = 1; s < pipeline.size(); ++s) left += all[as_index(pipeline[s])].host != all[as_index(pipeline[s - 1])].host ? 1 : 0;
  return left;
}

// Returns the pipeline that leaves hosts most often, whose copies take longest.
const std::vector<int>& slowest_pipeline(const std::vector<std::vector<int>>& devices, const Topology& topology) {
  const std::vector<TopologyDevice> all = devices_of(topology);
  const auto by_copies = [&](const std::vector<int>& a, const std::vector<int>& b) { return hosts_left(a, all) < hosts_left(b, all); };
  return *std::ranges::max_element(devices, by_copies);
}

// Returns the group of each stage, in the order of the stages.
std::vector<ReplicaGroup> groups_of(const std::vector<std::vector<int>>& devices, const Network& network) {
  Plan plan;
  std::vector<int> all;
  for (std::size_t s = 0; s < devices.front().size(); ++s) {
    Stage stage;
    for (const std::vector<int>& pipeline : devices) {
      stage.devices.push_back(static_cast<int>(all.size()));
      all.push_back(pipeline[s]);
    }
    plan.stages.push_back(std::move(stage));
  }
  return replica_groups(plan, network, all);
}

AllReduceLine least_sum(const std::vector<std::vector<int>>& devices, const Network& network) {
  AllReduceLine least{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (const ReplicaGroup& group : groups_of(devices, network)) {
    const AllReduceLine line = all_reduce_bound(group);
    least.fixed_s = std::min(least.fixed_s, line.fixed_s);
    least.seconds_per_byte = std::min(least.seconds_per_byte, line.seconds_per_byte);
  }
  return least;
}

std::vector<std::string> names_of(const Profile& profile) {
  std::vector<std::string> names;
  for (const ProfileDevice& device : profile.devices) names.push_back(device.name);
  return names;
}

}  // namespace

// Every stage sums gradients, then updates its parameters: both take time in proportion to their bytes.
Profile PipelineCost::priced(const Profile& profile, const Topology& topology, const std::vector<std::vector<int>>& devices,
                             const std::string& where) {
  Profile made = on_topology(profile, topology, slowest_pipeline(devices, topology), where);
  made.network.shared_per_host = false;
  if (devices.size() < 2) return made;
  const AllReduceLine sum = least_sum(devices, network_of(topology));
  for (DeviceClass& device_class : made.classes) {
    device_class.optimizer_seconds_per_byte += sum.seconds_per_byte;
    device_class.step_seconds += sum.fixed_s;
  }
  return made;
}

PipelineCost::PipelineCost(const Profile& profile, const Topology& topology, const UniformShape& shape, const std::string& where)
    : devices(placed(shape, topology)), cost(priced(profile, topology, devices, where)), bound(cost), between_(topology.between) {
  names = names_of(cost.profile());
  if (topology.shared_per_host) sends_ = sends_of(devices, topology);
}

std::vector<PipelineCost::Sends> PipelineCost::sends_of(const std::vector<std::vector<int>>& devices, const Topology& topology) {
  const std::vector<TopologyDevice> all = devices_of(topology);
  std::vector<Sends> by_host(as_index(topology.host_count()));
  for (const std::vector<int>& pipeline : devices) {
    for (std::size_t s = 1; s < pipeline.size(); ++s) {
      const int front = all[as_index(pipeline[s - 1])].host;
      const int back = all[as_index(pipeline[s])].host;
      if (front == back) continue;
      ++by_host[as_index(front)].outputs;
      ++by_host[as_index(back)].gradients;
    }
  }
  const auto order = [](const Sends& a, const Sends& b) { return std::pair(a.outputs, a.gradients) < std::pair(b.outputs, b.gradients); };
  std::ranges::sort(by_host, order);
  const auto same = [](const Sends& a, const Sends& b) { return a.outputs == b.outputs && a.gradients == b.gradients; };
  const auto repeated = std::ranges::unique(by_host, same);
  by_host.erase(repeated.begin(), repeated.end());
  return by_host;
}

std::int64_t PipelineCost::queued_ns(int microbatches, int samples) const {
  if (sends_.empty() || cost.layers() < 2) return 0;
  std::int64_t output = std::numeric_limits<std::int64_t>::max();
  std::int64_t gradient = output;
  for (int layer = 1; layer < cost.layers(); ++layer) {
    if (!cost.may_cut(layer)) continue;
    output = std::min(output, cost.boundary_bytes(layer, samples, false));
    gradient = std::min(gradient, cost.boundary_bytes(layer, samples, true));
  }
  // Each copy takes whole nanoseconds.
  const auto seconds = [&](std::int64_t bytes) {
    return std::max(0.0, between_.latency_s + static_cast<double>(bytes) / between_.bytes_per_second - 1e-9);
  };
  double most = 0;  // without gradients, no copy comes back
  for (const Sends& sends : sends_)
    most = std::max(most, sends.outputs * seconds(output) + (gradient > 0 ? sends.gradients * seconds(gradient) : 0));
  return static_cast<std::int64_t>(most * microbatches * 1e9);
}

}  // namespace mptune::planner
