#pragma once

#include <map>
#include <optional>
#include <vector>

namespace mptune::profiler {

/// How a device of a pipeline begins a step.
struct WarmUp {
  int before_backward = 0;  ///< forwards before the first backward
  int forwards = 0;         ///< of the whole step
  int stage = -1;           ///< place of the device among those that exchange messages; -1: not known
};

/// Several model chunks on each device, as in Megatron-LM's interleaved 1F1B.
struct VirtualStages {
  int ranks = 1;
  int chunks = 2;
  int microbatches = 0;
  std::map<int, int> place;  ///< by device: its place in the pipeline
};

/// Returns the places of the devices if they run interleaved 1F1B: of P devices in a row, with V chunks each, the one in place s runs 2 (P
/// - s - 1) + (V - 1) P + 1 forwards before its first backward; 1F1B without chunks runs P - s. Replicas are in the same place. Returns
/// nullopt if that is not so, or if a step has too few micro-batches for a device to end its warm-up.
[[nodiscard]] std::optional<VirtualStages> virtual_stages_of(const std::map<int, WarmUp>& devices);

}  // namespace mptune::profiler
