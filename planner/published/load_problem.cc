#include "planner/published/load_problem.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

using GroupEdges = std::set<std::pair<int, int>>;

[[noreturn]] void refuse_graph(const profiler::PlacementGraph& graph, const std::string& what) {
  throw Error(what, graph.name.empty() ? "the graph" : graph.name, "mend the graph");
}

std::size_t as_size(int index) {
  return as_index(index);
}

void check_nodes(const profiler::PlacementGraph& graph) {
  if (graph.nodes.empty()) refuse_graph(graph, "the graph has no nodes");
  if (graph.devices < 0 || graph.hosts < 0 || graph.devices + graph.hosts < 1)
    refuse_graph(graph, "the graph has no device to place nodes on");
  // Sums of costs stay far from the largest number.
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 8 / static_cast<std::int64_t>(graph.nodes.size());
  for (const profiler::PlacementNode& node : graph.nodes) {
    for (const std::int64_t cost : {node.device_ns, node.host_ns, node.bytes})
      if (cost < 0 || cost > most) refuse_graph(graph, "node " + node.name + " has a cost that is negative or too large");
  }
}

void check_tensors(const profiler::PlacementGraph& graph) {
  const auto known = [&](int node) { return node >= 0 && node < static_cast<int>(graph.nodes.size()); };
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 8 / static_cast<std::int64_t>(graph.tensors.size() + 1);
  for (const profiler::PlacementTensor& tensor : graph.tensors) {
    if (!known(tensor.producer) || !std::ranges::all_of(tensor.consumers, known))
      refuse_graph(graph, "a tensor names a node that is not there");
    const profiler::PlacementNode& producer = graph.nodes[as_size(tensor.producer)];
    if (tensor.copy_ns < 0 || tensor.copy_ns > most) refuse_graph(graph, "a copy from " + producer.name + " is negative or too long");
    for (const int consumer : tensor.consumers) {
      const profiler::PlacementNode& node = graph.nodes[as_size(consumer)];
      if (producer.backward && !node.backward) refuse_graph(graph, "backward node " + producer.name + " feeds forward node " + node.name);
    }
  }
}

// Returns indices in an order that the edges allow. The list is shorter where the edges make a cycle.
std::vector<int> topological(int count, const GroupEdges& edges) {
  std::vector<std::vector<int>> after(as_size(count));
  std::vector<int> waiting(as_size(count), 0);
  for (const auto& [from, to] : edges) {
    after[as_size(from)].push_back(to);
    ++waiting[as_size(to)];
  }
  std::set<int> ready;
  for (int i = 0; i < count; ++i)
    if (waiting[as_size(i)] == 0) ready.insert(i);
  std::vector<int> order;
  while (!ready.empty()) {
    const int next = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(next);
    for (const int follower : after[as_size(next)])
      if (--waiting[as_size(follower)] == 0) ready.insert(follower);
  }
  return order;
}

void check_acyclic(const profiler::PlacementGraph& graph) {
  GroupEdges edges;
  for (const profiler::PlacementTensor& tensor : graph.tensors)
    for (const int consumer : tensor.consumers) edges.emplace(tensor.producer, consumer);
  if (topological(static_cast<int>(graph.nodes.size()), edges).size() < graph.nodes.size()) refuse_graph(graph, "the tensors make a cycle");
}

// Disjoint sets of nodes, each known by its smallest member.
class NodeSets {
 public:
  explicit NodeSets(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int node) {
    while (parent_[as_size(node)] != node) node = parent_[as_size(node)] = parent_[as_size(parent_[as_size(node)])];
    return node;
  }
  void unite(int one, int other) {
    const auto [low, high] = std::minmax({find(one), find(other)});
    parent_[as_size(high)] = low;
  }

 private:
  std::vector<int> parent_;
};

NodeSets colocated_sets(const profiler::PlacementGraph& graph) {
  NodeSets sets(graph.nodes.size());
  std::map<int, int> first;
  for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
    const int number = graph.nodes[as_size(node)].colocated;
    if (number >= 0) sets.unite(first.emplace(number, node).first->second, node);
  }
  return sets;
}

