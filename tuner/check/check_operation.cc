#include "tuner/check/check_operation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <variant>

#include "profiler/base/index.h"
#include "tuner/check/compared_tensors.h"

namespace mptune::tuner {
namespace {

/// Returns true for operators such as aten.empty, whose result is uninitialised memory.
bool makes_uninitialised(const profiler::ProgramNode& node) {
  return node.target.find(".empty") != std::string::npos || node.target.find(".new_empty") != std::string::npos;
}

}  // namespace

double epsilon_of(at::ScalarType type) {
  return type == at::kBFloat16 ? 7.8e-3 : type == at::kHalf ? 9.8e-4 : 0;
}

double epsilon_of(const profiler::ProgramGraph& graph) {
  double epsilon = 0;
  for (const profiler::ValueDescription& value : graph.values)
    if (value.tensor) epsilon = std::max(epsilon, epsilon_of(profiler::scalar_type_of(value.tensor->scalar_type)));
  for (const profiler::ProgramGraph& region : graph.graphs) epsilon = std::max(epsilon, epsilon_of(region));
  return epsilon;
}

profiler::NodeObserver WatchedNodes::observer() {
  return [this](int node, const profiler::ProgramValues& values) {
    if (node < range_.first || node >= range_.last) return;
    Tensors& made = made_[node];
    for (const int value : range_.program->graph.makes(node)) {
      const c10::IValue& result = values[as_index(value)];
      made.push_back(result.isTensor() && result.toTensor().defined() ? result.toTensor().detach().clone() : at::Tensor());
    }
  };
}

std::string WatchedNodes::first_difference(const WatchedNodes& other, double tolerance,
                                           const std::function<at::Tensor(const at::Tensor&)>& part_of) const {
  for (const auto& [node, tensors] : made_) {
    const auto theirs = other.made_.find(node);
    if (theirs == other.made_.end() || makes_uninitialised(range_.program->program.graph.nodes[as_index(node)])) continue;
    for (std::size_t i = 0; i < std::min(tensors.size(), theirs->second.size()); ++i) {
      const at::Tensor ours = part_of && tensors[i].defined() ? part_of(tensors[i]) : tensors[i];
      const bool comparable =
          ours.defined() && theirs->second[i].defined() && (!part_of || (ours.dim() > 0 && ours.sizes() == theirs->second[i].sizes()));
      if (comparable && relative_difference(ours, theirs->second[i]) > tolerance) return range_.program->graph.describe(node);
    }
  }
  return "";
}

std::string reader_of(const profiler::ExportedRange& range, const std::string& parameter) {
  const profiler::ExportedProgram& program = range.program->program;
  int value = -1;
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    if (const auto* input = std::get_if<profiler::ProgramValue>(&program.graph.inputs[i]);
        input != nullptr && program.inputs[i].name == parameter)
      value = input->index;
  for (int node = range.last - 1; node >= range.first; --node) {
    const std::vector<int>& reads = range.program->graph.reads(node);
    if (std::find(reads.begin(), reads.end(), value) != reads.end()) return range.program->graph.describe(node);
  }
  return "";
}

}  // namespace mptune::tuner
