#pragma once

#include <functional>
#include <map>
#include <string>

#include "profiler/model/exported/layer.h"

namespace mptune::tuner {

/// Keeps the outputs of each node in a range of an exported program during one run.
class WatchedNodes {
 public:
  explicit WatchedNodes(profiler::ExportedRange range) : range_(std::move(range)) {}

  /// Pass it to one run. Requires: this object outlives that run.
  [[nodiscard]] profiler::NodeObserver observer();

  /// Returns the first node whose tensors differ from another run's by more than `tolerance`, with its module and Python line; "" for none.
  /// `part_of` selects from a tensor of this run the samples that the other run has.
  [[nodiscard]] std::string first_difference(const WatchedNodes& other, double tolerance,
                                             const std::function<at::Tensor(const at::Tensor&)>& part_of = nullptr) const;

 private:
  profiler::ExportedRange range_;
  std::map<int, Tensors> made_;
};

/// Returns the machine epsilon of a half-precision type, and 0 for any other type. For a graph, returns the largest among the types of its
/// values.
[[nodiscard]] double epsilon_of(at::ScalarType type);
[[nodiscard]] double epsilon_of(const profiler::ProgramGraph& graph);

/// Describes the last operator of the range that reads a parameter, with its module and Python line; "" for none.
[[nodiscard]] std::string reader_of(const profiler::ExportedRange& range, const std::string& parameter);

}  // namespace mptune::tuner
