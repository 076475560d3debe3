#pragma once

#include <memory>
#include <vector>

#include "mptune/profiler/collect/collector.h"
#include "mptune/profiler/collect/tag_scope.h"

namespace mptune {

/// Records GPUs by their own clock, with the tags of the threads that gave them work.
class GpuCollector : public Collector, public TagSink {
 public:
  /// When the last recording started, in std::chrono::steady_clock since its epoch: time 0 of its trace.
  [[nodiscard]] virtual Nanoseconds started() const = 0;
};

/// Throws Error (environment) where no recorder of GPUs can be had: built without, or no CUPTI of the version it needs.
void require_gpu_collector();

/// The recorder of this build. `devices` become the first devices of the trace. Throws Error (environment) where it was built without.
[[nodiscard]] std::unique_ptr<GpuCollector> make_gpu_collector(std::vector<TraceDevice> devices);

}  // namespace mptune
