#pragma once

#include <memory>
#include <vector>

#include "profiler/device/tag_scope.h"
#include "profiler/trace/collect/collector.h"

namespace mptune::profiler {

/// Records GPUs by their own clock, with the tags of the threads that launch the work.
class GpuCollector : public Collector, public TagSink {
 public:
  /// Returns the start of the last recording, as time since the epoch of std::chrono::steady_clock: time 0 of its trace.
  [[nodiscard]] virtual Nanoseconds started() const = 0;
};

/// Throws Error (environment) if GPUs cannot be recorded: a build without CUPTI, or no library of the version it needs.
void require_gpu_collector();

/// Makes a recorder. `devices` become the first devices of the trace. Throws Error (environment) in a build without CUPTI.
[[nodiscard]] std::unique_ptr<GpuCollector> make_gpu_collector(std::vector<TraceDevice> devices);

}  // namespace mptune::profiler
