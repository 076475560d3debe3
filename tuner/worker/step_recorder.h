#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "profiler/collect/gpu_collector.h"
#include "profiler/collect/host_collector.h"

namespace mptune::tuner {

/// Records steps by the host's clock and, where there are GPUs among the devices, by theirs. Use from one thread.
class StepRecorder {
 public:
  using MakeGpuCollector = std::function<std::unique_ptr<profiler::GpuCollector>(std::vector<TraceDevice>)>;

  explicit StepRecorder(std::vector<TraceDevice> devices, const MakeGpuCollector& make_gpus = profiler::make_gpu_collector);

  /// Begins anew; earlier records are dropped. If GPUs refuse to be recorded, steps still run: see refusal().
  void start();
  [[nodiscard]] HostCollector& host() { return host_; }
  /// Takes the tags of what GPUs are given; null where none is recorded.
  [[nodiscard]] profiler::GpuCollector* gpus() const { return gpus_.get(); }
  /// Both recordings as one, on the host's clock. Requires: the devices are done with what they were given.
  [[nodiscard]] Trace stop();
  /// Why GPU work is known from the host's launches only; "" if GPUs are recorded.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  /// Runs `work` for the GPUs' recorder, and does without that where it fails.
  void attempt(const std::function<void()>& work);

  HostCollector host_;
  std::unique_ptr<profiler::GpuCollector> gpus_;
  std::string refusal_;
};

}  // namespace mptune::tuner
