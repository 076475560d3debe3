#pragma once

#include <torch/version.h>

#include <memory>

#include "mptune/profiler/device/copier.h"
#include "mptune/profiler/device/device.h"

namespace mptune {

/// What both sides must have been built from.
inline constexpr const char* kGpuLibraryBuild = MPTUNE_VERSION "/1/" TORCH_VERSION;

/// What libmptune_cuda.so gives to the program that opens it. Both are built from the same sources.
struct GpuLibrary {
  std::shared_ptr<Device> (*make_device)(const DeviceSpec& spec) = nullptr;
  std::unique_ptr<Copier> (*make_copier)(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination,
                                         bool staged) = nullptr;
  /// Whether the first GPU reads the second one's memory without the host's.
  bool (*reaches)(int gpu, int other) = nullptr;
};

}  // namespace mptune

/// The library's one entry. `build` is the caller's kGpuLibraryBuild; null for another one than the library's own.
extern "C" const mptune::GpuLibrary* mptune_cuda_entry(const char* build);
