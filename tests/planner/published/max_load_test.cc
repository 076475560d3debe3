#include "planner/published/max_load.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "profiler/base/error.h"
#include "profiler/trace/formats/placement_json.h"
#include "tests/support/files.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Part of each node, and which parts are hosts.
struct Placement {
  std::vector<int> part_of;
  std::vector<bool> on_host;
};

Placement placement_of(const profiler::PlacementGraph& graph, const LoadPartition& partition) {
  Placement placement{std::vector<int>(graph.nodes.size(), -1), {}};
  for (std::size_t part = 0; part < partition.parts.size(); ++part) {
    placement.on_host.push_back(partition.parts[part].on_host);
    for (const int node : partition.parts[part].nodes) placement.part_of.at(as_index(node)) = static_cast<int>(part);
  }
  return placement;
}

// Rules of the published model, node by node and edge by edge: kNever where one is broken.
std::int64_t load_by_the_rules(const profiler::PlacementGraph& graph, const Placement& placement) {
  const auto part = [&](int node) { return placement.part_of[as_index(node)]; };
  const auto node_at = [&](int node) -> const profiler::PlacementNode& { return graph.nodes[as_index(node)]; };
  std::map<int, int> first_of;
  std::set<int> with_forward;
  std::vector<std::int64_t> loads(placement.on_host.size(), 0);
  std::vector<std::int64_t> bytes(placement.on_host.size(), 0);
  for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
    const profiler::PlacementNode& cost = node_at(node);
    const auto own = as_index(part(node));
    if (cost.colocated >= 0 && part(first_of.emplace(cost.colocated, node).first->second) != part(node)) return kNever;
    if (!placement.on_host[own] && !cost.device_can) return kNever;
    if (cost.colocated >= 0 && !cost.backward) with_forward.insert(cost.colocated);
    loads[own] += placement.on_host[own] ? cost.host_ns : cost.device_ns;
    bytes[own] += cost.bytes;
  }
  for (const profiler::PlacementTensor& tensor : graph.tensors) {
    std::set<int> receivers;
    for (const int consumer : tensor.consumers) {
      const bool both_backward = node_at(tensor.producer).backward && node_at(consumer).backward;
      const bool mirrored = both_backward && (!with_forward.contains(node_at(tensor.producer).colocated) ||
                                              !with_forward.contains(node_at(consumer).colocated));
      if (!node_at(consumer).backward && part(tensor.producer) > part(consumer)) return kNever;
      if (mirrored && part(tensor.producer) < part(consumer)) return kNever;
      if (part(consumer) != part(tensor.producer)) receivers.insert(part(consumer));
    }
    if (!receivers.empty()) receivers.insert(part(tensor.producer));
    for (const int payer : receivers) loads[as_index(payer)] += placement.on_host[as_index(payer)] ? 0 : tensor.copy_ns;
  }
  for (std::size_t own = 0; own < loads.size(); ++own)
    if (!placement.on_host[own] && graph.memory_bytes > 0 && bytes[own] > graph.memory_bytes) return kNever;
  return std::ranges::max(loads);
}

// Every node tried on every part, for every order of devices and hosts.
std::int64_t brute_force(const profiler::PlacementGraph& graph) {
  std::vector<bool> kinds(as_index(graph.devices), false);
  kinds.insert(kinds.end(), as_index(graph.hosts), true);
  std::int64_t best = kNever;
  do {
    Placement placement{std::vector<int>(graph.nodes.size(), 0), kinds};
    const std::function<void(std::size_t)> place = [&](std::size_t node) {
      if (node == graph.nodes.size()) {
        best = std::min(best, load_by_the_rules(graph, placement));
        return;
      }
      const int number = graph.nodes[node].colocated;
      for (std::size_t other = 0; other < node && number >= 0; ++other) {
        if (graph.nodes[other].colocated != number) continue;
        placement.part_of[node] = placement.part_of[other];
        return place(node + 1);
      }
      for (int part = 0; part < graph.devices + graph.hosts; ++part) {
        placement.part_of[node] = part;
        place(node + 1);
      }
    };
    place(0);
  } while (std::next_permutation(kinds.begin(), kinds.end()));
  return best;
}

