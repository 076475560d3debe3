#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/trace/values/network.h"

namespace mptune::planner {

/// Hosts that are alike.
struct HostGroup {
  std::string name;               ///< "a100"
  int hosts = 1;                  ///< at least 1
  int devices = 1;                ///< devices of each host, at least 1
  std::string like;               ///< class or device of the profile that they are as fast as; "": as the profile's first device
  std::int64_t memory_bytes = 0;  ///< memory of each device; 0: not known
  NetworkLink link;               ///< link between two devices of a host; not used where each host has one
  double speed = 1;               ///< speed of each device over that of `like`: at 0.5 all that it computes takes twice as long
  bool operator==(const HostGroup&) const = default;
};

/// Machines on paper: hosts in the order of their groups, devices in the order of their hosts.
struct Topology {
  static constexpr int kMostDevices = 100'000;
  static constexpr int kMostDevicesOfHost = 256;
  static constexpr double kLeastSpeed = 0.001;
  static constexpr double kMostSpeed = 1000;

  std::vector<HostGroup> groups;
  NetworkLink between;           ///< link of each device to devices of other hosts; not used with one host
  bool shared_per_host = false;  ///< `between` is the link of each host instead
  [[nodiscard]] int host_count() const;
  [[nodiscard]] int device_count() const;
  bool operator==(const Topology&) const = default;
};

/// Where a device is.
struct TopologyDevice {
  int group = 0;  ///< index into Topology::groups
  int host = 0;   ///< index among all hosts
  int index = 0;  ///< index on its host
};

/// Returns all devices, in order.
[[nodiscard]] std::vector<TopologyDevice> devices_of(const Topology& topology);

/// Returns the topology in words: "64 hosts of 8 devices", "2 hosts of 8 and 1 host of 4 devices".
[[nodiscard]] std::string describe(const Topology& topology);

}  // namespace mptune::planner
