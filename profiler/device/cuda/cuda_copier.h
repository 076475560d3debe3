#pragma once

#include <memory>

#include "profiler/device/copier.h"

namespace mptune::profiler {

/// True if `gpu` can access the memory of `other` (peer access). Enables that access.
[[nodiscard]] bool gpus_reach(int gpu, int other);

/// Does what make_copier() does for copies from, to or between GPUs and parts of GPUs.
[[nodiscard]] std::unique_ptr<Copier> make_cuda_copier(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination,
                                                       bool staged);

}  // namespace mptune::profiler
