#pragma once

#include <functional>
#include <map>
#include <string>

#include "profiler/exported/layer.h"

namespace mptune::tuner {

/// What each node of a stretch of an exported program makes in one run.
class WatchedNodes {
 public:
  explicit WatchedNodes(profiler::ExportedRange range) : range_(std::move(range)) {}

  /// Give it to a run; this object outlives it.
  [[nodiscard]] profiler::NodeObserver observer();

  /// The first node whose tensors differ from another run's by more than `tolerance`, described with module and Python line; "" for none.
  /// `part_of` takes from one of our tensors what the other run has of it.
  [[nodiscard]] std::string first_difference(const WatchedNodes& other, double tolerance,
                                             const std::function<at::Tensor(const at::Tensor&)>& part_of = nullptr) const;

 private:
  profiler::ExportedRange range_;
  std::map<int, Tensors> made_;
};

/// The rounding of the least exact type of half precision that a graph computes with; 0 without any.
[[nodiscard]] double epsilon_of(at::ScalarType type);
[[nodiscard]] double epsilon_of(const profiler::ProgramGraph& graph);

/// The last operator of the range that reads a parameter, described likewise; "" for none.
[[nodiscard]] std::string reader_of(const profiler::ExportedRange& range, const std::string& parameter);

}  // namespace mptune::tuner