// Returns which nodes may not sit after which: along forward tensors, and against those between backward nodes where one end is colocated
// with no forward node.
GroupEdges node_precedence(const profiler::PlacementGraph& graph, NodeSets& colocated) {
  std::vector<bool> has_forward(graph.nodes.size(), false);
  for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node)
    if (!graph.nodes[as_size(node)].backward) has_forward[as_size(colocated.find(node))] = true;
  GroupEdges edges;
  for (const profiler::PlacementTensor& tensor : graph.tensors) {
    const int from = tensor.producer;
    for (const int to : tensor.consumers) {
      const bool alone = !has_forward[as_size(colocated.find(from))] || !has_forward[as_size(colocated.find(to))];
      if (!graph.nodes[as_size(to)].backward)
        edges.emplace(from, to);
      else if (graph.nodes[as_size(from)].backward && alone)
        edges.emplace(to, from);
    }
  }
  return edges;
}

GroupEdges set_precedence(const GroupEdges& nodes, NodeSets& sets) {
  GroupEdges edges;
  for (const auto& [from, to] : nodes)
    if (sets.find(from) != sets.find(to)) edges.emplace(sets.find(from), sets.find(to));
  return edges;
}

// Makes one depth-first walk from `start` over what is not `seen`; appends in the order of leaving.
void walk_sets(int start, const std::map<int, std::vector<int>>& next, std::set<int>& seen, std::vector<int>& left) {
  std::vector<std::pair<int, std::size_t>> path;
  if (seen.insert(start).second) path.emplace_back(start, 0);
  while (!path.empty()) {
    auto& [node, edge] = path.back();
    const auto found = next.find(node);
    if (found == next.end() || edge == found->second.size()) {
      left.push_back(node);
      path.pop_back();
      continue;
    }
    const int follower = found->second[edge++];
    if (seen.insert(follower).second) path.emplace_back(follower, 0);
  }
}

// Sets on a cycle become one (Kosaraju).
void unite_cycles(const GroupEdges& edges, NodeSets& sets) {
  std::map<int, std::vector<int>> after;
  std::map<int, std::vector<int>> before;
  for (const auto& [from, to] : edges) {
    after[from].push_back(to);
    before[to].push_back(from);
  }
  std::set<int> seen;
  std::vector<int> left;
  for (const auto& [node, followers] : after) walk_sets(node, after, seen, left);
  seen.clear();
  for (auto node = left.rbegin(); node != left.rend(); ++node) {
    std::vector<int> component;
    walk_sets(*node, before, seen, component);
    for (const int member : component) sets.unite(*node, member);
  }
}

using Nets = std::map<std::vector<int>, std::int64_t>;

Nets nets_of_sets(const profiler::PlacementGraph& graph, NodeSets& sets) {
  Nets nets;
  for (const profiler::PlacementTensor& tensor : graph.tensors) {
    std::vector<int> ends = {sets.find(tensor.producer)};
    for (const int consumer : tensor.consumers) ends.push_back(sets.find(consumer));
    std::ranges::sort(ends);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    if (ends.size() > 1 && tensor.copy_ns > 0) nets[ends] += tensor.copy_ns;
  }
  return nets;
}

using Neighbours = std::map<int, std::set<int>>;

// True if all of `others` except `node` are met from it.
bool reaches(int node, const std::set<int>& others, const Neighbours& next) {
  std::set<int> missing = others;
  missing.erase(node);
  std::set<int> seen = {node};
  std::vector<int> waiting = {node};
  while (!waiting.empty() && !missing.empty()) {
    const auto found = next.find(waiting.back());
    waiting.pop_back();
    if (found == next.end()) continue;
    for (const int follower : found->second) {
      missing.erase(follower);
      if (seen.insert(follower).second) waiting.push_back(follower);
    }
  }
  return missing.empty();
}

// Returns the sets that cost nothing wherever they sit, except for copies.
std::set<int> free_sets(const profiler::PlacementGraph& graph, NodeSets& sets) {
  std::set<int> all;
  std::set<int> costly;
  for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
    const profiler::PlacementNode& cost = graph.nodes[as_size(node)];
    all.insert(sets.find(node));
    const bool free = cost.device_ns == 0 && cost.host_ns == 0 && cost.device_can && (cost.bytes == 0 || graph.memory_bytes == 0);
    if (!free) costly.insert(sets.find(node));
  }
  std::erase_if(all, [&](int set) { return costly.contains(set); });
  return all;
}

