#include "planner/topology/topology.h"

namespace mptune::planner {

int Topology::host_count() const {
  int count = 0;
  for (const HostGroup& group : groups) count += group.hosts;
  return count;
}

int Topology::device_count() const {
  int count = 0;
  for (const HostGroup& group : groups) count += group.hosts * group.devices;
  return count;
}

std::vector<TopologyDevice> devices_of(const Topology& topology) {
  std::vector<TopologyDevice> devices;
  int host = 0;
  for (int g = 0; g < static_cast<int>(topology.groups.size()); ++g) {
    const HostGroup& group = topology.groups[static_cast<std::size_t>(g)];
    for (int last = host + group.hosts; host < last; ++host)
      for (int index = 0; index < group.devices; ++index) devices.push_back({g, host, index});
  }
  return devices;
}

std::string describe(const Topology& topology) {
  std::string text;
  for (std::size_t g = 0; g < topology.groups.size(); ++g) {
    const HostGroup& group = topology.groups[g];
    if (g > 0) text += g + 1 == topology.groups.size() ? " and " : ", ";
    text += std::to_string(group.hosts) + (group.hosts == 1 ? " host of " : " hosts of ") + std::to_string(group.devices);
  }
  return text + (topology.groups.back().devices == 1 ? " device" : " devices");
}

}  // namespace mptune::planner
