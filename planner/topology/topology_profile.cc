#include "planner/topology/topology_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

std::string known_names(const Profile& profile) {
  std::string names;
  for (const DeviceClass& known : profile.classes)
    if (known.variant_of < 0) names += (names.empty() ? "" : ", ") + known.name;
  return names;
}

// Returns the index of the class that a group's devices are like.
int class_of_group(const Profile& profile, const HostGroup& group, const std::string& where) {
  if (group.like.empty()) return profile.devices.empty() ? 0 : profile.devices.front().device_class;
  const auto device = std::ranges::find(profile.devices, group.like, &ProfileDevice::name);
  if (device != profile.devices.end()) return device->device_class;
  for (std::size_t c = 0; c < profile.classes.size(); ++c)
    if (profile.classes[c].name == group.like && profile.classes[c].variant_of < 0) return static_cast<int>(c);
  throw Error("hosts '" + group.name + "' are like '" + group.like + "', which the profile does not have", where,
              "use one of its classes (" + known_names(profile) + "), or one of its devices");
}

// Returns the number after the slash of "cpu/4" and "cuda/2"; 1 without a slash.
int number_of_class(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos || slash + 1 == name.size()) return 1;
  const std::string digits = name.substr(slash + 1);
  const bool whole = digits.size() < 4 && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  return whole ? std::max(1, std::stoi(digits)) : 1;
}

std::string name_on_host(const std::string& device_class, int index) {
  const auto kind = class_kind(device_class);
  const int number = number_of_class(device_class);
  if (kind == DeviceSpec::Kind::cpu) return cpu_name(index * number, index * number + number - 1);
  if (kind == DeviceSpec::Kind::sleep) return "sleep:" + std::to_string(index);
  if (kind != DeviceSpec::Kind::cuda) return "device:" + std::to_string(index);
  if (number == 1) return gpu_name(index);
  return gpu_name(index / number) + "/" + std::to_string(index % number + 1) + "of" + std::to_string(number);
}

// Devices of other hosts do not slow each other as devices do that were measured together.
void keep_alone(Profile& profile) {
  for (DeviceClass& device_class : profile.classes)
    for (LayerCosts& layer : device_class.layers)
      for (LayerCost& cost : layer.by_samples) cost.forward_busy = cost.backward_busy = {};
  profile.co_running_slowdown = 1;
}

void divide_times(DeviceClass& device_class, double speed) {
  for (LayerCosts& layer : device_class.layers)
    for (LayerCost& cost : layer.by_samples)
      for (Samples* samples : {&cost.forward, &cost.backward, &cost.backward_input, &cost.backward_weight})
        for (Sample& sample : samples->values) sample.value /= speed;
  for (double* seconds : {&device_class.action_seconds, &device_class.step_seconds, &device_class.optimizer_seconds_per_byte,
                          &device_class.reduce_seconds_per_byte})
    *seconds /= speed;
}

// Adds the class, then its other variants, with the times of devices of this speed. Returns the class's index.
int add_class_of_speed(Profile& profile, int base, double speed) {
  const int known = static_cast<int>(profile.classes.size());
  const auto add = [&](int c, int variant_of) {
    DeviceClass scaled = profile.classes[as_index(c)];
    divide_times(scaled, speed);
    scaled.variant_of = variant_of;
    profile.classes.push_back(std::move(scaled));
  };
  add(base, -1);
  for (int c = 0; c < known; ++c)
    if (profile.classes[as_index(c)].variant_of == base) add(c, known);
  return known;
}

}  // namespace

Network network_of(const Topology& topology) {
  Network network;
  network.between = topology.between;
  network.shared_per_host = topology.shared_per_host;
  for (const HostGroup& group : topology.groups) network.within.insert(network.within.end(), as_index(group.hosts), group.link);
  for (const TopologyDevice& device : devices_of(topology)) network.host_of.push_back(device.host);
  return network;
}

Profile on_topology(const Profile& profile, const Topology& topology, std::span<const int> devices, const std::string& where) {
  const std::vector<TopologyDevice> all = devices_of(topology);
  Profile made = profile;
  keep_alone(made);
  std::vector<int> classes;
  for (const HostGroup& group : topology.groups) {
    const int like = class_of_group(profile, group, where);
    classes.push_back(group.speed == 1 ? like : add_class_of_speed(made, like, group.speed));
  }
  made.links.clear();
  made.devices.clear();
  made.network = network_of(topology);
  made.network.host_of.clear();
  for (const int d : devices) {
    const TopologyDevice& at = all[as_index(d)];
    const int device_class = classes[as_index(at.group)];
    ProfileDevice device;
    device.name = std::to_string(at.host) + "@" + name_on_host(made.classes[as_index(device_class)].name, at.index);
    device.device_class = device_class;
    device.memory_bytes = topology.groups[as_index(at.group)].memory_bytes;
    made.devices.push_back(std::move(device));
    made.network.host_of.push_back(at.host);
  }
  return made;
}

Profile on_topology(const Profile& profile, const Topology& topology, const std::string& where) {
  std::vector<int> devices(as_index(topology.device_count()));
  std::iota(devices.begin(), devices.end(), 0);
  return on_topology(profile, topology, devices, where);
}

std::string topology_assumption(const Profile& profile, const Topology& topology, const std::string& where) {
  std::string text;
  for (const HostGroup& group : topology.groups) {
    const std::string& like = profile.classes[as_index(class_of_group(profile, group, where))].name;
    const std::string fast = group.speed == 1 ? " as fast as " : fmt::format(" {:g} times as fast as ", group.speed);
    text += (text.empty() ? "devices of " : ", of ") + group.name + fast + like + " of the profile, alone";
  }
  return text + "; links as the topology says";
}

}  // namespace mptune::planner
