#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/trace/values/network.h"

namespace mptune::planner {

/// Devices that add up gradients, and how they are connected: devices of one host are neighbours in the group.
struct ReplicaGroup {
  int replicas = 1;
  int hosts = 1;
  int per_host = 0;     ///< replicas on each host; 0: hosts have unequal numbers
  NetworkLink within;   ///< the slowest of the hosts' links; not used where no host has two replicas
  NetworkLink between;  ///< link of one replica, or of the host where `shared`; not used on one host
  bool shared = false;  ///< the replicas of a host share `between`
  bool operator==(const ReplicaGroup&) const = default;
};

/// Seconds that each way takes for one sum of gradients over a group, after which every replica has it. Infinite: the group has no such
/// way.
struct AllReduceCosts {
  double ring_s = 0;
  double tree_s = 0;
  double hierarchical_s = std::numeric_limits<double>::infinity();
  [[nodiscard]] double least_s() const;
  /// Returns "ring", "tree" or "hierarchical".
  [[nodiscard]] const char* least_name() const;
  bool operator==(const AllReduceCosts&) const = default;
};

/// What a way of summing takes: fixed_s + bytes * seconds_per_byte. Infinite: the way does not exist for the group.
struct AllReduceLine {
  double fixed_s = 0;
  double seconds_per_byte = 0;
  [[nodiscard]] double seconds(std::int64_t bytes) const { return fixed_s + static_cast<double>(bytes) * seconds_per_byte; }
};

/// Returns the line of a ring: 2 (R - 1) rounds, in each of which every replica sends bytes / R to the next one. All replicas wait for the
/// slowest link: the largest latency and the smallest bandwidth of those in use. The line is 0 for one replica. Requires: bandwidths above
/// 0.
/// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
[[nodiscard]] AllReduceLine ring_all_reduce(const ReplicaGroup& group);

/// Returns the line of recursive halving, then doubling, nearest replicas first: log2 R exchanges of bytes / 2, bytes / 4 .. and the same
/// backwards. Where R is no power of two, the replicas above the largest power below it hand over all bytes first and get all of them back.
/// What leaves a host at the same time shares its link, if that is shared. Where hosts do not hold blocks of a power of two, every exchange
/// takes the slowest link. The line is 0 for one replica. Requires: bandwidths above 0.
/// Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
[[nodiscard]] AllReduceLine tree_all_reduce(const ReplicaGroup& group);

/// Returns the line of a reduce-scatter by ring within each host, an all-reduce of each part between the hosts by `parts`, and an
/// all-gather within each host. It is infinite unless there are at least two hosts, with equally many replicas each, at least two.
/// Requires: bandwidths above 0.
[[nodiscard]] AllReduceLine hierarchical_all_reduce(const ReplicaGroup& group, AllReduceLine (*parts)(const ReplicaGroup&));

/// Returns the costs of all ways. Between hosts, `hierarchical_s` is by ring or by tree, whichever takes less.
[[nodiscard]] AllReduceCosts all_reduce_costs(const ReplicaGroup& group, std::int64_t bytes);

/// Returns a line that is a lower bound of the fastest way, for any number of bytes.
[[nodiscard]] AllReduceLine all_reduce_bound(const ReplicaGroup& group);

/// Returns the group of each stage. Stages sum at the same time: those that leave a host share its link, as if all took equally long.
/// `devices` has, for each device of the plan, its index in the network.
[[nodiscard]] std::vector<ReplicaGroup> replica_groups(const Plan& plan, const Network& network, std::span<const int> devices);

}  // namespace mptune::planner
