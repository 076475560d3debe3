#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "mptune/profiler/program/exported_program.h"
#include "mptune/profiler/program/sample_axes.h"

namespace mptune {

/// What a node draws at random.
struct NodeDraws {
  bool random = false;
  SampleAxis axis;      ///< of the numbers drawn, where `refused` is empty
  std::string refused;  ///< why they would depend on the partition, "" where they don't: "... can't be drawn sample by sample"
};

/// Looks at the operator's tag and at arguments that switch its randomness off (train=False, a probability of 0). `axes`: sample_axes of
/// the node's graph. Requires: `node` calls `operation`.
[[nodiscard]] NodeDraws draws_of(const c10::OperatorHandle& operation, const ProgramNode& node,
                                 const std::vector<std::optional<SampleAxis>>& axes);

}  // namespace mptune
