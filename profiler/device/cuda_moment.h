#pragma once

#include <c10/cuda/CUDAEvent.h>

#include "mptune/profiler/device/moment.h"

namespace mptune {

/// What a stream was given until this object was made.
class CudaMoment final : public Moment {
 public:
  explicit CudaMoment(const c10::cuda::CUDAStream& stream) { event_.record(stream); }

  [[nodiscard]] bool reached() const override { return event_.query(); }
  void wait() const override { event_.synchronize(); }
  /// What `stream` is given from here on begins after this moment.
  void hold(const c10::cuda::CUDAStream& stream) const { event_.block(stream); }

 private:
  mutable c10::cuda::CUDAEvent event_;
};

[[nodiscard]] inline MomentPtr now_on(const c10::cuda::CUDAStream& stream) {
  return std::make_shared<CudaMoment>(stream);
}

/// What `stream` is given from here on begins after `moment`; the calling thread waits only for moments that are no GPU's.
inline void hold(const c10::cuda::CUDAStream& stream, const MomentPtr& moment) {
  if (const auto* on_gpu = dynamic_cast<const CudaMoment*>(moment.get())) {
    on_gpu->hold(stream);
  } else {
    wait_for(moment);
  }
}

}  // namespace mptune
