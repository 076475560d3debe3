#pragma once

#include <c10/cuda/CUDAEvent.h>

#include "profiler/device/moment.h"

namespace mptune::profiler {

/// The end of all work that a stream was given before this object was made.
class CudaMoment final : public Moment {
 public:
  explicit CudaMoment(const c10::cuda::CUDAStream& stream) { event_.record(stream); }

  [[nodiscard]] bool reached() const override { return event_.query(); }
  void wait() const override { event_.synchronize(); }
  /// Later work of `stream` starts after this moment.
  void hold(const c10::cuda::CUDAStream& stream) const { event_.block(stream); }

 private:
  mutable c10::cuda::CUDAEvent event_;
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