int pick(std::mt19937& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

// Up to seven layers, forward and most of their backwards; also backwards alone, free nodes, layers that must stay together, host-only
// ones.
profiler::PlacementGraph random_graph(unsigned seed) {
  std::mt19937 random(seed);
  profiler::PlacementGraph graph;
  graph.name = "seed " + std::to_string(seed);
  graph.devices = pick(random, 1, 3);
  graph.hosts = pick(random, 0, 3) == 0 ? 1 : 0;
  const int layers = pick(random, 1, graph.devices + graph.hosts > 3 ? 6 : 7);
  const bool training = pick(random, 0, 2) > 0;
  const bool copies = pick(random, 0, 3) > 0;
  std::vector<int> forward;
  std::vector<int> backward;
  const auto add_node = [&](bool is_backward, int number) {
    const int cost = pick(random, 0, 3) == 0 ? 0 : pick(random, 1, 20);
    graph.nodes.push_back(
        {"node" + std::to_string(graph.nodes.size()), cost, cost * pick(random, 1, 4), pick(random, 0, 2) * 5, is_backward, true, number});
    return static_cast<int>(graph.nodes.size()) - 1;
  };
  for (int layer = 0; layer < layers; ++layer) {
    const int number = layer > 0 && pick(random, 0, 9) == 0 ? layer - 1 : layer;
    const bool alone = training && pick(random, 0, 9) == 0;
    forward.push_back(alone ? -1 : add_node(false, number));
    backward.push_back(training && (alone || pick(random, 0, 9) > 0) ? add_node(true, number) : -1);
  }
  if (graph.hosts > 0 && pick(random, 0, 3) == 0) graph.nodes.front().device_can = false;
  for (int layer = 0; layer < layers; ++layer) {
    profiler::PlacementTensor tensor{forward[as_index(layer)], {}, copies ? pick(random, 0, 6) : 0};
    for (int later = layer + 1; later < layers; ++later) {
      if (pick(random, 0, 2) > 0) continue;
      const int consumer = forward[as_index(later)];
      if (consumer >= 0) tensor.consumers.push_back(consumer);
      const int from = backward[as_index(later)];
      const int to = backward[as_index(layer)];
      if (from >= 0 && to >= 0) graph.tensors.push_back({from, {to}, tensor.copy_ns});
      if (from >= 0 && pick(random, 0, 3) == 0) tensor.consumers.push_back(from);
    }
    if (tensor.producer >= 0) graph.tensors.push_back(tensor);
  }
  if (pick(random, 0, 2) == 0) graph.memory_bytes = pick(random, 10, 40);
  return graph;
}

void expect_valid(const profiler::PlacementGraph& graph, const LoadPartition& partition) {
  const Placement placement = placement_of(graph, partition);
  EXPECT_THAT(placement.part_of, ::testing::Each(::testing::Ge(0))) << graph.name;
  EXPECT_EQ(load_by_the_rules(graph, placement), partition.load_ns) << graph.name;
  std::size_t nodes = 0;
  int devices = 0;
  std::int64_t largest = 0;
  for (const LoadPart& part : partition.parts) {
    EXPECT_FALSE(part.nodes.empty()) << graph.name;
    nodes += part.nodes.size();
    devices += part.on_host ? 0 : 1;
    largest = std::max(largest, part.load_ns());
  }
  EXPECT_EQ(nodes, graph.nodes.size()) << graph.name;
  EXPECT_EQ(largest, partition.load_ns) << graph.name;
  EXPECT_LE(devices, graph.devices) << graph.name;
  EXPECT_LE(static_cast<int>(partition.parts.size()) - devices, graph.hosts) << graph.name;
  EXPECT_LE(partition.lower_bound_ns, partition.load_ns) << graph.name;
}

// `count` layers one after another, forward alone.
profiler::PlacementGraph chain(const std::vector<int>& times, int devices) {
  profiler::PlacementGraph graph;
  graph.devices = devices;
  for (std::size_t i = 0; i < times.size(); ++i) {
    graph.nodes.push_back({"layer" + std::to_string(i), times[i], 0, 1, false, true, -1});
    if (i > 0) graph.tensors.push_back({static_cast<int>(i) - 1, {static_cast<int>(i)}, 0});
  }
  return graph;
}

// One layer, `branches` of `length` layers beside each other, one layer.
profiler::PlacementGraph wide_graph(int branches, int length, int devices) {
  profiler::PlacementGraph graph = chain({10}, devices);
  graph.tensors.push_back({0, {}, 3});
  std::vector<int> ends;
  for (int branch = 0; branch < branches; ++branch) {
    int last = 0;
    for (int layer = 0; layer < length; ++layer) {
      graph.nodes.push_back({"", 5 + (branch * 7 + layer * 3) % 11, 0, 1, false, true, -1});
      const int node = static_cast<int>(graph.nodes.size()) - 1;
      if (last == 0)
        graph.tensors.front().consumers.push_back(node);
      else
        graph.tensors.push_back({last, {node}, 2});
      last = node;
    }
    ends.push_back(last);
  }
  graph.nodes.push_back({"", 10, 0, 1, false, true, -1});
  for (const int end : ends) graph.tensors.push_back({end, {static_cast<int>(graph.nodes.size()) - 1}, 2});
  return graph;
}

}  // namespace