// A set that costs nothing may follow its last predecessor or await its first successor, if that one takes part in all its copies; no
// device then pays more. Unites what it can; returns false where there is nothing to unite.
bool unite_free_sets(const profiler::PlacementGraph& graph, const GroupEdges& edges, NodeSets& sets) {
  Neighbours after;
  Neighbours before;
  for (const auto& [from, to] : set_precedence(edges, sets)) {
    after[from].insert(to);
    before[to].insert(from);
  }
  std::map<int, std::vector<const std::vector<int>*>> nets;
  const Nets all_nets = nets_of_sets(graph, sets);
  for (const auto& [ends, copy_ns] : all_nets)
    for (const int one : ends) nets[one].push_back(&ends);
  const auto in_all_nets = [&](int other, int set) {
    return std::ranges::all_of(nets[set], [&](const auto* ends) { return std::ranges::binary_search(*ends, other); });
  };
  std::set<int> united;
  for (const int set : free_sets(graph, sets)) {
    for (const Neighbours* next : {&before, &after}) {
      const auto found = next->find(set);
      if (united.contains(set) || found == next->end()) continue;
      for (const int other : found->second) {
        if (united.contains(other) || !in_all_nets(other, set) || !reaches(other, found->second, *next)) continue;
        sets.unite(set, other);
        united.insert({set, other});
        break;
      }
    }
  }
  return !united.empty();
}

LoadProblem problem_of(const profiler::PlacementGraph& graph, const GroupEdges& edges, NodeSets& sets) {
  LoadProblem problem;
  problem.devices = std::min(graph.devices, static_cast<int>(graph.nodes.size()));  // no part is empty
  problem.hosts = std::min(graph.hosts, static_cast<int>(graph.nodes.size()));
  problem.memory_bytes = graph.memory_bytes;
  std::map<int, int> group_of;
  for (const int node : topological(static_cast<int>(graph.nodes.size()), edges))
    if (sets.find(node) == node) group_of.emplace(node, static_cast<int>(group_of.size()));
  problem.groups.resize(group_of.size());
  for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
    const profiler::PlacementNode& cost = graph.nodes[as_size(node)];
    LoadGroup& group = problem.groups[as_size(group_of.at(sets.find(node)))];
    group.nodes.push_back(node);
    group.device_ns += cost.device_ns;
    group.host_ns += cost.host_ns;
    group.bytes += cost.bytes;
    group.device_can = group.device_can && cost.device_can;
  }
  problem.before.resize(problem.groups.size());
  problem.after.resize(problem.groups.size());
  for (const auto& [from, to] : edges) {
    problem.after[as_size(group_of.at(from))].push_back(group_of.at(to));
    problem.before[as_size(group_of.at(to))].push_back(group_of.at(from));
  }
  problem.nets_of.resize(problem.groups.size());
  for (const auto& [ends, copy_ns] : nets_of_sets(graph, sets)) {
    LoadNet net{{}, copy_ns};
    for (const int one : ends) net.groups.push_back(group_of.at(one));
    std::ranges::sort(net.groups);
    for (const int group : net.groups) problem.nets_of[as_size(group)].push_back(static_cast<int>(problem.nets.size()));
    problem.nets.push_back(net);
  }
  return problem;
}

}  // namespace

std::int64_t LoadProblem::device_ns() const {
  return std::accumulate(groups.begin(), groups.end(), std::int64_t{0},
                         [](std::int64_t sum, const LoadGroup& group) { return sum + group.device_ns; });
}

LoadProblem load_problem(const profiler::PlacementGraph& given) {
  check_nodes(given);
  check_tensors(given);
  check_acyclic(given);
  profiler::PlacementGraph graph = given;
  const auto add_bytes = [](std::int64_t sum, const profiler::PlacementNode& node) { return sum + node.bytes; };
  const std::int64_t bytes = std::accumulate(graph.nodes.begin(), graph.nodes.end(), std::int64_t{0}, add_bytes);
  if (bytes <= graph.memory_bytes) graph.memory_bytes = 0;  // a cap that no part can reach
  NodeSets sets = colocated_sets(graph);
  const GroupEdges edges = node_precedence(graph, sets);
  unite_cycles(set_precedence(edges, sets), sets);
  while (unite_free_sets(graph, edges, sets)) {
  }
  return problem_of(graph, set_precedence(edges, sets), sets);
}

}  // namespace mptune::planner
