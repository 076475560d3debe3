#pragma once

#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Which part of a pipeline each device is, by the copies between devices.
struct RankStage {
  int stage = 0;
  int replica = 0;
};

/// Devices that copy to each other make a pipeline. Its first stage is the device that first sends in a step, before it receives; the
/// others follow in the order in which they first receive. Pipelines are replicas, by their lowest device. A device that exchanges nothing
/// is a pipeline of its own. Requires: events ordered by start.
[[nodiscard]] std::vector<RankStage> stages_of_devices(const Trace& trace);

/// Tags all work with step, stage and replica of its device. In place of the micro-batch it sets how many pieces of work between
/// communications the device had in the step before; for communications, how many of the same kind. Ranges of the program say more
/// (pipeline_ranges.h).
/// Requires: events ordered by start, edges.
void tag_ranks(Trace& trace);

}  // namespace mptune::profiler
