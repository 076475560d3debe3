#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "profiler/model/program/exported_program.h"
#include "profiler/model/program/sample_axes.h"

namespace mptune::profiler {

/// Random numbers that a node draws.
struct NodeDraws {
  bool random = false;
  SampleAxis axis;      ///< sample axis of the numbers; valid if `refused` is empty
  std::string refused;  ///< why they would depend on the partition ("... can't be drawn sample by sample"), "" if they do not
};

/// Finds what a node draws, from the operator's tag and arguments that switch randomness off (train=False, probability 0).
/// `axes`: sample_axes of the node's graph. Requires: `node` calls `operation`.
[[nodiscard]] NodeDraws draws_of(const c10::OperatorHandle& operation, const ProgramNode& node,
                                 const std::vector<std::optional<SampleAxis>>& axes);

}  // namespace mptune::profiler
