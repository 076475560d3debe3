#include "planner/cost/all_reduce.h"

#include <algorithm>
#include <bit>
#include <map>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr double kNoWay = std::numeric_limits<double>::infinity();

NetworkLink slower_of(const NetworkLink& a, const NetworkLink& b) {
  return {std::max(a.latency_s, b.latency_s), std::min(a.bytes_per_second, b.bytes_per_second)};
}

// Returns a group of `count` replicas, each with a link of its own.
ReplicaGroup flat(int count, const NetworkLink& link) {
  return {.replicas = count, .hosts = 1, .per_host = count, .within = link, .between = link, .shared = false};
}

// Returns the link of a replica when `senders` of its host send to other hosts at the same time.
NetworkLink between_hosts(const ReplicaGroup& group, int senders) {
  NetworkLink link = group.between;
  if (group.shared) link.bytes_per_second /= senders;
  return link;
}

AllReduceLine times(double times, double part, const NetworkLink& link) {
  return {times * link.latency_s, times * part / link.bytes_per_second};
}

AllReduceLine operator+(const AllReduceLine& a, const AllReduceLine& b) {
  return {a.fixed_s + b.fixed_s, a.seconds_per_byte + b.seconds_per_byte};
}

// Returns the slowest of the links that a group uses when `senders` replicas of a host send to other hosts at the same time.
NetworkLink slowest_link(const ReplicaGroup& group, int senders) {
  if (group.hosts == 1) return group.within;
  const NetworkLink across = between_hosts(group, senders);
  return group.replicas > group.hosts ? slower_of(group.within, across) : across;
}

// Returns the slowest link of exchanges between replicas `distance` apart, in which all replicas take part.
NetworkLink exchange_link(const ReplicaGroup& group, int distance) {
  const bool aligned = group.per_host > 0 && std::has_single_bit(static_cast<unsigned>(group.per_host));
  const int most = group.per_host > 0 ? group.per_host : group.replicas - group.hosts + 1;
  if (!aligned || group.hosts == 1) return slowest_link(group, most);
  return distance < group.per_host ? group.within : between_hosts(group, most);
}

struct HostCounts {
  std::map<int, int> replicas;  // by host
  [[nodiscard]] bool leaves() const { return replicas.size() > 1; }
};

HostCounts counts_of(const Stage& stage, const Network& network, std::span<const int> devices) {
  HostCounts counts;
  for (const int device : stage.devices) ++counts.replicas[network.host_of[as_index(devices[as_index(device)])]];
  return counts;
}

ReplicaGroup group_of(const HostCounts& counts, const Network& network, const std::map<int, int>& leaving) {
  ReplicaGroup group{.replicas = 0,
                     .hosts = static_cast<int>(counts.replicas.size()),
                     .per_host = counts.replicas.begin()->second,
                     .within = {0, kNoWay},
                     .between = network.between,
                     .shared = network.shared_per_host};
  int sharing = 1;
  for (const auto& [host, count] : counts.replicas) {
    group.replicas += count;
    if (count != group.per_host) group.per_host = 0;
    if (count > 1) group.within = slower_of(group.within, network.within[as_index(host)]);
    if (counts.leaves() && network.shared_per_host) sharing = std::max(sharing, leaving.at(host));
  }
  group.between.bytes_per_second /= sharing;
  return group;
}

}  // namespace

double AllReduceCosts::least_s() const {
  return std::min({ring_s, tree_s, hierarchical_s});
}

const char* AllReduceCosts::least_name() const {
  const double least = least_s();
  return ring_s == least ? "ring" : tree_s == least ? "tree" : "hierarchical";
}

AllReduceLine ring_all_reduce(const ReplicaGroup& group) {
  if (group.replicas < 2) return {};
  return times(2.0 * (group.replicas - 1), 1.0 / group.replicas, slowest_link(group, 1));
}

AllReduceLine tree_all_reduce(const ReplicaGroup& group) {
  if (group.replicas < 2) return {};
  const auto power = static_cast<int>(std::bit_floor(static_cast<unsigned>(group.replicas)));
  AllReduceLine sum;
  if (power < group.replicas) sum = times(2, 1, exchange_link(group, power));
  double part = 0.5;
  for (int distance = 1; distance < power; distance *= 2, part /= 2) sum = sum + times(2, part, exchange_link(group, distance));
  return sum;
}

AllReduceLine hierarchical_all_reduce(const ReplicaGroup& group, AllReduceLine (*parts)(const ReplicaGroup&)) {
  if (group.hosts < 2 || group.per_host < 2) return {kNoWay, kNoWay};
  AllReduceLine between = parts(flat(group.hosts, between_hosts(group, group.per_host)));
  between.seconds_per_byte /= group.per_host;
  return ring_all_reduce(flat(group.per_host, group.within)) + between;
}

AllReduceCosts all_reduce_costs(const ReplicaGroup& group, std::int64_t bytes) {
  AllReduceCosts costs{.ring_s = ring_all_reduce(group).seconds(bytes), .tree_s = tree_all_reduce(group).seconds(bytes)};
  for (const auto parts : {ring_all_reduce, tree_all_reduce}) {
    const AllReduceLine line = hierarchical_all_reduce(group, parts);
    if (line.fixed_s < kNoWay) costs.hierarchical_s = std::min(costs.hierarchical_s, line.seconds(bytes));
  }
  return costs;
}

AllReduceLine all_reduce_bound(const ReplicaGroup& group) {
  AllReduceLine least{kNoWay, kNoWay};
  for (const AllReduceLine& line : {ring_all_reduce(group), tree_all_reduce(group), hierarchical_all_reduce(group, ring_all_reduce),
                                    hierarchical_all_reduce(group, tree_all_reduce)}) {
    least.fixed_s = std::min(least.fixed_s, line.fixed_s);
    least.seconds_per_byte = std::min(least.seconds_per_byte, line.seconds_per_byte);
  }
  return least;
}

std::vector<ReplicaGroup> replica_groups(const Plan& plan, const Network& network, std::span<const int> devices) {
  std::vector<HostCounts> counts;
  std::map<int, int> leaving;  // by host: how many stages have replicas there that send to other hosts
  for (const Stage& stage : plan.stages) {
    counts.push_back(counts_of(stage, network, devices));
    if (!counts.back().leaves()) continue;
    for (const auto& [host, count] : counts.back().replicas) ++leaving[host];
  }
  std::vector<ReplicaGroup> groups;
  for (const HostCounts& of_stage : counts) groups.push_back(group_of(of_stage, network, leaving));
  return groups;
}

}  // namespace mptune::planner
