#include "profiler/model/exported/flat_regions.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

constexpr std::size_t kRegion = 1, kArguments = 2;  // positions among the node's inputs; the first says whether gradients are on

/// Changes the values and regions that an argument names.
template <class OfValue, class OfRegion>
void rename(ProgramArgument& argument, const OfValue& of_value, const OfRegion& of_region) {
  const auto value = [&](ProgramValue& named) {
    if (named.index >= 0) named.index = of_value(named.index);
  };
  const auto numbers = [&](auto* list) {
    if (list == nullptr) return;
    for (auto& number : *list)
      if (number.value) value(*number.value);
  };
  if (auto* one = std::get_if<ProgramValue>(&argument)) value(*one);
  if (auto* list = std::get_if<ProgramTensors>(&argument)) std::ranges::for_each(*list, value);
  numbers(std::get_if<ProgramInts>(&argument));
  numbers(std::get_if<ProgramFloats>(&argument));
  numbers(std::get_if<ProgramBools>(&argument));
  if (auto* region = std::get_if<ProgramRegion>(&argument)) region->index = of_region(region->index);
}

template <class OfValue, class OfRegion>
void rename(ProgramNode& node, const OfValue& of_value, const OfRegion& of_region) {
  for (NamedArgument& input : node.inputs) rename(input.argument, of_value, of_region);
  for (ProgramArgument& output : node.outputs) rename(output, of_value, of_region);
}

std::vector<int> values_of(const std::vector<ProgramArgument>& arguments) {
  std::vector<int> values;
  for (const ProgramArgument& argument : arguments) each_value(argument, [&](int value) { values.push_back(value); });
  return values;
}

/// Returns the argument as a value; -1 for everything else.
int value_of(const ProgramArgument& argument) {
  const auto* value = std::get_if<ProgramValue>(&argument);
  return value == nullptr ? -1 : value->index;
}

class Flattened {
 public:
  explicit Flattened(ProgramGraph graph) : graph_(std::move(graph)), same_(graph_.values.size()) {
    for (std::size_t i = 0; i < same_.size(); ++i) same_[i] = static_cast<int>(i);
  }

  ProgramGraph graph() && {
    std::vector<ProgramNode> nodes = std::exchange(graph_.nodes, {});
    for (ProgramNode& node : nodes) {
      rename(
          node, [&](int value) { return same_[as_index(value)]; }, [](int region) { return region; });
      if (!put_region(node)) graph_.nodes.push_back(std::move(node));
    }
    for (ProgramArgument& output : graph_.outputs)
      rename(
          output, [&](int value) { return same_[as_index(value)]; }, [](int region) { return region; });
    return std::move(graph_);
  }

 private:
  /// Puts a region's nodes in place of `node`. Returns false if the node is not a region of this kind.
  bool put_region(const ProgramNode& node) {
    if (node.target != "torch.ops.higher_order.wrap_with_set_grad_enabled" || node.inputs.size() < kArguments) return false;
    const auto* enabled = std::get_if<bool>(&node.inputs[0].argument);
    const auto* index = std::get_if<ProgramRegion>(&node.inputs[kRegion].argument);
    if (enabled == nullptr || index == nullptr) return false;
    ProgramGraph region = Flattened(graph_.graphs[as_index(index->index)]).graph();
    const auto places = places_of(node, region);
    if (!places) return false;
    const auto first = static_cast<int>(graph_.graphs.size());
    for (ProgramGraph& inner : region.graphs) graph_.graphs.push_back(std::move(inner));
    for (ProgramNode& inner : region.nodes) {
      rename(
          inner, [&](int value) { return (*places)[as_index(value)]; }, [&](int of) { return first + of; });
      inner.without_gradients = inner.without_gradients || !*enabled;
      if (inner.module.empty()) inner.module = node.module;
      graph_.nodes.push_back(std::move(inner));
    }
    return true;
  }

  /// Returns, for each value of the region, the value that it becomes here; nullopt if that is not known.
  std::optional<std::vector<int>> places_of(const ProgramNode& node, const ProgramGraph& region) {
    if (node.inputs.size() - kArguments != region.inputs.size()) return std::nullopt;
    std::vector<int> places(region.values.size(), -1);
    for (std::size_t i = 0; i < region.inputs.size(); ++i) {
      const int inner = value_of(region.inputs[i]), here = value_of(node.inputs[kArguments + i].argument);
      if (inner < 0 || here < 0) return std::nullopt;
      places[as_index(inner)] = here;
    }
    const std::vector<int> results = values_of(region.outputs), made = values_of(node.outputs);
    if (results.size() != made.size() || results.size() < region.outputs.size()) return std::nullopt;
    for (std::size_t i = 0; i < results.size(); ++i) {
      int& place = places[as_index(results[i])];
      // What the region was given, or returns twice, is the same value from here on.
      if (place < 0)
        place = made[i];
      else
        same_[as_index(made[i])] = place;
    }
    for (std::size_t value = 0; value < places.size(); ++value)
      if (places[value] < 0) places[value] = copied(region.values[value]);
    return places;
  }

  int copied(ValueDescription value) {
    value.name = "region" + std::to_string(graph_.values.size()) + "." + value.name;
    graph_.values.push_back(std::move(value));
    same_.push_back(static_cast<int>(graph_.values.size()) - 1);
    return same_.back();
  }

  ProgramGraph graph_;
  std::vector<int> same_;  ///< by value of the graph: the value that it is
};

}  // namespace

ExportedProgram with_flat_regions(ExportedProgram program) {
  program.graph = Flattened(std::move(program.graph)).graph();
  return program;
}

}  // namespace mptune::profiler
