#pragma once

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAMacros.h>

#include <array>
#include <memory>

#include "profiler/base/index.h"
#include "profiler/device/moment.h"
#include "profiler/device/pool.h"

namespace mptune::profiler {

using CudaEvents = Pool<c10::cuda::CUDAEvent>;

/// An event at the end of all work that the stream was given so far. Making an event takes the driver's lock, and every action of a step
/// needs some, so events are reused. `kFlags`: cudaEventDefault for events that measure times.
template <unsigned int kFlags>
[[nodiscard]] CudaEvents::Lent recorded_event(const c10::cuda::CUDAStream& stream) {
  // One pool per GPU, never destroyed: moments may outlive static objects.
  static auto& pools = *new std::array<CudaEvents, C10_COMPILE_TIME_MAX_GPUS>;
  CudaEvents::Lent event = pools.at(as_index(stream.device_index())).take(kFlags);
  event->record(stream);
  return event;
}

/// The end of all work that a stream was given before this object was made.
class CudaMoment final : public Moment {
 public:
  explicit CudaMoment(const c10::cuda::CUDAStream& stream) : event_(recorded_event<cudaEventDisableTiming>(stream)) {}

  [[nodiscard]] bool reached() const override { return event_->query(); }
  void wait() const override { event_->synchronize(); }
  /// Later work of `stream` starts after this moment.
  void hold(const c10::cuda::CUDAStream& stream) const { event_->block(stream); }

 private:
  CudaEvents::Lent event_;
};

[[nodiscard]] inline MomentPtr now_on(const c10::cuda::CUDAStream& stream) {
  return std::make_shared<CudaMoment>(stream);
}

/// Later work of `stream` starts after `moment`. The calling thread waits only if the moment is not a GPU's.
inline void hold(const c10::cuda::CUDAStream& stream, const MomentPtr& moment) {
  if (const auto* on_gpu = dynamic_cast<const CudaMoment*>(moment.get()))
    on_gpu->hold(stream);
  else
    wait_for(moment);
}

}  // namespace mptune::profiler