struct Published {
  const char* file;
  double milliseconds;
};

class MaxLoadPublished : public ::testing::TestWithParam<Published> {};

TEST_P(MaxLoadPublished, IsTheExactContiguousValue) {
  const std::string path = testing::shared_data(std::string("placement/") + GetParam().file);
  if (path.empty()) {
    GTEST_SKIP() << "no published placement graphs here";
  }
  const profiler::PlacementGraph graph = profiler::read_placement_json(path);
  const LoadPartition partition = least_max_load(graph);
  expect_valid(graph, partition);
  EXPECT_TRUE(partition.exact());
  EXPECT_NEAR(static_cast<double>(partition.load_ns) * 1e-6, GetParam().milliseconds, 0.005);
}

// Inception-v3 was never finished by others; the value is ours, and proved.
INSTANTIATE_TEST_SUITE_P(Graphs, MaxLoadPublished,
                         ::testing::Values(Published{"bert24_training.json", 41.75}, Published{"gnmt_training.json", 107.00},
                                           Published{"resnet50_training.json", 78.63}, Published{"inceptionv3_training.json", 122.76}));

TEST(MaxLoad, EqualsBruteForceOnRandomGraphs) {
  int feasible = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const profiler::PlacementGraph graph = random_graph(seed);
    const std::int64_t least = brute_force(graph);
    if (least == kNever) {
      EXPECT_THROW((void)least_max_load(graph), Error) << graph.name;
      continue;
    }
    ++feasible;
    const LoadPartition partition = least_max_load(graph);
    expect_valid(graph, partition);
    EXPECT_EQ(partition.load_ns, least) << graph.name;
    EXPECT_TRUE(partition.exact()) << graph.name;
  }
  EXPECT_GT(feasible, 800);
}

TEST(MaxLoad, WithoutRoomForAllIdealsStaysValidAndBounded) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const profiler::PlacementGraph graph = random_graph(seed);
    LoadLimits limits;
    limits.ideals = 1 + static_cast<std::int64_t>(seed % 6);
    try {
      const LoadPartition partition = least_max_load(graph, limits);
      expect_valid(graph, partition);
      const std::int64_t least = least_max_load(graph).load_ns;
      EXPECT_LE(partition.lower_bound_ns, least) << graph.name;
      EXPECT_GE(partition.load_ns, least) << graph.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::infeasible) << graph.name;
    }
  }
}

TEST(MaxLoad, WideGraphIsSplitWellThoughItsIdealsAreTooMany) {
  const profiler::PlacementGraph graph = wide_graph(20, 10, 4);
  LoadLimits limits;
  limits.ideals = 20'000;
  const LoadPartition partition = least_max_load(graph, limits);
  expect_valid(graph, partition);
  EXPECT_LT(partition.gap(), 0.05);
  EXPECT_EQ(partition, least_max_load(graph, limits)) << "the same every time";
}

TEST(MaxLoad, ARequestToStopEndsWithASplitAndAnHonestBound) {
  const profiler::PlacementGraph graph = wide_graph(4, 6, 4);
  LoadLimits limits;
  limits.stop = [] { return true; };
  const LoadPartition stopped = least_max_load(graph, limits);
  expect_valid(graph, stopped);
  const LoadPartition exact = least_max_load(graph);
  EXPECT_TRUE(exact.exact());
  EXPECT_LE(stopped.lower_bound_ns, exact.load_ns);
  EXPECT_GE(stopped.load_ns, exact.load_ns);
  limits = {};
  limits.pairs = 1;
  expect_valid(graph, least_max_load(graph, limits));
}

TEST(MaxLoad, RefusesMoreDevicesAndHostsThanItsValuesHold) {
  profiler::PlacementGraph graph = chain(std::vector<int>(600, 1), 4096);
  graph.hosts = 4096;
  try {
    static_cast<void>(least_max_load(graph));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.problem().find("600 nodes on 600 devices and 600 hosts"), std::string::npos) << error.problem();
  }
}

