#include "planner/cost/all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::testing {
namespace {

using planner::all_reduce_bound;
using planner::all_reduce_costs;
using planner::AllReduceLine;
using planner::ReplicaGroup;

// Replicas that hold a number for each part, and the clock of a machine that moves them: transfers of one round run at the same time, and
// the round lasts as long as the slowest of them.
class Machine {
 public:
  Machine(const ReplicaGroup& group, int parts, double bytes)
      : group_(group), part_bytes_(bytes / parts), held_(as_index(group.replicas), std::vector<double>(as_index(parts))) {
    for (std::size_t r = 0; r < held_.size(); ++r)
      for (std::size_t p = 0; p < held_[r].size(); ++p) held_[r][p] = static_cast<double>(1 + r * 7 + p * 3);
    sums_.assign(as_index(parts), 0);
    for (const std::vector<double>& of : held_)
      for (std::size_t p = 0; p < of.size(); ++p) sums_[p] += of[p];
  }

  struct Transfer {
    int from = 0;
    int to = 0;
    int first = 0;  // of the parts
    int last = 0;
    bool adds = true;
  };

  void round(const std::vector<Transfer>& transfers) {
    const auto before = held_;
    double longest = 0;
    for (const Transfer& t : transfers) {
      longest = std::max(longest, seconds(t, transfers));
      for (int p = t.first; p < t.last; ++p) {
        double& to = held_[as_index(t.to)][as_index(p)];
        to = before[as_index(t.from)][as_index(p)] + (t.adds ? before[as_index(t.to)][as_index(p)] : 0);
      }
    }
    seconds_ += longest;
  }

  [[nodiscard]] double seconds() const { return seconds_; }
  [[nodiscard]] int host(int replica) const { return replica / group_.per_host; }
  [[nodiscard]] bool all_summed() const {
    return std::ranges::all_of(held_, [&](const std::vector<double>& of) { return of == sums_; });
  }

 private:
  [[nodiscard]] double seconds(const Transfer& t, const std::vector<Transfer>& all) const {
    const double bytes = part_bytes_ * (t.last - t.first);
    if (host(t.from) == host(t.to)) return group_.within.latency_s + bytes / group_.within.bytes_per_second;
    double sent = 0;  // by this host, to others
    for (const Transfer& other : all)
      if (host(other.from) == host(t.from) && host(other.to) != host(other.from)) sent += part_bytes_ * (other.last - other.first);
    return group_.between.latency_s + (group_.shared ? sent : bytes) / group_.between.bytes_per_second;
  }

