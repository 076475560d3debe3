#include "profiler/model/exported/input_classes.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

/// Returns "to" for "torch.ops.aten.to.dtype".
std::string_view operator_of(const ProgramNode& node) {
  constexpr std::string_view kPrefix = "torch.ops.aten.";
  std::string_view name = node.target;
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  return name.substr(0, name.find('.'));
}

/// True for operators that return numbers of their first argument, and others only where a loss ignores them (padding by -100).
bool hands_on(std::string_view name) {
  static constexpr std::array kNames = {"alias",   "clone",   "constant_pad_nd", "contiguous", "detach", "expand",    "flatten",
                                        "pad",     "permute", "reshape",         "select",     "slice",  "squeeze",   "t",
                                        "to",      "type_as", "transpose",       "unflatten",  "unfold", "unsqueeze", "view",
                                        "view_as", "_to_copy"};
  return std::ranges::find(kNames, name) != kNames.end();
}

bool is_value(const ProgramNode& node, std::size_t argument, const std::set<int>& values) {
  if (argument >= node.inputs.size()) return false;
  const auto* value = std::get_if<ProgramValue>(&node.inputs[argument].argument);
  return value != nullptr && values.contains(value->index);
}

/// Returns the size of a dimension of a node's argument; 0 if it is not fixed.
std::int64_t size_of(const ExportedProgram& program, const ProgramNode& node, std::size_t argument, std::int64_t dimension) {
  const auto* value = argument < node.inputs.size() ? std::get_if<ProgramValue>(&node.inputs[argument].argument) : nullptr;
  if (value == nullptr) return 0;
  const auto& about = program.graph.values[as_index(value->index)].tensor;
  if (!about) return 0;
  if (dimension < 0) dimension += std::ssize(about->sizes);
  if (dimension < 0 || dimension >= std::ssize(about->sizes)) return 0;
  return about->sizes[as_index(dimension)].value({}).value_or(0);
}

std::int64_t number_of(const ProgramNode& node, std::size_t argument) {
  const auto* number = argument < node.inputs.size() ? std::get_if<std::int64_t>(&node.inputs[argument].argument) : nullptr;
  return number == nullptr ? 0 : *number;
}

/// Returns the classes of the second argument, whose first argument holds a number per class: (classes) or (samples, classes, ...).
std::int64_t classes_of_loss(const ExportedProgram& program, const ProgramNode& node) {
  const auto* value = std::get_if<ProgramValue>(&node.inputs[0].argument);
  const auto& about = value == nullptr ? std::optional<TensorDescription>() : program.graph.values[as_index(value->index)].tensor;
  return about ? size_of(program, node, 0, about->sizes.size() == 1 ? 0 : 1) : 0;
}

/// Returns the classes of `values` in a node; 0 if the node says nothing about them.
std::int64_t classes_in(const ExportedProgram& program, const ProgramNode& node, const std::set<int>& values) {
  const std::string_view name = operator_of(node);
  if (name == "one_hot") return is_value(node, 0, values) ? std::max<std::int64_t>(0, number_of(node, 1)) : 0;
  if (name == "gather" || name == "index_select") return is_value(node, 2, values) ? size_of(program, node, 0, number_of(node, 1)) : 0;
  if (!is_value(node, 1, values)) return 0;
  if (name == "embedding" || name == "embedding_bag") return size_of(program, node, 0, 0);
  if (name == "cross_entropy_loss" || name.starts_with("nll_loss")) return classes_of_loss(program, node);
  return 0;
}

}  // namespace

std::int64_t classes_of_input(const ExportedProgram& program, int value) {
  std::set<int> values{value};
  std::int64_t least = 0;
  for (const ProgramNode& node : program.graph.nodes) {
    if (hands_on(operator_of(node)) && is_value(node, 0, values))
      for (const ProgramArgument& output : node.outputs) each_value(output, [&](int made) { values.insert(made); });
    const std::int64_t classes = classes_in(program, node, values);
    if (classes > 0) least = least == 0 ? classes : std::min(least, classes);
  }
  return least;
}

}  // namespace mptune::profiler
