#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mptune/profiler/collect/collector.h"
#include "mptune/profiler/collect/tag_scope.h"

namespace mptune {

/// Records GPUs by their own clock, with the tags of the threads that gave them work.
class GpuCollector : public Collector, public TagSink {
 public:
  /// Puts a stream (CUcontext, CUstream; a null stream is the context's default one) of CUDA's device `cuda_device` onto a lane. Without
  /// it "cuda:N" gets all streams of GPU N, the busiest on its compute lane. Between start() and stop(); holds for later recordings too.
  /// Throws Error (environment) for streams that are not known.
  virtual void place(std::uint32_t cuda_device, void* context, void* stream, int trace_device, int lane) = 0;
  /// When the last recording started, in std::chrono::steady_clock since its epoch: time 0 of its trace.
  [[nodiscard]] virtual Nanoseconds started() const = 0;
};

/// The recorder of this build. `devices` become the first devices of the trace. Throws Error (environment) where it was built without.
[[nodiscard]] std::unique_ptr<GpuCollector> make_gpu_collector(std::vector<TraceDevice> devices);

}  // namespace mptune