  const ReplicaGroup& group_;
  double part_bytes_;
  std::vector<std::vector<double>> held_;
  std::vector<double> sums_;
  double seconds_ = 0;
};

// Rings of replicas `stride` apart, each over its own range of `count` chunks of `width` parts, all at the same time.
struct Rings {
  std::vector<std::vector<int>> members;
  std::vector<int> first_part;
  int width = 1;
};

void scatter_or_gather(Machine& machine, const Rings& rings, bool adds) {
  const int count = static_cast<int>(rings.members.front().size());
  for (int step = 0; step + 1 < count; ++step) {
    std::vector<Machine::Transfer> transfers;
    for (std::size_t k = 0; k < rings.members.size(); ++k) {
      for (int r = 0; r < count; ++r) {
        const int chunk = ((r - step + (adds ? 0 : 1)) % count + count) % count;
        const int first = rings.first_part[k] + chunk * rings.width;
        transfers.push_back({rings.members[k][as_index(r)], rings.members[k][as_index((r + 1) % count)], first, first + rings.width, adds});
      }
    }
    machine.round(transfers);
  }
}

double ring_by_steps(const ReplicaGroup& group, double bytes) {
  Machine machine(group, group.replicas, bytes);
  Rings ring{{std::vector<int>(as_index(group.replicas))}, {0}};
  std::iota(ring.members[0].begin(), ring.members[0].end(), 0);
  scatter_or_gather(machine, ring, true);
  scatter_or_gather(machine, ring, false);
  EXPECT_TRUE(machine.all_summed());
  return machine.seconds();
}

// Recursive halving, nearest first, then doubling. Requires: a power of two.
double tree_by_steps(const ReplicaGroup& group, double bytes) {
  const int count = group.replicas;
  Machine machine(group, count, bytes);
  std::vector<std::pair<int, int>> range(as_index(count), {0, count});
  std::vector<std::vector<std::pair<int, int>>> ranges = {range};
  for (int distance = 1; distance < count; distance *= 2) {
    std::vector<Machine::Transfer> transfers;
    for (int r = 0; r < count; ++r) {
      auto& [first, last] = range[as_index(r)];
      const int middle = (first + last) / 2;
      const bool low = (r & distance) == 0;
      transfers.push_back({r, r ^ distance, low ? middle : first, low ? last : middle, true});
      (low ? last : first) = middle;
    }
    machine.round(transfers);
    ranges.push_back(range);
  }
  for (int distance = count / 2; distance > 0; distance /= 2) {
    std::vector<Machine::Transfer> transfers;
    for (int r = 0; r < count; ++r) {
      const auto& [first, last] = range[as_index(r)];
      transfers.push_back({r, r ^ distance, first, last, false});
    }
    machine.round(transfers);
    ranges.pop_back();
    range = ranges.back();
  }
  EXPECT_TRUE(machine.all_summed());
  return machine.seconds();
}

// Within hosts by ring, between them by ring, back within hosts.
double hierarchical_by_steps(const ReplicaGroup& group, double bytes) {
  const int local = group.per_host;
  Machine machine(group, group.replicas, bytes);
  Rings within{{}, {}, group.hosts};
  Rings between{{}, {}, 1};
  for (int host = 0; host < group.hosts; ++host) {
    std::vector<int>& members = within.members.emplace_back();
    for (int r = 0; r < local; ++r) members.push_back(host * local + r);
    within.first_part.push_back(0);
  }
  for (int r = 0; r < local; ++r) {
    std::vector<int>& members = between.members.emplace_back();
    for (int host = 0; host < group.hosts; ++host) members.push_back(host * local + r);
    between.first_part.push_back((r + 1) % local * group.hosts);  // the chunk that the ring within the host left there
  }
  scatter_or_gather(machine, within, true);
  scatter_or_gather(machine, between, true);
  scatter_or_gather(machine, between, false);
  scatter_or_gather(machine, within, false);
  EXPECT_TRUE(machine.all_summed());
  return machine.seconds();
}

ReplicaGroup on_one_host(int replicas) {
  return {.replicas = replicas, .hosts = 1, .per_host = replicas, .within = {5e-6, 3e11}, .between = {1e-5, 2e10}, .shared = false};
}

ReplicaGroup on_hosts(int hosts, int per_host, bool shared) {
  return {.replicas = hosts * per_host,
          .hosts = hosts,
          .per_host = per_host,
          .within = {5e-6, 3e11},
          .between = {1e-5, 2e10},
          .shared = shared};
}

constexpr std::int64_t kGradients = 100'000'000;

void expect_near(double by_formula, double by_steps) {
  EXPECT_NEAR(by_formula, by_steps, 1e-9 * by_steps);
}

TEST(AllReduce, OneReplicaNeedsNone) {
  const auto costs = all_reduce_costs(on_one_host(1), kGradients);
  EXPECT_EQ(costs.ring_s, 0);
  EXPECT_EQ(costs.least_s(), 0);
}

TEST(AllReduce, RingHasItsTextbookCost) {
  const auto costs = all_reduce_costs(on_one_host(4), 4'000'000);
  EXPECT_NEAR(costs.ring_s, 2.0 * 3 / 4 * 4e6 / 3e11 + 2 * 3 * 5e-6, 1e-15);
}

TEST(AllReduce, TreeNeedsTwoLogarithmsOfLatencies) {
  EXPECT_NEAR(planner::tree_all_reduce(on_one_host(64)).fixed_s, 2 * 6 * 5e-6, 1e-15);
  EXPECT_NEAR(planner::tree_all_reduce(on_one_host(64)).seconds_per_byte, 2.0 * 63 / 64 / 3e11, 1e-20);
}

TEST(AllReduce, RingIsWhatItsStepsTake) {
  for (int replicas = 2; replicas <= 9; ++replicas)
    expect_near(all_reduce_costs(on_one_host(replicas), kGradients).ring_s, ring_by_steps(on_one_host(replicas), kGradients));
  for (const bool shared : {false, true})
    for (const auto& [hosts, local] : {std::pair(2, 1), std::pair(3, 2), std::pair(4, 8), std::pair(5, 3)})
      expect_near(all_reduce_costs(on_hosts(hosts, local, shared), kGradients).ring_s,
                  ring_by_steps(on_hosts(hosts, local, shared), kGradients));
}

TEST(AllReduce, TreeIsWhatItsStepsTake) {
  for (int replicas = 2; replicas <= 32; replicas *= 2)
    expect_near(all_reduce_costs(on_one_host(replicas), kGradients).tree_s, tree_by_steps(on_one_host(replicas), kGradients));
  for (const bool shared : {false, true})
    for (const auto& [hosts, local] : {std::pair(2, 1), std::pair(4, 2), std::pair(4, 8), std::pair(8, 1)})
      expect_near(all_reduce_costs(on_hosts(hosts, local, shared), kGradients).tree_s,
                  tree_by_steps(on_hosts(hosts, local, shared), kGradients));
}

TEST(AllReduce, HierarchicalIsWhatItsStepsTake) {
  for (const bool shared : {false, true}) {
    for (const auto& [hosts, local] : {std::pair(2, 2), std::pair(3, 2), std::pair(4, 8), std::pair(5, 3)}) {
      const ReplicaGroup group = on_hosts(hosts, local, shared);
      const AllReduceLine line = planner::hierarchical_all_reduce(group, planner::ring_all_reduce);
      expect_near(line.seconds(kGradients), hierarchical_by_steps(group, kGradients));
    }
  }
}

TEST(AllReduce, LeastWayDependsOnTheBytes) {
  const ReplicaGroup group = on_hosts(8, 8, false);
  EXPECT_STREQ(all_reduce_costs(group, 100).least_name(), "tree");
  EXPECT_STREQ(all_reduce_costs(on_hosts(3, 8, false), 1'000'000'000).least_name(), "hierarchical");
  EXPECT_LT(all_reduce_costs(group, 1'000'000'000).least_s(), all_reduce_costs(group, 1'000'000'000).ring_s);
}

TEST(AllReduce, HierarchicalNeedsEquallyManyReplicasOnEachHost) {
  ReplicaGroup group = on_hosts(2, 4, false);
  group.per_host = 0;
  EXPECT_EQ(all_reduce_costs(group, kGradients).hierarchical_s, std::numeric_limits<double>::infinity());
}

TEST(AllReduce, NoGroupTakesLessThanItsBound) {
  std::mt19937 random(7);
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  for (int round = 0; round < 2000; ++round) {
    ReplicaGroup group = on_hosts(1 + round % 9, 1 + round % 7, round % 2 == 0);
    group.within = {draw(0, 1e-4), draw(1e9, 1e12)};
    group.between = {draw(0, 1e-3), draw(1e8, 1e11)};
    if (round % 5 == 0) group.per_host = 0;
    const AllReduceLine bound = all_reduce_bound(group);
    for (const std::int64_t bytes : {0, 1, 1000, 1'000'000, 2'000'000'000})
      EXPECT_LE(bound.seconds(bytes), all_reduce_costs(group, bytes).least_s() * (1 + 1e-12));
  }
}

Plan plan_of(const std::vector<std::vector<int>>& stages) {
  Plan plan;
  for (const std::vector<int>& devices : stages) plan.stages.push_back({0, 1, devices, {}});
  return plan;
}

TEST(ReplicaGroups, CountHostsAndWhatSharesTheirLink) {
  const Network network{.host_of = {0, 0, 1, 1}, .within = {{1e-6, 1e11}, {2e-6, 2e11}}, .between = {1e-5, 1e10}, .shared_per_host = true};
  const std::vector<int> devices = {0, 1, 2, 3};
  const auto crossing = planner::replica_groups(plan_of({{0, 2}, {1, 3}}), network, devices);
  EXPECT_EQ(crossing[0].hosts, 2);
  EXPECT_EQ(crossing[0].per_host, 1);
  EXPECT_EQ(crossing[0].between.bytes_per_second, 1e10 / 2);  // both stages leave the hosts at the same time
  const auto near = planner::replica_groups(plan_of({{0, 1}, {2, 3}}), network, devices);
  EXPECT_EQ(near[0].hosts, 1);
  EXPECT_EQ(near[1].within.bytes_per_second, 2e11);
  const auto all = planner::replica_groups(plan_of({{0, 1, 2}}), network, devices);
  EXPECT_EQ(all[0].per_host, 0);
  EXPECT_EQ(all[0].between.bytes_per_second, 1e10);
}

}  // namespace
}  // namespace mptune::testing