TEST(MaxLoad, SplitsAChainAndStatesLoads) {
  // 4 3 | 5 2 | 6 with copies of 0: 7, 7, 6.
  const LoadPartition partition = least_max_load(chain({4, 3, 5, 2, 6}, 3));
  ASSERT_EQ(partition.parts.size(), 3U);
  EXPECT_EQ(partition.parts[0].nodes, (std::vector<int>{0, 1}));
  EXPECT_EQ(partition.parts[1].nodes, (std::vector<int>{2, 3}));
  EXPECT_EQ(partition.parts[2].nodes, (std::vector<int>{4}));
  EXPECT_EQ(partition.load_ns, 7);
  EXPECT_EQ(partition.gap(), 0);
}

TEST(MaxLoad, EveryPartnerOfACopyPaysOnce) {
  // a -> {b, c} with b, c on another device: both sides pay the one copy once.
  profiler::PlacementGraph graph = chain({10, 5, 5}, 2);
  graph.tensors = {{0, {1, 2}, 2}};
  const LoadPartition partition = least_max_load(graph);
  ASSERT_EQ(partition.parts.size(), 2U);
  EXPECT_EQ(partition.load_ns, 12);
  EXPECT_EQ(partition.parts[0].copy_ns, 2);
  EXPECT_EQ(partition.parts[1].copy_ns, 2);
}

TEST(MaxLoad, TakesFewerCopiesWhereTheLoadAllows) {
  // The last layer is 20 long: 1 1 1 may be cut anywhere, and is cut nowhere.
  profiler::PlacementGraph graph = chain({1, 1, 1, 20}, 4);
  for (profiler::PlacementTensor& tensor : graph.tensors) tensor.copy_ns = 1;
  const LoadPartition partition = least_max_load(graph);
  EXPECT_EQ(partition.load_ns, 21);
  EXPECT_EQ(partition.parts.size(), 2U);
}

TEST(MaxLoad, NoFitIsInfeasible) {
  profiler::PlacementGraph graph = chain({1, 1, 1, 1}, 3);
  graph.memory_bytes = 1;
  try {
    (void)least_max_load(graph);
    FAIL() << "four bytes on three devices of one";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
    EXPECT_EQ(error.problem(), "no split over the devices fits into their memory");
  }
  graph.memory_bytes = 2;
  EXPECT_EQ(least_max_load(graph).load_ns, 2);
  graph.nodes[2].device_can = false;
  EXPECT_THROW((void)least_max_load(graph), Error);
}

TEST(MaxLoad, RefusesWhatIsNoGraph) {
  const auto refusal = [](const std::function<void(profiler::PlacementGraph&)>& spoil) -> std::string {
    profiler::PlacementGraph graph = chain({1, 2, 3}, 2);
    spoil(graph);
    try {
      (void)least_max_load(graph);
    } catch (const Error& error) {
      return error.problem();
    }
    return "";
  };
  EXPECT_EQ(refusal([](profiler::PlacementGraph& graph) { graph.nodes.clear(); }), "the graph has no nodes");
  EXPECT_EQ(refusal([](profiler::PlacementGraph& graph) { graph.devices = 0; }), "the graph has no device to place nodes on");
  EXPECT_EQ(refusal([](profiler::PlacementGraph& graph) { graph.hosts = -1; }), "the graph has no device to place nodes on");
  EXPECT_EQ(refusal([](profiler::PlacementGraph& graph) { graph.nodes[1].device_ns = -1; }),
            "node layer1 has a cost that is negative or too large");
  EXPECT_EQ(refusal([](profiler::PlacementGraph& graph) { graph.nodes[1].bytes = kNever; }),
            "node layer1 has a cost that is negative or too large");
  EXPECT_EQ(refusal([](profiler::PlacementGraph& graph) { graph.tensors[0].copy_ns = -1; }), "a copy from layer0 is negative or too long");
  EXPECT_EQ(refusal([](profiler::PlacementGraph& graph) { graph.tensors[0].producer = 3; }), "a tensor names a node that is not there");
  EXPECT_EQ(refusal([](profiler::PlacementGraph& graph) { graph.tensors[0].consumers = {-1}; }), "a tensor names a node that is not there");
  EXPECT_EQ(refusal([](profiler::PlacementGraph& graph) { graph.tensors.push_back({2, {0}, 0}); }), "the tensors make a cycle");
  EXPECT_EQ(refusal([](profiler::PlacementGraph& graph) { graph.nodes[0].backward = true; }),
            "backward node layer0 feeds forward node layer1");
}

}  // namespace mptune::planner
