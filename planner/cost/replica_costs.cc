#include "planner/cost/replica_costs.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "planner/cost/curve_points.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

std::optional<DeviceSpec::Kind> kind_of(const CostModel& cost, int device) {
  return class_kind(cost.device_class(device).name);
}

bool on_one_rank(const CostModel& cost, std::span<const int> devices) {
  return std::ranges::all_of(devices, [&](int device) { return cost.rank_of(device) == cost.rank_of(devices.front()); });
}

bool on_several_ranks(const CostModel& cost) {
  const int devices = static_cast<int>(cost.profile().devices.size());
  for (int device = 1; device < devices; ++device)
    if (cost.rank_of(device) != cost.rank_of(0)) return true;
  return false;
}

}  // namespace

std::vector<int> summing_replicas(const CostModel& cost, std::span<const int> devices) {
  if (!on_one_rank(cost, devices)) return updating_replicas(cost, devices);
  std::vector<int> all(kind_of(cost, devices.front()) == DeviceSpec::Kind::cuda ? 1 : devices.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int most_summing_replicas(const CostModel& cost, int first_device, int replicas) {
  return !on_several_ranks(cost) && kind_of(cost, first_device) == DeviceSpec::Kind::cuda ? 1 : replicas;
}

std::vector<int> updating_replicas(const CostModel& cost, std::span<const int> devices) {
  const bool on_paper = !cost.profile().network.empty();
  std::set<int> ranks;
  std::vector<int> updating;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (!on_paper && kind_of(cost, devices[r]) != kind_of(cost, devices.front())) return {0};
    if (ranks.insert(cost.rank_of(devices[r])).second || on_paper) updating.push_back(static_cast<int>(r));
  }
  return updating;
}

double reduce_seconds(const CostModel& cost, int device, int layer, int replicas, int summing) {
  const auto bytes = static_cast<double>(cost.parameters_bytes(layer, layer + 1));
  return in_whole_ns(cost.device_class(device).reduce_seconds_per_byte * bytes * (replicas - 1) / summing);
}

double replica_messages_seconds(const CostModel& cost, std::span<const int> devices, std::int64_t bytes) {
  if (on_one_rank(cost, devices)) return 0;
  const std::vector<int> updating = updating_replicas(cost, devices);
  const std::int64_t part = bytes / std::ssize(updating);
  double longest_s = 0;
  for (const int own : updating) {
    const int here = devices[as_index(own)];
    std::set<int> served{cost.rank_of(here)};
    double seconds = 0;
    for (const int device : devices) {
      if (cost.rank_of(device) == cost.rank_of(here)) continue;
      seconds += cost.copy_seconds(device, here, part);
      if (served.insert(cost.rank_of(device)).second) seconds += cost.copy_seconds(here, device, part);
    }
    longest_s = std::max(longest_s, seconds);
  }
  return longest_s;
}

double replica_copies_seconds(const CostModel& cost, std::span<const int> devices, int layer) {
  if (!cost.profile().network.empty() || !on_one_rank(cost, devices)) return 0;
  const int first = devices.front();
  const auto bytes = static_cast<double>(cost.parameters_bytes(layer, layer + 1));
  const auto copies_s = [&](int from, int to) {
    const LinkCost& known = cost.copies().link(from, to);
    const double bytes_s = known.bytes_per_second > 0 ? bytes / known.bytes_per_second : 0;
    return cost.profile().layers[as_index(layer)].parameter_tensors * known.tensor_s + bytes_s;
  };
  double gradients_s = 0, parameters_s = 0;
  for (const int device : devices) {
    if (device == first || (cost.in_host_memory(first) && cost.in_host_memory(device))) continue;
    gradients_s += copies_s(device, first);
    parameters_s = std::max(parameters_s, copies_s(first, device));
  }
  return in_whole_ns(gradients_s + parameters_s);
}

}  // namespace mptune::planner
