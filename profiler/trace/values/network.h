#pragma once

#include <vector>

namespace mptune {

/// A link of a network. A copy over it takes latency + bytes / bytes_per_second, in each direction.
struct NetworkLink {
  double latency_s = 0;
  double bytes_per_second = 0;
  bool operator==(const NetworkLink&) const = default;
};

/// How devices, which need not exist, are connected: the devices of a host by one link, hosts by another.
struct Network {
  std::vector<int> host_of;         ///< per device: index into `within`; empty: there is no network
  std::vector<NetworkLink> within;  ///< per host: between any two of its devices
  NetworkLink between;              ///< of each device to devices of other hosts
  bool shared_per_host = false;     ///< `between` is of each host: copies that leave one host queue, whatever device they are from
  [[nodiscard]] bool empty() const { return host_of.empty(); }
  bool operator==(const Network&) const = default;
};

}  // namespace mptune
