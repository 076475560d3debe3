#pragma once

#include <memory>

#include "mptune/profiler/device/copier.h"

namespace mptune {

/// Whether `gpu` reads and writes the memory of `other` itself; then it is enabled to.
[[nodiscard]] bool gpus_reach(int gpu, int other);

/// make_copier where the source, the destination or both are GPUs or parts of them.
[[nodiscard]] std::unique_ptr<Copier> make_cuda_copier(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination,
                                                       bool staged);

}  // namespace mptune
