#pragma once

#include <torch/version.h>

#include <memory>

#include "profiler/device/copier.h"
#include "profiler/device/device.h"

namespace mptune::profiler {

/// Identifies the build; program and library must agree.
inline constexpr const char* kGpuLibraryBuild = MPTUNE_VERSION "/1/" TORCH_VERSION;

/// Functions that libmptune_cuda.so offers to the program that opens it. Both are built from the same sources.
struct GpuLibrary {
  std::shared_ptr<Device> (*make_device)(const DeviceSpec& spec) = nullptr;
  std::unique_ptr<Copier> (*make_copier)(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination,
                                         bool staged) = nullptr;
  /// True if `gpu` can access the memory of `other` (peer access).
  bool (*reaches)(int gpu, int other) = nullptr;
};

}  // namespace mptune::profiler

/// The library's only entry point. `build` is the caller's kGpuLibraryBuild; returns null if it differs from the library's.
extern "C" const mptune::profiler::GpuLibrary* mptune_cuda_entry(const char* build);
