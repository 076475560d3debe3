#include "profiler/trace/formats/layer_graph.h"

#include <algorithm>
#include <filesystem>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/formats/graph_nodes.h"

namespace mptune::profiler {
namespace {

constexpr std::size_t kMostNameShown = 80;

bool is_input(const GraphNode& node) {
  return node.from.empty() && node.description.starts_with("Input");
}

bool in_place(const GraphNode& node) {
  return node.description.find("inplace") != std::string::npos && node.description.find("inplace=False") == std::string::npos;
}

// Returns the index of the input that an in-place node overwrites: its newest one, as in `out += shortcut`. Requires: it has inputs.
std::size_t overwritten(const GraphNode& node) {
  return as_index(node.from.back());
}

bool is_view(const GraphNode& node) {
  return node.description.starts_with("__getitem__");
}

// Returns "Conv2d" for "Conv2d(3, 64, ...)".
std::string kind_of_node(const GraphNode& node) {
  return node.description.substr(0, node.description.find('('));
}

std::vector<GraphNode> without_inputs(const std::vector<GraphNode>& nodes) {
  std::vector<int> place;
  std::vector<GraphNode> kept;
  for (const GraphNode& node : nodes) {
    place.push_back(is_input(node) ? -1 : static_cast<int>(kept.size()));
    if (is_input(node)) continue;
    kept.push_back(node);
    std::vector<int>& from = kept.back().from;
    for (int& producer : from) producer = place[as_index(producer)];
    std::erase(from, -1);
  }
  return kept;
}

ProfileLayer layer_of_node(const GraphNode& node) {
  ProfileLayer layer;
  layer.name = node.name;
  layer.kind = kind_of_node(node);
  layer.modules = {node.name + " " + layer.kind};
  layer.parameters = node.parameters_bytes / 4;
  layer.parameters_bytes = node.parameters_bytes;
  layer.batch_statistics = layer.kind.starts_with("BatchNorm");
  return layer;
}

LayerCosts cost_of_node(const GraphNode& node) {
  LayerCost cost;
  cost.samples = 1;
  cost.forward = exactly(node.forward_s);
  cost.backward = exactly(node.backward_s);
  cost.output_bytes = node.activation_bytes;
  cost.saved_activation_bytes = in_place(node) || is_view(node) ? 0 : node.activation_bytes;
  return {{cost}};
}

void add_edges(const std::vector<GraphNode>& nodes, Profile& profile) {
  std::vector<bool> trained;  // the node's output depends on parameters
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    const GraphNode& node = nodes[as_index(n)];
    bool depends = node.parameters_bytes > 0;
    for (const int producer : node.from) {
      const auto from = as_index(producer);
      profile.edges.push_back({producer, n, nodes[from].activation_bytes, 0, trained[from]});
      depends = depends || trained[from];
    }
    trained.push_back(depends);
  }
}

// Truncates between UTF-8 characters: all bytes of a character but the first are 10xxxxxx.
std::string short_name(const GraphNode& node) {
  if (node.name.size() <= kMostNameShown) return node.name;
  std::size_t size = kMostNameShown;
  while (size > 0 && (static_cast<unsigned char>(node.name[size]) & 0xC0U) == 0x80U) --size;
  return node.name.substr(0, size) + "...";
}

// Adds one entry per cut, naming the first node that forbids it. One entry per pair could be quadratic in the nodes.
void forbid_cuts(const std::vector<GraphNode>& nodes, Profile& profile) {
  std::vector<const GraphNode*> forbids(nodes.size(), nullptr);  // by cut
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].from.empty() || !in_place(nodes[n])) continue;
    for (std::size_t cut = overwritten(nodes[n]) + 1; cut <= n; ++cut)
      if (!forbids[cut]) forbids[cut] = &nodes[n];
  }
  for (std::size_t cut = 1; cut < nodes.size(); ++cut) {
    if (!forbids[cut]) continue;
    const std::string reason =
        short_name(*forbids[cut]) + " works in place on the output of " + short_name(nodes[overwritten(*forbids[cut])]);
    profile.forbidden_cuts.push_back({static_cast<int>(cut), reason});
  }
}

}  // namespace

Profile read_layer_graph(TextInput& input) {
  const std::vector<GraphNode> nodes = without_inputs(read_graph_nodes(input));
  if (nodes.empty()) throw Error("the graph has inputs but no layers", input.where(), "give a graph.txt with the model's layers");
  Profile profile;
  profile.classes.emplace_back().name = "device";
  for (const GraphNode& node : nodes) {
    profile.layers.push_back(layer_of_node(node));
    profile.classes.front().layers.push_back(cost_of_node(node));
  }
  add_edges(nodes, profile);
  forbid_cuts(nodes, profile);
  return profile;
}

Profile read_layer_graph(const std::string& path) {
  TextInput input = open_text(path);
  Profile profile = read_layer_graph(input);
  const std::string name = std::filesystem::path(path).filename().string();
  profile.model = name.substr(0, std::min(name.find(".graph"), name.find(".txt")));
  return profile;
}

}  // namespace mptune::profiler
