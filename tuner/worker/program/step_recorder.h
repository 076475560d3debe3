#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "profiler/trace/collect/gpu_collector.h"
#include "profiler/trace/collect/host_collector.h"
#include "tuner/worker/program/rank_gpus.h"

namespace mptune::tuner {

/// Records steps on the host's clock and, if some devices are GPUs, with the GPU recorder. Use from one thread.
class StepRecorder {
 public:
  using MakeGpuCollector = std::function<std::unique_ptr<profiler::GpuCollector>(std::vector<TraceDevice>)>;

  /// `rank`: the rank whose GPUs are recorded here, where devices name ranks.
  explicit StepRecorder(std::vector<TraceDevice> devices, const MakeGpuCollector& make_gpus = profiler::make_gpu_collector, int rank = 0);

  /// Begins anew; earlier records are dropped. If GPUs refuse to be recorded, steps still run: see refusal().
  void start();
  [[nodiscard]] HostCollector& host() { return host_; }
  /// Returns the recorder that gets the tags of work launched on GPUs; null if no GPU is recorded.
  [[nodiscard]] profiler::GpuCollector* gpus() const { return gpus_.get(); }
  /// Merges both recordings, on the host's clock. Requires: the devices have finished their work.
  [[nodiscard]] Trace stop();
  /// Ends the recording of GPUs alone, on one of several ranks; the host's recording is taken by HostCollector::take(). Devices are named
  /// without the rank.
  [[nodiscard]] RankGpus stop_gpus();
  /// Returns why GPU work is known from the host's launches only; "" if GPUs are recorded.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  /// Runs `work` of the GPU recorder. If it throws, stores the reason in refusal_ and goes on without the recorder.
  void attempt(const std::function<void()>& work);

  HostCollector host_;
  std::unique_ptr<profiler::GpuCollector> gpus_;
  std::string refusal_;
};

}  // namespace mptune::tuner
