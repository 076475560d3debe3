#pragma once

#include <vector>

#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// A layer that was measured with slow kernels and with them replaced, at one micro-batch size: median forward and backward, other devices
/// idle.
struct SlowKernel {
  int device_class = 0;  ///< index into Profile::classes, of the class with kernels replaced
  int layer = 0;
  int samples = 0;
  double seconds = 0;  ///< time with slow kernels
  double replaced_seconds = 0;
};

/// Returns all slow kernels, in the order of classes, layers and sizes.
[[nodiscard]] std::vector<SlowKernel> slow_kernels(const Profile& profile);

/// Returns the same times of all layers together, including those without slow kernels, at the sizes of `kernels`; `layer` is -1.
[[nodiscard]] std::vector<SlowKernel> whole_model(const Profile& profile, const std::vector<SlowKernel>& kernels);

}  // namespace mptune::profiler
